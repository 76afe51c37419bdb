"""A job of Slurm as ``impirun -slurm`` reads it, and the commands that it makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.base.manifests import manifest
from impi.launch.server import slurm
from impi.launch.start import remote_shell
from impi.launch.start.launchers import PrteLauncher, SrunLauncher
from impi.launch.start.nodes import Node
from impi.launch.start.prefix import Installation
from impi.launch.start.program import Program, base_environment

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "left[1-2]",
    "SLURM_TASKS_PER_NODE_HET_GROUP_0": "3,1",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "right[1-2]",
    "SLURM_TASKS_PER_NODE_HET_GROUP_1": "2(x2)",
}
"""The variables that sbatch of Slurm 22.05 sets."""
INSIDE = {remote_shell.STEP: "--het-group=1"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ""),
        ("a", "a"),
        ("a,b", "a b"),
        ("a[1-3]", "a1 a2 a3"),
        ("a[08-10,12],b", "a08 a09 a10 a12 b"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("a[1-2]-ib,c7", "a1-ib a2-ib c7"),
    ],
)
def test_node_lists(text: str, names: str) -> None:
    assert slurm.expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text", ["a[", "a]", "a[1-]", "a[x]", "a,,b", ",", "a[1,]", "a[[1]]"]
)
def test_malformed_node_lists(text: str) -> None:
    with pytest.raises(UsageError, match="is not a list of nodes of Slurm"):
        slurm.expand(text)


@given(st.text(alphabet="ab[]0129,-", max_size=12))
def test_any_text_is_a_list_or_a_usage_error(text: str) -> None:
    try:
        names = slurm.expand(text)
    except UsageError:
        return
    assert all(name and not set(name) & set("[],") for name in names)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True))
def test_numbers_in_brackets_keep_their_order(numbers: list[int]) -> None:
    text = "n[" + ",".join(map(str, numbers)) + "]"
    assert slurm.expand(text) == tuple(f"n{number}" for number in numbers)


@given(
    st.lists(st.tuples(st.integers(1, 99), st.integers(1, 5)), min_size=1, max_size=5)
)
def test_tasks_per_node(runs: list[tuple[int, int]]) -> None:
    text = ",".join(
        f"{count}(x{times})" if times > 1 else str(count) for count, times in runs
    )
    assert slurm.tasks(text) == tuple(
        count for count, times in runs for _ in range(times)
    )


def test_components_of_a_heterogeneous_job() -> None:
    assert slurm.components(JOB) == (
        slurm.Component("--het-group=0", (Node("left1", 3), Node("left2", 1))),
        slurm.Component("--het-group=1", (Node("right1", 2), Node("right2", 2))),
    )


def test_an_allocation_without_components_is_one_client() -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a", "SLURM_TASKS_PER_NODE": "4"}
    assert slurm.components(job) == (slurm.Component("", (Node("a", 4),)),)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"SLURM_JOB_ID": ""},
            "-slurm needs an allocation of Slurm, and SLURM_JOB_ID is not set",
        ),
        ({"SLURM_HET_SIZE": "x"}, "SLURM_HET_SIZE is 'x'"),
        (
            {"SLURM_TASKS_PER_NODE_HET_GROUP_1": ""},
            "component 1 of the Slurm job has no tasks",
        ),
        (
            {"SLURM_TASKS_PER_NODE_HET_GROUP_1": "0(x2)"},
            "component 1 of the Slurm job has no tasks",
        ),
        (
            {"SLURM_TASKS_PER_NODE_HET_GROUP_1": "1"},
            "component 1 of the Slurm job has 2 nodes, but",
        ),
        ({"SLURM_TASKS_PER_NODE_HET_GROUP_1": "2x"}, "is not a list of tasks per node"),
        (
            {"SLURM_JOB_NODELIST_HET_GROUP_0": ""},
            "component 0 of the Slurm job has no node",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(changed: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        slurm.components({**JOB, **changed})
    assert "\n" not in str(raised.value)


def test_segments_of_the_command_line() -> None:
    found = slurm.components(JOB)
    assert slurm.segments(["--vendor", "mpich", "a", ":", "b", "c"], found) == (
        ("--vendor", "mpich", "a"),
        ("b", "c"),
    )
    assert slurm.segments(["a"], found) == (("a",), ("a",))
    with pytest.raises(
        UsageError,
        match="3 programs are named between colons, but the Slurm job has 2 components",
    ):
        slurm.segments(["a", ":", "b", ":", "c"], found)


def test_clients_start_by_srun_in_their_components() -> None:
    found = slurm.components(JOB)
    first, second = slurm.make_commands(
        found, (("a",), ("b",)), "h:1", {"PATH": "/bin", "IMPI_AUTH_SECRET": "s"}
    )
    assert second.argv[:6] == (
        "srun",
        "--het-group=1",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--nodelist=right1",
    )
    assert "--het-group=0" in first.argv
    assert second.spec["argv"][2:] == [
        "impi.cli.impirun",
        "-client",
        "1",
        "h:1",
        "--nodes",
        "right1:2,right2:2",
        "b",
    ]
    assert second.spec["env"] == {
        "IMPI_AUTH_SECRET": "s",
        remote_shell.STEP: "--het-group=1",
    }
    assert not any("IMPI_AUTH" in word for word in second.argv)


def program() -> Program:
    nodes = (Node("right1", 2), Node("right2", 1))
    return Program(
        argv=("/bin/prog",),
        nodes=nodes,
        environ=base_environment(INSIDE),
        join={"vendor": "x"},
    )


def test_mpich_by_srun_itself() -> None:
    installation = Installation(
        mpiexec="/m/bin/mpiexec", prefix=Path("/m"), library="/m/lib/libmpi.so.12"
    )
    [command] = SrunLauncher(manifest("mpich"), installation).commands(program())
    argv = command.spec["argv"]
    assert argv[:4] == ["srun", "--het-group=1", "--overlap", "--mpi=pmi2"]
    assert {
        "--nodes=2",
        "--ntasks=3",
        "--distribution=arbitrary",
        "--nodelist=right1,right1,right2",
    } <= set(argv)
    assert command.spec["env"]["MPI4PY_LIBMPI"] == installation.library


def test_daemons_of_open_mpi_by_srun(tmp_path: Path) -> None:
    installation = Installation(
        mpiexec="/o/bin/mpiexec", prefix=Path("/o"), library="/o/lib/libmpi.so.40"
    )
    [command] = PrteLauncher(manifest("openmpi"), installation).commands(program())
    env = command.spec["env"]
    assert (env["PRTE_MCA_ras"], env["PRTE_MCA_plm"]) == ("^slurm", "ssh")
    stand_in = tmp_path / "srun"
    stand_in.write_text(
        f'#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep="|")\n'
    )
    stand_in.chmod(0o755)
    asked = [
        *env["PRTE_MCA_plm_ssh_agent"].split(),
        "right2",
        "A=1 ;",
        "prted",
        "--x",
        "'y z'",
    ]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    told = subprocess.run(
        asked, env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout
    assert told.strip().split("|") == [
        "--het-group=1", "--overlap", "--nodes=1", "--ntasks=1", "--input=none", "--nodelist=right2",
        "sh", "-c", "A=1 ; prted --x 'y z'",
    ]  # fmt: skip


def impirun(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_")
    }
    argv = [sys.executable, "-m", "impi.cli.impirun", *arguments]
    return subprocess.run(
        argv, env={**kept, **environ}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "environ", "why"),
    [
        ("-slurm a", {}, "-slurm needs an allocation of Slurm"),
        ("-server 2 -slurm a", JOB, "-slurm counts and starts the clients itself"),
        ("-np 2 -slurm a", JOB, "-np belongs to -client"),
        ("-slurm a : -v b", JOB, "-v belongs to -server"),
        ("-slurm a : -np 9", JOB, "no program was named"),
        ("-slurm a : b : c", JOB, "3 programs are named between colons"),
        ("-slurm a : --vendor nobody b", JOB, "nobody"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: str, environ: dict[str, str], why: str
) -> None:
    ended = impirun(*arguments.split(), **environ)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert why in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_job_of_one_component_on_this_machine(tmp_path: Path) -> None:
    script = tmp_path / "prog.py"
    script.write_text(
        "from mpi4py import MPI\nprint(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, flush=True)\nexit(3)\n"
    )
    job = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_TASKS_PER_NODE": "2",
    }
    ended = impirun("-slurm", str(script), **job)
    assert ended.returncode == 3, ended.stderr
    assert sorted(ended.stdout.split("\n")) == ["", "0 2", "1 2"]
    assert shutil.which("ssh") is None or "ssh" not in ended.stderr
