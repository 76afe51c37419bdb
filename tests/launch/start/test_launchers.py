"""The commands of each launcher for a program, and jobs whose procs impirun starts itself.

In the jobs, impirun is the process manager of MPICH's library.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impi.base.manifests import manifest
from impi.base.records import replaced
from impi.launch.start import launchers
from impi.launch.start.launchers import (
    HydraLauncher,
    PmiLauncher,
    PrteLauncher,
    PureLauncher,
)
from impi.launch.start.nodes import parse
from impi.launch.start.prefix import Installation
from impi.launch.start.program import Command, Program, base_environment
from impi.rank.vendors.invitation import Invitation

MPICH = Installation(
    mpiexec="/m/bin/mpiexec", prefix=Path("/m"), library="/m/lib/libmpi.so.12"
)
OPENMPI = Installation(
    mpiexec="/o/bin/mpiexec", prefix=Path("/o"), library="/o/lib/libmpi.so.40"
)
JOIN: Invitation = {
    "control": "127.0.0.1:1",
    "token": "ab",
    "vendor": "x",
    "server": "127.0.0.1",
    "interface": "",
}

PROGRAM = str(Path(__file__).parent.parent / "programs" / "managed.py")
LEAVES = str(Path(__file__).parent.parent / "programs" / "odd_ranks_only.py")
RunJob = Callable[..., Any]
PMI = ["--launcher", "pmi"]


def program(nodes: str = "localhost:2", interface: str = "", **environ: str) -> Program:
    return Program(
        argv=("/bin/prog", "--nodes", "x y"),
        nodes=parse(nodes),
        environ=base_environment(environ),
        join=JOIN,
        interface=interface,
    )


def only(commands: list[Command]) -> tuple[list[str], dict[str, Any]]:
    """The one mpiexec that is started: its arguments and its environment."""
    [command] = commands
    [own] = command.spec["procs"].values()
    return command.spec["argv"], {**command.spec["env"], **own}


def test_mpich_on_one_node() -> None:
    argv, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program()))
    assert argv[:3] == ["/m/bin/mpiexec", "-n", "2"]
    assert argv[-3:] == ["/bin/prog", "--nodes", "x y"]
    assert "-hosts" not in argv
    assert "MPIR_CVAR_CH4_NETMOD" not in env
    assert env["MPI4PY_LIBMPI"] == MPICH.library
    assert json.loads(env["IMPI_JOIN"]) == {**JOIN, "size": 2, "library": "MPICH"}
    assert {"IMPI_JOIN", "MPI4PY_LIBMPI", "PYTHONPATH"} <= set(
        argv[argv.index("-genvlist") + 1].split(",")
    )


def test_hydra_makes_no_file_that_it_could_leave() -> None:
    argv, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program()))
    script = argv[argv.index("-c") + 1]
    assert env["HWLOC_XMLFILE"] == os.devnull
    told = subprocess.run(
        ["/bin/sh", "-c", script, "sh", "env"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "MPI4PY_LIBMPI=" in told.stdout
    assert "HWLOC_XMLFILE=" not in told.stdout
    argv, env = only(
        HydraLauncher(manifest("mpich"), MPICH).commands(program(HWLOC_XMLFILE="mine"))
    )
    assert env["HWLOC_XMLFILE"] == "mine"
    assert "HWLOC_XMLFILE" not in argv[argv.index("-c") + 1]
    _, env = only(HydraLauncher(manifest("intel"), MPICH).commands(program()))
    assert "HWLOC_XMLFILE" not in env, (
        "Intel's mpiexec ends by SIGSEGV where it is not a description"
    )


@pytest.mark.parametrize("may", [False, True])
def test_mpich_reads_the_others_memory_only_where_the_kernel_lets_it(
    may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "siblings_read", lambda: may)
    for nodes, asks in (
        ("localhost:2", True),
        ("localhost:1", False),
        ("far1:2,far2:1", False),
    ):
        _, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program(nodes)))
        assert env.get("MPIR_CVAR_CH4_CMA_ENABLE") == (None if may and asks else "0")


def test_mpich_on_several_nodes() -> None:
    argv, env = only(
        HydraLauncher(manifest("mpich"), MPICH).commands(
            program("far1:2,far2:1", interface="lo")
        )
    )
    assert argv[1:3] == ["-n", "3"]
    assert argv[argv.index("-hosts") + 1] == "far1:2,far2:1"
    assert argv[argv.index("-launcher") + 1] == "ssh"
    assert argv[argv.index("-iface") + 1] == "lo"
    assert (env["MPIR_CVAR_CH4_NETMOD"], env["FI_PROVIDER"], env["FI_TCP_IFACE"]) == (
        "ofi",
        "tcp",
        "lo",
    )
    assert "BatchMode=yes" in env["HYDRA_LAUNCHER_EXTRA_ARGS"]


def test_the_last_variable_of_mpich_is_one_that_may_be_lost() -> None:
    """Hydra does not forward the last variable of its environment."""
    _, env = only(
        HydraLauncher(manifest("mpich"), MPICH).commands(program(_="x", zzz="y"))
    )
    assert list(env)[-1] == "_"


def test_open_mpi_on_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    argv, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert argv[:5] == ["/o/bin/mpiexec", "-n", "2", "--bind-to", "none"]
    assert argv[-3:] == ["/bin/prog", "--nodes", "x y"]
    assert "--host" not in argv
    assert env["OMPI_MCA_btl"] == "^ofi,tcp"
    assert env["PRTE_MCA_rmaps_default_mapping_policy"] == ":oversubscribe"
    assert env["OMPI_MCA_coll_libnbc_ireduce_algorithm"] == "2", (
        "its chain takes 32 looks for a local phase of 1 MiB"
    )
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in env
    assert {argv[i + 1] for i, word in enumerate(argv) if word == "-x"} >= {
        "IMPI_JOIN",
        "MPI4PY_LIBMPI",
        "PYTHONPATH",
    }
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    _, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert env["OMPI_ALLOW_RUN_AS_ROOT"] == env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_open_mpi_on_several_nodes() -> None:
    argv, env = only(
        PrteLauncher(manifest("openmpi"), OPENMPI).commands(
            program("far1:2,far2:1", interface="lo")
        )
    )
    assert argv[argv.index("--host") + 1] == "far1:2,far2:1"
    assert argv[argv.index("--prefix") + 1] == "/o"
    assert env["OMPI_MCA_btl_tcp_if_include"] == "lo"
    assert "BatchMode=yes" in env["PRTE_MCA_plm_ssh_args"]


@pytest.mark.parametrize(
    "launcher",
    [
        HydraLauncher(manifest("mpich"), MPICH),
        PrteLauncher(manifest("openmpi"), OPENMPI),
    ],
)
def test_the_users_settings_win(launcher: HydraLauncher | PrteLauncher) -> None:
    mine = {
        "MPIR_CVAR_CH4_CMA_ENABLE": "1",
        "OMPI_MCA_btl": "tcp,self",
        "FI_PROVIDER": "sockets",
    }
    mine |= {"OMPI_MCA_coll_libnbc_ireduce_algorithm": "1"}
    _, env = only(launcher.commands(program("far1:2,far2:1", **mine)))
    assert {name: env[name] for name in mine} == mine


@pytest.mark.parametrize("crowd", [False, True])
def test_waiting_gives_way_only_where_cores_are_shared(
    crowd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda _pid: set(range(1 if crowd else 2))
    )
    _, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert ("OMPI_MCA_mpi_yield_when_idle" in env) is crowd
    _, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program()))
    assert ("MPIR_CVAR_POLLS_BEFORE_YIELD" in env) is crowd


def test_pure_here_and_elsewhere() -> None:
    here, there = PureLauncher().commands(
        program("localhost:2,far-away:1", MINE="1", OMP_NUM_THREADS="3")
    )
    assert list(here.spec["procs"]) == ["0", "1"]
    assert list(there.spec["procs"]) == ["2"]
    for command, node in ((here, "localhost"), (there, "far-away")):
        for rank, own in command.spec["procs"].items():
            assert json.loads(own["IMPI_JOIN"]) == {
                **JOIN,
                "rank": int(rank),
                "size": 3,
                "node": node,
            }
    assert here.argv[0] == "env"
    assert there.argv[0] == "ssh"
    assert "far-away" in there.argv
    assert "BatchMode=yes" in there.argv
    # SSH hands one string to a shell; nothing secret may be in it.
    assert JOIN["token"] not in " ".join(there.argv)
    assert here.spec["env"]["MINE"] == "1"
    assert "MINE" not in there.spec["env"]
    assert there.spec["env"]["OMP_NUM_THREADS"] == "3"


def test_mpich_without_its_mpiexec() -> None:
    managed = replaced(
        program("localhost:2,far-away:1"),
        manager="10.0.0.1:7",
        ids=(11, 12, 13),
        input="x:1 token",
    )
    here, there = PmiLauncher(manifest("mpich"), MPICH).commands(managed)
    assert here.ranks
    assert here.spec["argv"] == there.spec["argv"] == ["/bin/prog", "--nodes", "x y"]
    own = {**here.spec["procs"], **there.spec["procs"]}
    assert [own[rank]["PMI_ID"] for rank in ("0", "1", "2")] == ["11", "12", "13"]
    assert {one["PMI_PORT"] for one in own.values()} == {"10.0.0.1:7"}
    assert [
        (one["PMI_RANK"], one["PMI_SIZE"], one["MPI_LOCALRANKID"])
        for one in own.values()
    ] == [
        ("0", "3", "0"),
        ("1", "3", "1"),
        ("2", "3", "0"),
    ]
    for command in (here, there):
        assert command.spec["env"]["MPI4PY_LIBMPI"] == MPICH.library
        assert json.loads(command.spec["env"]["IMPI_JOIN"]) == {
            **JOIN,
            "size": 3,
            "library": "MPICH",
        }
        assert "IMPI_INPUT" not in command.spec["env"]
    assert [rank for rank, one in own.items() if "IMPI_INPUT" in one] == ["0"]


@pytest.mark.parametrize(
    ("clients", "options"),
    [
        (["mpich:3", "pure:1"], {0: PMI}),
        (["mpich:2", "mpich:2"], {0: PMI, 1: PMI}),
        (["mpich:2", "openmpi:1"], {0: [*PMI, "--hosts", "client"]}),
        # Two nodes, which are both here: MPICH's library takes them for two.
        pytest.param(
            ["mpich:2", "pure:1"],
            {0: [*PMI, "--nodes", "localhost:1,127.0.0.1:1"]},
            marks=pytest.mark.proof,
        ),
    ],
)
def test_a_ring_without_an_mpiexec(
    clients: list[str], options: dict[int, list[str]], run_job: RunJob
) -> None:
    crowded = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "FI_TCP_IFACE": "lo"}
    result = run_job(
        [PROGRAM, "end"],
        clients,
        options=options,
        environ=crowded,
        stdin="and its input",
    )
    assert result.codes == [0, 0, 0], str(result)
    size = sum(int(client.partition(":")[2]) for client in clients)
    assert result.out == f"a ring of {size}, and its input\n"
    assert not result.clients[0].err


def test_mpi_abort_ends_the_job_with_its_code(run_job: RunJob) -> None:
    result = run_job(
        [PROGRAM, "abort"], ["mpich:3", "pure:1"], options={0: PMI}, stdin=""
    )
    assert [end.code for end in result.clients] == [7, 7], str(result)
    assert "rank 1 of this client ended with exit code 7" in result.clients[0].err
    assert "called MPI_Abort" in result.clients[0].err


def test_a_rank_that_is_killed_ends_the_job(run_job: RunJob) -> None:
    result = run_job(
        [PROGRAM, "kill"], ["mpich:3", "pure:1"], options={0: PMI}, stdin=""
    )
    assert [end.code for end in result.clients] == [137, 137], str(result)
    assert (
        "rank 1 of this client was ended by SIGKILL, while the job was running"
        in result.clients[0].err
    )


def test_a_rank_that_leaves_ends_the_job(run_job: RunJob) -> None:
    result = run_job(
        [PROGRAM, "leave"], ["mpich:3", "pure:1"], options={0: PMI}, stdin=""
    )
    assert [end.code for end in result.clients] == [1, 1], str(result)
    assert (
        "rank 1 of this client ended with exit code 0, but without MPI_Finalize"
        in result.clients[0].err
    )


def test_a_rank_that_never_comes_ends_the_job(run_job: RunJob) -> None:
    result = run_job([LEAVES], ["mpich:2", "pure:2"], options={0: PMI})
    assert [end.code for end in result.clients] == [1, 1], str(result)
    assert (
        "rank 0 of this client ended without initialising MPI, while others wait for it"
        in str(result)
    )


@pytest.mark.parametrize(
    ("vendor", "why"),
    [("pure", "pure has no library"), ("openmpi", "openmpi does not speak PMI-1")],
)
def test_other_libraries_are_refused_in_a_sentence(
    vendor: str, why: str, run_job: RunJob
) -> None:
    result = run_job([PROGRAM], [f"{vendor}:1"], options={0: PMI})
    assert result.clients[0].code == 4, str(result)
    assert (
        f"--launcher pmi is for libraries such as MPICH: {why}" in result.clients[0].err
    )


def test_the_loader_knows_the_folder_of_the_usual_name() -> None:
    renamed = Installation(
        mpiexec="/m/bin/mpiexec",
        prefix=Path("/m"),
        library="/c/as-1/libmpi.so.12",
        links="/c/as-1",
    )
    argv, env = only(
        HydraLauncher(manifest("mpich"), renamed).commands(
            program(LD_LIBRARY_PATH="/mine")
        )
    )
    assert env["LD_LIBRARY_PATH"] == "/c/as-1:/mine"
    assert "LD_LIBRARY_PATH" in argv[argv.index("-genvlist") + 1].split(",")
