"""What each launcher makes of a program: arguments, settings, environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from impi.launch import library_settings
from impi.launch.hydra import HydraLauncher
from impi.launch.managed import PmiLauncher
from impi.launch.nodes import parse
from impi.launch.prefix import Installation
from impi.launch.program import Command, Program, base_environment
from impi.launch.prte import PrteLauncher
from impi.launch.pure import PureLauncher
from impi.manifests import manifest
from impi.records import replaced

MPICH = Installation(mpiexec="/m/bin/mpiexec", prefix=Path("/m"), library="/m/lib/libmpi.so.12")
OPENMPI = Installation(mpiexec="/o/bin/mpiexec", prefix=Path("/o"), library="/o/lib/libmpi.so.40")
JOIN = {"control": "127.0.0.1:1", "token": "ab", "vendor": "x", "server": "127.0.0.1", "interface": ""}


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
    assert {"IMPI_JOIN", "MPI4PY_LIBMPI", "PYTHONPATH"} <= set(argv[argv.index("-genvlist") + 1].split(","))


def test_hydra_makes_no_file_that_it_could_leave() -> None:
    argv, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program()))
    script = argv[argv.index("-c") + 1]
    assert env["HWLOC_XMLFILE"] == os.devnull
    told = subprocess.run(["/bin/sh", "-c", script, "sh", "env"], env=env, capture_output=True, text=True, check=True)
    assert "MPI4PY_LIBMPI=" in told.stdout
    assert "HWLOC_XMLFILE=" not in told.stdout
    argv, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program(HWLOC_XMLFILE="mine")))
    assert env["HWLOC_XMLFILE"] == "mine"
    assert "HWLOC_XMLFILE" not in argv[argv.index("-c") + 1]
    _, env = only(HydraLauncher(manifest("intel"), MPICH).commands(program()))
    assert "HWLOC_XMLFILE" not in env, "Intel's mpiexec ends by SIGSEGV where it is no description"


@pytest.mark.parametrize("may", [False, True])
def test_mpich_reads_the_others_memory_only_where_the_kernel_lets_it(
    may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_settings, "siblings_read", lambda: may)
    for nodes, asks in (("localhost:2", True), ("localhost:1", False), ("far1:2,far2:1", False)):
        _, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program(nodes)))
        assert env.get("MPIR_CVAR_CH4_CMA_ENABLE") == (None if may and asks else "0")


def test_mpich_on_several_nodes() -> None:
    argv, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program("far1:2,far2:1", interface="lo")))
    assert argv[1:3] == ["-n", "3"]
    assert argv[argv.index("-hosts") + 1] == "far1:2,far2:1"
    assert argv[argv.index("-launcher") + 1] == "ssh"
    assert argv[argv.index("-iface") + 1] == "lo"
    assert (env["MPIR_CVAR_CH4_NETMOD"], env["FI_PROVIDER"], env["FI_TCP_IFACE"]) == ("ofi", "tcp", "lo")
    assert "BatchMode=yes" in env["HYDRA_LAUNCHER_EXTRA_ARGS"]


def test_the_last_variable_of_mpich_is_one_that_may_be_lost() -> None:
    """Hydra does not forward the last variable of its environment."""
    _, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program(_="x", zzz="y")))
    assert list(env)[-1] == "_"


def test_open_mpi_on_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    argv, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert argv[:5] == ["/o/bin/mpiexec", "-n", "2", "--bind-to", "none"]
    assert argv[-3:] == ["/bin/prog", "--nodes", "x y"]
    assert "--host" not in argv
    assert env["OMPI_MCA_btl"] == "^ofi,tcp"
    assert env["PRTE_MCA_rmaps_default_mapping_policy"] == ":oversubscribe"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in env
    assert {argv[i + 1] for i, word in enumerate(argv) if word == "-x"} >= {"IMPI_JOIN", "MPI4PY_LIBMPI", "PYTHONPATH"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    _, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert env["OMPI_ALLOW_RUN_AS_ROOT"] == env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_open_mpi_on_several_nodes() -> None:
    argv, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program("far1:2,far2:1", interface="lo")))
    assert argv[argv.index("--host") + 1] == "far1:2,far2:1"
    assert argv[argv.index("--prefix") + 1] == "/o"
    assert env["OMPI_MCA_btl_tcp_if_include"] == "lo"
    assert "BatchMode=yes" in env["PRTE_MCA_plm_ssh_args"]


@pytest.mark.parametrize(
    "launcher", [HydraLauncher(manifest("mpich"), MPICH), PrteLauncher(manifest("openmpi"), OPENMPI)]
)
def test_the_users_settings_win(launcher: HydraLauncher | PrteLauncher) -> None:
    mine = {"MPIR_CVAR_CH4_CMA_ENABLE": "1", "OMPI_MCA_btl": "tcp,self", "FI_PROVIDER": "sockets"}
    _, env = only(launcher.commands(program("far1:2,far2:1", **mine)))
    assert {name: env[name] for name in mine} == mine


@pytest.mark.parametrize("crowd", [False, True])
def test_waiting_gives_way_only_where_cores_are_shared(crowd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(1 if crowd else 2)))
    _, env = only(PrteLauncher(manifest("openmpi"), OPENMPI).commands(program()))
    assert ("OMPI_MCA_mpi_yield_when_idle" in env) is crowd
    _, env = only(HydraLauncher(manifest("mpich"), MPICH).commands(program()))
    assert ("MPIR_CVAR_POLLS_BEFORE_YIELD" in env) is crowd


def test_pure_here_and_elsewhere() -> None:
    here, there = PureLauncher().commands(program("localhost:2,far-away:1", MINE="1", OMP_NUM_THREADS="3"))
    assert list(here.spec["procs"]) == ["0", "1"]
    assert list(there.spec["procs"]) == ["2"]
    for command, node in ((here, "localhost"), (there, "far-away")):
        for rank, own in command.spec["procs"].items():
            assert json.loads(own["IMPI_JOIN"]) == {**JOIN, "rank": int(rank), "size": 3, "node": node}
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
    managed = replaced(program("localhost:2,far-away:1"), manager="10.0.0.1:7", ids=(11, 12, 13), input="x:1 token")
    here, there = PmiLauncher(manifest("mpich"), MPICH).commands(managed)
    assert here.ranks
    assert here.spec["argv"] == there.spec["argv"] == ["/bin/prog", "--nodes", "x y"]
    own = {**here.spec["procs"], **there.spec["procs"]}
    assert [own[rank]["PMI_ID"] for rank in ("0", "1", "2")] == ["11", "12", "13"]
    assert {one["PMI_PORT"] for one in own.values()} == {"10.0.0.1:7"}
    assert [(one["PMI_RANK"], one["PMI_SIZE"], one["MPI_LOCALRANKID"]) for one in own.values()] == [
        ("0", "3", "0"),
        ("1", "3", "1"),
        ("2", "3", "0"),
    ]
    for command in (here, there):
        assert command.spec["env"]["MPI4PY_LIBMPI"] == MPICH.library
        assert json.loads(command.spec["env"]["IMPI_JOIN"]) == {**JOIN, "size": 3, "library": "MPICH"}
        assert "IMPI_INPUT" not in command.spec["env"]
    assert [rank for rank, one in own.items() if "IMPI_INPUT" in one] == ["0"]


def test_environment_of_procs() -> None:
    outer = {
        "PATH": "/bin",
        "IMPI_AUTH_KEY": "secret",
        "IMPI_AUTH_NONE": "",
        "IMPI_JOIN": "{}",
        "PMI_RANK": "3",
        "PMIX_RANK": "1",
        "OMPI_COMM_WORLD_RANK": "1",
        "PRTE_MCA_x": "kept",
        "IMPILAB_RUN": "kept",
        "PYTHONPATH": "/mine",
    }
    env = base_environment(outer)
    assert set(env) == {"PATH", "PRTE_MCA_x", "IMPILAB_RUN", "PYTHONPATH"}
    first, *rest = env["PYTHONPATH"].split(":")
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest == ["/mine"]
    assert base_environment(env) == env
