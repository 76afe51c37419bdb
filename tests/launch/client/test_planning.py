"""Faults of a client that are found without a job."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from impi.base.errors import UsageError
from impi.launch.client import planning
from impi.launch.client.planning import control_address, make_plan, numeric, plan_client
from impi.launch.start.nodes import Node, parse
from impi.launch.start.prefix import Installation
from impi.launch.start.without_mpi import bare
from impi.protocol.options import ClientOptions
from impi.protocol.settings import made
from impi.rank.vendors import interfaces


def options(*argv: str, **more: Any) -> ClientOptions:
    return made(
        ClientOptions, rank=0, server="127.0.0.1:1", argv=argv or ("true",), **more
    )


def plan(*argv: str, **more: Any) -> planning.Plan:
    return make_plan(options(*argv, **more), os.environ, print)


def test_without_nodes_all_procs_are_here() -> None:
    made = plan("sh", "-c", "true", procs=3)
    assert (made.placed, made.one_node, made.inside) == (
        (Node("localhost", 3),),
        True,
        False,
    )
    # A shell may start what needs our library, so something stands before it.
    program = bare(made.argv)
    assert (Path(program[0]).name, program[1:]) == ("sh", ("-c", "true"))
    assert [made.hosts(kind) for kind in ("proc", "node", "client")] == [3, 1, 1]


def test_a_python_program_is_run_by_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    assert plan("mine.py", "x").argv == (sys.executable, "mine.py", "x")
    with pytest.raises(UsageError, match=r"there is no program other\.py in"):
        plan("other.py")
    assert plan("other.py", nodes="far1:2").argv[1] == "other.py", "it may be there"


@pytest.mark.parametrize(
    ("vendor", "options", "in_slurm", "launcher"),
    [
        ("mpich", {}, False, "PmiLauncher"),
        ("mpich", {"launcher": "mpiexec"}, False, "HydraLauncher"),
        ("mpich", {"nodes": "far1:2"}, False, "HydraLauncher"),
        ("mpich", {"nodes": "far1:2", "launcher": "pmi"}, False, "PmiLauncher"),
        ("mpich", {}, True, "SrunLauncher"),
        ("openmpi", {}, False, "PrteLauncher"),
        ("pure", {}, False, "PureLauncher"),
    ],
)
def test_impirun_is_the_process_manager_where_it_can_and_all_procs_are_here(
    vendor: str,
    options: dict[str, str],
    in_slurm: bool,
    launcher: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Installation(
        mpiexec="/x/bin/mpiexec", prefix=Path("/x"), library="/x/lib/libmpi.so"
    )
    monkeypatch.setattr(planning, "find", lambda *_: library)
    monkeypatch.setattr(planning, "in_slurm", lambda _: in_slurm)
    made = plan("sh", "-c", "true", vendor=vendor, **options)
    assert type(made.launcher).__name__ == launcher
    assert made.manages == (launcher == "PmiLauncher")


def test_nodes_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("far1 slots=2\nfar2 slots=1\n")
    assert plan(hostfile=str(file)).placed == parse("far1:2,far2:1")
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not text"):
        plan(hostfile=str(file))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        plan(hostfile=str(tmp_path / "none"))


def test_one_agent_for_all_needs_no_interface_that_others_reach() -> None:
    made = plan(nodes="far1:2,far2:2", hosts="client", interface="lo")
    assert (made.inside, made.interface) == (True, "")


def test_hosts_are_told_where_to_listen() -> None:
    assert plan(ports=range(20000, 20011)).variables == {"IMPI_PORTS": "20000-20010"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"procs": 3, "nodes": "far:2"}, "-np 3 is more than the 2 slots"),
        ({"nodes": "far:2", "hostfile": "x"}, "both name nodes: leave one of them out"),
        (
            {"resilient": True, "impi_version": "0.0"},
            "--resilient needs a version of our own",
        ),
        (
            {"resilient": True, "hosts": "node"},
            "--resilient needs a host for each proc: leave out --hosts node",
        ),
        (
            {"lazy": True, "resilient": True},
            "--lazy and --resilient exclude each other",
        ),
        (
            {"lazy": True, "hosts": "client"},
            "--lazy and --hosts client exclude each other",
        ),
        (
            {"launcher": "pmi"},
            "--launcher pmi is for libraries such as MPICH: pure has no library",
        ),
        (
            {"interface": "192.0.2.77"},
            "--interface 192.0.2.77 is not an address of this machine",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(more: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan(**more)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(
        UsageError, match="there is no program 'no-such-program' on the PATH"
    ):
        plan("no-such-program")


def test_only_an_outer_manager_has_tasks() -> None:
    with ExitStack() as stack:
        tasks, made = plan_client(options(procs=2), os.environ, print, stack)
    assert (tasks, made.placed) == (None, (Node("localhost", 2),))


def test_where_procs_reach_impirun() -> None:
    assert control_address((Node("localhost"),), "") == "127.0.0.1"
    assert control_address((Node("localhost"), Node("far")), "lo") == "127.0.0.1"


def test_a_servers_address_is_valid_on_all_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interfaces, "outgoing_address", lambda *_: "10.0.0.9")
    assert numeric("localhost", True) == "127.0.0.1"
    assert numeric("localhost", False) == "10.0.0.9"
    assert numeric("10.0.0.7", False) == "10.0.0.7"
    with pytest.raises(UsageError, match=r"no-such-host\.invalid has no address"):
        numeric("no-such-host.invalid", True)


def test_a_missing_mpi4py_is_said_before_the_job_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    monkeypatch.setattr(planning, "_launcher", lambda *_args, **_named: _WithLibrary())
    monkeypatch.setattr(planning, "is_missing", lambda folder: folder == "")
    with pytest.raises(
        UsageError, match=f"^{re.escape(sys.executable)} has no mpi4py, through which"
    ):
        plan("mine.py", vendor="mpich")
    assert plan("true", vendor="mpich").way
    # The programs of that machine are not known
    assert plan("mine.py", vendor="mpich", nodes="far1:2").way


class _WithLibrary:
    library = "/lib/libmpi.so.12"


@pytest.mark.clause("2.2.4")
@pytest.mark.parametrize(
    ("vendor", "nodes", "slurm", "by"),
    [
        ("mpich", "far:2", False, "MPICH"),
        ("mpich", "localhost:1,far:1", False, "MPICH"),
        ("openmpi", "localhost:1,far:1", False, "Open MPI"),
        ("pure", "localhost:1,far:1", True, "srun"),
        ("pure", "localhost:1,far:1", False, ""),
        ("mpich", "localhost:2", False, ""),
        ("pure", "localhost:2", True, ""),
    ],
)
def test_what_is_in_clear_between_nodes_is_refused_with_tls(
    vendor: str, nodes: str, slurm: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Installation(mpiexec="/m/mpiexec", prefix=Path("/m"), library="/m/lib")
    monkeypatch.setattr(planning, "find", lambda *_: library)
    monkeypatch.setattr(planning, "served", lambda argv, *_: (argv, ""))
    monkeypatch.setattr(planning, "is_missing", lambda _: False)
    environ = {"IMPI_SLURM_STEP": "--het-group=1"} if slurm else {}
    chosen = options(vendor=vendor, nodes=nodes)
    found = make_plan(chosen, environ, print)
    why = planning.in_clear(chosen, environ, found)
    assert bool(why) == bool(by)
    if by:
        assert re.match(
            f"this job has --tls, and what {by} sends between .* and far", why
        )
        assert "--vendor pure" in why
        assert "--own-network" in why
    own = options(vendor=vendor, nodes=nodes, own_network=True)
    assert planning.in_clear(own, environ, found) == ""
