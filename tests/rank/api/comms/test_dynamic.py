"""Ports, Spawn and Join across jobs and vendors (MPI 4.1, chapter 11)."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from impi.protocol.decisions import FORMAT
from impi.protocol.options import Offer
from impi.rank.engine.job import bootstrap

PROGRAMS = Path(__file__).parents[3] / "jobs" / "programs"
MEETING = str(PROGRAMS / "meeting.py")
SPAWNING = str(PROGRAMS / "spawning.py")
NAMES = str(PROGRAMS / "names.py")


def both(
    run_job: Callable[..., Any],
    file: Path,
    clients: Sequence[Sequence[str]],
    *words: str,
    **options: Any,
) -> Any:
    """Run an accepting and a connecting job at a time; ``options`` are for the second."""
    with ThreadPoolExecutor(2) as pool:
        accepting = pool.submit(
            run_job, [MEETING, "accept", str(file), *words], clients[0]
        )
        connecting = pool.submit(
            run_job, [MEETING, "connect", str(file), *words], clients[1], **options
        )
        return accepting.result(), connecting.result()


@pytest.mark.parametrize(
    ("accepting", "connecting"),
    [
        pytest.param(["mpich:2", "pure:1"], ["openmpi:2"], id="three vendors"),
        pytest.param(["pure:1"], ["pure:2", "mpich:1"], id="one proc"),
        pytest.param(["openmpi:2"], ["openmpi:2"], id="one vendor"),
    ],
)
def test_two_jobs_meet(
    accepting: list[str],
    connecting: list[str],
    run_job: Callable[..., Any],
    tmp_path: Path,
) -> None:
    for job in both(run_job, tmp_path / "port", [accepting, connecting]):
        assert set(job.codes) == {0}, str(job)


def test_a_job_with_agents_meets_another(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    agents = {"options": {0: ["--hosts", "client"], 1: ["--hosts", "node"]}}
    for job in both(
        run_job, tmp_path / "port", [["pure:2"], ["pure:2", "mpich:2"]], **agents
    ):
        assert set(job.codes) == {0}, str(job)


def test_a_process_without_impirun_meets_a_job(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "port"
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(
            run_job, [MEETING, "accept", str(file)], ["mpich:1", "pure:1"]
        )
        code = (
            "import runpy, sys, impi.MPI, mpi4py\nsys.modules['mpi4py.MPI'] = mpi4py.MPI = impi.MPI\n"
            f"sys.argv = ['', 'connect', {str(file)!r}]\nrunpy.run_path({MEETING!r})"
        )
        alone = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        job = accepting.result()
    assert set(job.codes) == {0}, f"{job}\n{alone.stderr}"
    assert (alone.returncode, alone.stdout) == (0, "connect 0\n"), alone.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--datalen", "4096"],
            "--datalen is {} in one job and {} in the other; start both alike",
        ),
        (
            ["--impi-version", "0.0"],
            "jobs of IMPI 0.0 cannot meet: each client needs a version of our own",
        ),
    ],
)
def test_jobs_that_differ_are_refused_on_both_sides(
    options: list[str], told: str, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    accepting, connecting = both(
        run_job,
        tmp_path / "port",
        [["pure:1"], ["pure:2"]],
        "refused",
        options={0: options},
    )
    assert set(accepting.codes) == set(connecting.codes) == {0}, (
        f"{accepting}\n{connecting}"
    )
    assert told.format(262144, 4096) in accepting.out
    assert told.format(4096, 262144) in connecting.out


@pytest.mark.parametrize(
    "clients", [["mpich:1", "openmpi:1"], ["pure:2", "mpich:1"]], ids="+".join
)
def test_procs_start_others(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([SPAWNING], clients)
    assert set(result.codes) == {0}, str(result)
    lines = [line for line in result.clients[0].out.splitlines() if line]
    assert lines == ["['one'] 2", "['two'] 3", "['four'] 1", "refused", "['five'] 2"], (
        str(result)
    )


def test_children_have_the_terms_of_their_parents(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    tuning = tmp_path / "tuning.json"
    tuning.write_text(
        json.dumps({"format": FORMAT, "decisions": {"bcast": [{"algorithm": "flat"}]}})
    )
    options = [
        "--external32",
        "--datalen",
        "4096",
        "--ackmark",
        "3",
        "--hiwater",
        "9",
        "--xsize",
        "100",
    ]
    options += [
        "--maxlinear",
        "2",
        "--collectives",
        "reduce=reproducible",
        "--tuning",
        str(tuning),
    ]
    program = tmp_path / "alike.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nparents = MPI.Comm.Get_parent()\n"
        f"other = parents or MPI.COMM_WORLD.Spawn(sys.executable, [{str(program)!r}], maxprocs=2)\n"
        "assert other.allgather(2.5) == [2.5] * other.Get_remote_size()\nother.Disconnect()\n"
    )
    both = {0: options, 1: options}
    result = run_job(
        [str(program)],
        ["pure:1", "mpich:1"],
        options=both,
        environ={"IMPI_VERIFY": "1"},
    )
    assert set(result.codes) == {0}, str(result)


def test_a_lost_parent_ends_its_children(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    """And the other way: connected jobs are one for failures (MPI 4.1, 11.10.4)."""
    program = tmp_path / "lost.py"
    program.write_text(
        "import os, signal, sys\nfrom mpi4py import MPI\nparents = MPI.Comm.Get_parent()\n"
        "if parents != MPI.COMM_NULL:\n"
        "    parents.send(os.getpid(), 0)\n    parents.recv(source=0)\n    sys.exit()\n"
        f"children = MPI.COMM_WORLD.Spawn(sys.executable, [{str(program)!r}])\n"
        "print(children.recv(source=0), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = run_job([str(program)], ["pure:1"])
    assert result.codes[1] != 0
    child = int(result.clients[0].out)
    assert ends(child)


def ends(pid: int) -> bool:
    """Whether a process ends within 30 s."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(fd):
        return bool(select.select([fd], [], [], 30)[0])


def test_an_executor_starts_its_workers(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "executor.py"
    program.write_text(
        "from mpi4py import MPI\nfrom mpi4py.futures import MPIPoolExecutor\nif __name__ == '__main__':\n"
        "    if MPI.COMM_WORLD.rank == 1:\n        with MPIPoolExecutor(2) as pool:\n"
        "            print(list(pool.map(abs, [-1, -2])))\n    MPI.COMM_WORLD.Barrier()\n"
    )
    result = run_job([str(program)], ["mpich:1", "openmpi:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.clients[1].out.strip() == "[1, 2]", str(result)


def test_a_process_alone_has_the_limits_that_clients_offer() -> None:
    """Or it could not meet a job; it does not load the options at its start."""
    job, offer = bootstrap._singleton(), Offer()
    assert (job.maxdatalen, job.ackmark, job.hiwater) == (
        offer.datalen,
        offer.ackmark,
        offer.hiwater,
    )


ADDRESSES = """
import os, sys
from mpi4py import MPI
from impi.rank.api import runtime
from impi.protocol.wire import addresses
parents = MPI.Comm.Get_parent()
if parents == MPI.COMM_NULL:
    children = MPI.COMM_WORLD.Spawn(sys.executable, [__file__])
    print(*children.recv(source=0))
    children.Disconnect()
else:
    prefix = os.environ.get("IMPI_PREFIX_MPICH")
    parents.send((prefix, addresses.to_text(runtime.engine().job.procs[0].ipv6)), 0)
    parents.Disconnect()
"""


def test_children_are_reached_from_other_machines_and_find_the_libraries_of_this_one(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "addresses.py"
    program.write_text(ADDRESSES)
    job = run_job(
        [str(program)],
        ["pure:1"],
        options={0: ["--interface", "127.0.0.2"]},
        environ={"IMPI_PREFIX_MPICH": "/mpi"},
    )
    assert job.out == "/mpi 127.0.0.2\n", str(job)


@pytest.fixture
def server_alone() -> Iterator[str]:
    """HOST:PORT of a server that no client ever joins: a server of names, and nothing else."""
    command = [
        sys.executable,
        "-m",
        "impi.cli.impirun",
        "-server",
        "1",
        "--interface",
        "127.0.0.1",
    ]
    environ = {**os.environ, "IMPI_AUTH_SECRET": SECRET}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environ
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


SECRET = "the secret of servers of names"
_OWN = {"IMPI_AUTH_NONE": "1", "IMPI_AUTH_SECRET": SECRET}


def test_names_live_in_the_server_of_the_job(run_job: Callable[..., Any]) -> None:
    result = run_job([NAMES, "alone"], ["mpich:1", "openmpi:1", "pure:2"])
    assert set(result.codes) == {0}, str(result)
    name = '"the ocean\'s wärme"'
    told = [
        line.rpartition(" at ")[0]
        for line in result.clients[0].out.splitlines()
        if line
    ]
    assert told == [
        f"MPI_ERR_NAME: service name is not published: no port is published as {name}",
        f"MPI_ERR_SERVICE: invalid service name: no port is published as {name}",
        f"MPI_ERR_SERVICE: invalid service name: {name} is published already; unpublish it first",
        f"MPI_ERR_SERVICE: invalid service name: {name} is published for another port",
    ]


@pytest.mark.parametrize("how", ["info", "variable"])
def test_two_jobs_meet_by_a_name(
    how: str, run_job: Callable[..., Any], server_alone: str
) -> None:
    """Vendors on one side, processes without impirun on the other."""
    words = [server_alone] if how == "info" else []
    environ = _OWN if how == "info" else {**_OWN, "IMPI_NAMESERVER": server_alone}
    with ThreadPoolExecutor(2) as pool:
        publishing = pool.submit(
            run_job, [NAMES, "publish", *words], ["mpich:1", "pure:1"], environ=environ
        )
        looking = pool.submit(
            run_job, [NAMES, "lookup", *words], ["openmpi:1"], environ=environ
        )
        for job, other in (
            (publishing.result(), "lookup"),
            (looking.result(), "publish"),
        ):
            assert set(job.codes) == {0}, str(job)
            assert f"met ['{other}'" in job.out


def test_a_process_without_impirun_meets_a_job_by_a_name(
    run_job: Callable[..., Any], server_alone: str
) -> None:
    environ = {**_OWN, "IMPI_NAMESERVER": server_alone}
    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(
            run_job, [NAMES, "publish"], ["mpich:1", "pure:1"], environ=environ
        )
        alone = without_impirun(["lookup"], environ)
        job = publishing.result()
    assert set(job.codes) == {0}, f"{job}\n{alone.stderr}"
    assert (alone.returncode, alone.stdout) == (0, "met ['publish', 'publish']\n"), (
        alone.stderr
    )


def test_children_have_the_names_of_their_parents(run_job: Callable[..., Any]) -> None:
    result = run_job([NAMES, "parent"], ["pure:1"])
    assert set(result.codes) == {0}, str(result)


def test_names_are_for_those_who_know_the_secret(server_alone: str) -> None:
    ended = without_impirun(
        ["refused", server_alone], {"IMPI_AUTH_SECRET": "another secret, as long"}
    )
    assert (
        "has another secret: give both jobs the same IMPI_AUTH_SECRET" in ended.stdout
    ), ended.stderr
    ended = without_impirun(["refused"], {})
    assert "this process has no server of names: set IMPI_NAMESERVER" in ended.stdout, (
        ended.stderr
    )
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    ended = without_impirun(["refused", f"127.0.0.1:{port}"], {})
    assert f"no server of names answers at 127.0.0.1:{port}" in ended.stdout, (
        ended.stderr
    )


def without_impirun(
    words: Sequence[str], environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    code = (
        "import runpy, sys, impi.MPI, mpi4py\nsys.modules['mpi4py.MPI'] = mpi4py.MPI = impi.MPI\n"
        f"sys.argv = ['', *{list(words)!r}]\nrunpy.run_path({NAMES!r})"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **environ},
    )


SPAWNS_ELSEWHERE = """
import os, sys
from mpi4py import MPI
os.chdir(sys.argv[1])
code = "from mpi4py import MPI; MPI.Comm.Get_parent().Barrier()"
MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], 1).Barrier()
print("met")
"""


def test_a_python_that_has_no_impi_spawns(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    # The job's procs get impi by the hook, and the new impirun is of that Python, too.
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", symlinks=True)
    job = run_job(
        [str(python), "-c", SPAWNS_ELSEWHERE, str(tmp_path)],
        ["pure:1"],
        environ={"PYTHONPATH": ""},
    )
    assert job.codes == [0, 0], str(job)
    assert job.clients[0].out == "met\n"
