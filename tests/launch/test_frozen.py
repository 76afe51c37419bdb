"""Whole jobs of which one process is stopped: all others end, and name it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
LIMIT_S = 5
"""The shortest --heartbeat-timeout."""
NOTICED_S = 15.0
ENDED_S = 60.0
PROGRAM = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
sys.stdout.write(f"{comm.rank} {os.getpid()}\\n")  # one write: mpiexec mixes those of its ranks
sys.stdout.flush()
if sys.argv[1] == "computing":
    while True:
        pass
comm.recv(source=(comm.rank + 1) % comm.size)
"""


def environment(mark: str) -> dict[str, str]:
    """Variables of all processes of a job, by which they can be found: not as descendants.

    A test that made its worker adopt orphans would spoil later tests that wait for some to be gone.
    """
    own = {
        "IMPI_AUTH_SECRET": "correct horse battery",
        "IMPI_HEARTBEAT_TIMEOUT": str(LIMIT_S),
        "IMPI_TEST_MARK": mark,
    }
    return {**os.environ, **own}


def has(path: Path, mark: str) -> bool:
    try:
        return f"IMPI_TEST_MARK={mark}".encode() in path.read_bytes().split(b"\0")
    except OSError:
        return False


class Parts:
    """The impiruns of a job: a server, and the clients that are started."""

    def __init__(self, clients: int) -> None:
        self.mark = secrets.token_hex(8)
        self.parts: dict[str, subprocess.Popen[str]] = {}
        server = self.start(
            "server", "-server", str(clients), "--interface", "127.0.0.1"
        )
        assert server.stdout is not None
        self.where = server.stdout.readline().strip()

    def start(
        self,
        name: str,
        *arguments: str,
        command: tuple[str, ...] = ("-m", "impi.cli.impirun"),
    ) -> subprocess.Popen[str]:
        self.parts[name] = subprocess.Popen(
            [sys.executable, *command, *arguments],
            env=environment(self.mark),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        return self.parts[name]

    def outcomes(self, but: str) -> dict[str, tuple[int, str]]:
        """Code and words of all parts but one, in time."""
        until = time.monotonic() + NOTICED_S
        found = {}
        for name, part in self.parts.items():
            if name != but:
                _, stderr = part.communicate(timeout=max(0.1, until - time.monotonic()))
                found[name] = part.returncode, stderr
        return found


class Job(Parts):
    """A server, and two clients of one proc and of two."""

    def __init__(self, vendor: str, phase: str, *options: str) -> None:
        super().__init__(2)
        program = [sys.executable, "-c", PROGRAM, phase]
        self.start("client 0", "-client", "0", self.where, "-np", "1", *program)
        self.start(
            "client 1",
            "-client",
            "1",
            self.where,
            "-np",
            "2",
            "--vendor",
            vendor,
            *options,
            *program,
        )
        self.pids: dict[int, int] = {}
        """By rank in the world; those of client 1 are 1 and 2."""
        for name, procs in (("client 0", 1), ("client 1", 2)):
            stdout = self.parts[name].stdout
            assert stdout is not None
            for _ in range(procs):
                rank, pid = stdout.readline().split()
                self.pids[int(rank)] = int(pid)

    def below(self, name: str, words: str) -> list[int]:
        """The processes below a part whose name has these words, ascending."""
        found = []
        todo = [self.parts[name].pid]
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                children.setdefault(
                    int(stat.read_bytes().rpartition(b")")[2].split()[1]), []
                ).append(int(stat.parent.name))
            except OSError:
                continue
        while todo:
            for pid in children.get(todo.pop(), []):
                todo.append(pid)
                if words in Path(f"/proc/{pid}/comm").read_text():
                    found.append(pid)
        return sorted(found)


@pytest.fixture
def jobs() -> Iterator[list[Parts]]:
    made: list[Parts] = []
    yield made
    for job in made:
        for part in job.parts.values():
            if part.poll() is None:
                part.send_signal(signal.SIGCONT)
                part.terminate()
            part.communicate(timeout=ENDED_S)
    until = time.monotonic() + ENDED_S
    while left := [
        path
        for job in made
        for path in Path("/proc").glob("[0-9]*/environ")
        if has(path, job.mark)
    ]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("vendor", "words", "culprit", "phase"),
    [
        ("pure", "", "rank 0 of this client (process {})", "computing"),
        ("mpich", "", "rank 0 of this client (process {})", "receiving"),
        ("openmpi", "", "rank 0 of this client (process {})", "computing"),
        ("mpich", "mpiexec", "MPICH's mpiexec (process {})", "computing"),
        ("openmpi", "prte", "Open MPI's mpiexec (process {})", "receiving"),
    ],
)
def test_a_process_of_a_client_is_stopped(
    jobs: list[Parts], vendor: str, words: str, culprit: str, phase: str
) -> None:
    options = ["--launcher", "mpiexec"] if words else []
    jobs.append(job := Job(vendor, phase, *options))
    victim = job.below("client 1", words)[0] if words else job.pids[1]
    os.kill(victim, signal.SIGSTOP)
    found = job.outcomes("")
    sentence = (
        culprit.format(victim)
        + f" has been stopped for {LIMIT_S} s, while the job was running"
    )
    for name, (code, stderr) in found.items():
        assert code == 1, name
        last = stderr.strip().splitlines()[-1]
        assert last.endswith(sentence), (name, stderr)
        assert "client 1 (127.0.0.1:" in last


def test_the_impirun_of_a_client_is_stopped(jobs: list[Parts]) -> None:
    jobs.append(job := Job("pure", "computing"))
    procs = [job.pids[1], job.pids[2]]
    job.parts["client 1"].send_signal(signal.SIGSTOP)
    found = job.outcomes("client 1")
    sentence = (
        f"its impirun has not been heard of for {LIMIT_S} s: "
        "it is stopped, or cut off, while the job was running"
    )
    for name, (code, stderr) in found.items():
        assert code == 1, name
        assert stderr.strip().splitlines()[-1].endswith(sentence), (name, stderr)
    until = time.monotonic() + NOTICED_S
    while any(
        Path(f"/proc/{pid}").exists()
        and b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
        for pid in procs
    ):
        assert time.monotonic() < until
        time.sleep(0.05)
    job.parts["client 1"].send_signal(signal.SIGCONT)
    _, stderr = job.parts["client 1"].communicate(timeout=ENDED_S)
    assert stderr.strip().splitlines()[-1].endswith(sentence)


CHANNELS_LOOK_CUT = """
import runpy
from impi.launch.client import watchdogs
from impi.base.remote import watch
watchdogs._CUT_S = 60
watch.Watch.cut = lambda watch, *_: [(("127.0.0.1", 1), end) for end in watch.ends]
runpy.run_module("impi.cli.impirun", run_name="__main__")
"""


def test_a_cut_channel_is_not_blamed_where_the_whole_client_is_lost(
    jobs: list[Parts],
) -> None:
    jobs.append(job := Parts(2))
    program = [sys.executable, "-c", PROGRAM, "receiving"]
    victim = job.start("client 0", "-client", "0", job.where, *program)
    job.start(
        "client 1",
        "-client",
        "1",
        job.where,
        *program,
        command=("-c", CHANNELS_LOOK_CUT),
    )
    assert victim.stdout is not None
    assert victim.stdout.readline().startswith("0 ")
    victim.send_signal(signal.SIGSTOP)
    for name, (code, stderr) in job.outcomes("client 0").items():
        assert code == 1, name
        last = stderr.strip().splitlines()[-1]
        assert f"its impirun has not been heard of for {LIMIT_S} s" in last, (
            name,
            stderr,
        )
        assert "client 1 (" not in last


def test_the_server_is_stopped(jobs: list[Parts]) -> None:
    jobs.append(job := Job("pure", "receiving"))
    job.parts["server"].send_signal(signal.SIGSTOP)
    found = job.outcomes("server")
    silent = f"has not been heard of for {LIMIT_S} s: it is stopped, or cut off"
    sentence = f"the server at {job.where} {silent}, while the job was running"
    for name, (code, stderr) in found.items():
        assert code == 1, name
        assert stderr.strip().splitlines()[-1].endswith(sentence), (name, stderr)


def test_a_starter_is_stopped(jobs: list[Parts]) -> None:
    jobs.append(job := Job("pure", "receiving"))
    [starter] = job.below("client 1", "impi-starter")
    os.kill(starter, signal.SIGSTOP)
    found = job.outcomes("")
    for name, (code, stderr) in found.items():
        assert code == 1, name
        assert (
            "the starter of node localhost has not been heard of for"
            in stderr.strip().splitlines()[-1]
        ), stderr


def test_output_that_nobody_reads_is_no_silence(jobs: list[Parts]) -> None:
    """An impirun that waits for its reader beats all the same."""
    program = (
        'import mpi4py.MPI, sys\nsys.stdout.write("x" * (1 << 20))\nsys.stdout.flush()'
    )
    jobs.append(job := Parts(1))
    client = job.start(
        "client 0", "-client", "0", job.where, sys.executable, "-c", program
    )
    server = job.parts["server"]
    assert client.stdout is not None
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(2.5 * LIMIT_S)
    stdout, stderr = client.communicate(timeout=ENDED_S)
    assert (client.returncode, stderr) == (0, "")
    assert len(stdout) == 1 << 20
    assert server.wait(ENDED_S) == 0
