"""impirun -client as a process: endings, exit codes, sentences, and that nothing is left."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

from impi.protocol.startup.auth import Method
from impi.protocol.wire import Command, encode_command, encode_reason

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent.parent / "programs"
HOLD, HELLO, HOSTS, ODD, INPUT = (
    str(PROGRAMS / f"{name}.py")
    for name in ("hold", "hello", "hosts", "odd_ranks_only", "echo_input")
)
PIDS = """
import os, sys, time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
sys.stdout.write(f"{MPI.COMM_WORLD.rank} {os.getpid()}\\n")  # in one write: mpiexec mixes pieces of two procs
sys.stdout.flush()
time.sleep(600)
"""
VENDORS = ["pure", "mpich", "openmpi"]
BY_MPIEXEC = ("--launcher", "mpiexec")
WAIT_S = 60.0


def need(vendor: str) -> None:
    if vendor != "pure" and not (ROOT / ".mpi" / vendor / "bin" / "mpiexec").exists():
        pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")


class Impirun:
    """One impirun, whose output is read while it runs."""

    def __init__(self, *arguments: str, stdin: str = "", **environ: str) -> None:
        env = {**os.environ, "IMPI_AUTH_NONE": "1", **environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "impi.cli.impirun", *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={name: value for name, value in env.items() if value},
        )
        if self.process.stdin is not None:
            with self.process.stdin as pipe:
                pipe.write(stdin)
        self.lines: queue.Queue[str] = queue.Queue()
        self.out: list[str] = []
        self._err: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_out),
            threading.Thread(target=self._read_err),
        ]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            for line in pipe:
                self.out.append(line)
                self.lines.put(line)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as pipe:
            self._err.extend(pipe)

    def line(self) -> str:
        try:
            return self.lines.get(timeout=WAIT_S)
        except queue.Empty:
            raise AssertionError(
                f"no further line of output:\n{''.join(self._err)}"
            ) from None

    def end(self) -> int:
        code = self.process.wait(WAIT_S)
        for thread in self._threads:
            thread.join(WAIT_S)
        return code

    @property
    def err(self) -> str:
        """The output of the client; complete after :meth:`end`."""
        assert not any("Traceback" in line for line in self._err), "".join(self._err)
        return "".join(line for line in self._err if not line.startswith("Warning: "))

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.end()


@pytest.fixture
def impirun() -> Iterator[type[Impirun]]:
    """The class; all of its instances are ended after the test."""
    started: list[Impirun] = []

    class Noted(Impirun):
        def __init__(self, *arguments: str, stdin: str = "", **environ: str) -> None:
            super().__init__(*arguments, stdin=stdin, **environ)
            started.append(self)

    yield Noted
    for one in started:
        one.stop()


class Job:
    """A server, and clients that hold."""

    def __init__(self, impirun: type[Impirun], count: int = 1, **environ: str) -> None:
        self._impirun = impirun
        self.server = impirun(
            "-server", str(count), "--interface", "127.0.0.1", **environ
        )
        self.where = self.server.line().strip()

    def client(
        self, *arguments: str, rank: int = 0, stdin: str = "", **environ: str
    ) -> Impirun:
        return self._impirun(
            "-client", str(rank), self.where, *arguments, stdin=stdin, **environ
        )


def children_of(pid: int) -> set[int]:
    found = {pid}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(
                    (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                )
                if parent == pid:
                    found |= children_of(int(entry.name))
    return found


def holding(client: Impirun, count: int) -> tuple[set[int], set[Path]]:
    """All processes of a client once its procs hold, and its shared memory."""
    files: set[Path] = set()
    pids = set()
    for _ in range(count):
        word, _, _, child, *paths = client.line().split()
        assert word == "holding"
        pids.add(int(child))
        files |= {Path(path) for path in paths}
    return pids | (children_of(client.process.pid) - {client.process.pid}), files


def all_gone(pids: set[int], files: set[Path]) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        left = set()
        for pid in pids:
            with contextlib.suppress(OSError):
                if (
                    Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                    not in "ZX"
                ):
                    left.add(pid)
        if not left and not any(path.exists() for path in files):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("vendor", VENDORS)
def test_success(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, HELLO)
    assert client.end() == 0, client.err
    assert sorted(client.out) == ["hello from 0 of 2, 1\n", "hello from 1 of 2, 1\n"]
    assert client.err == ""
    assert job.server.end() == 0


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_programs_exit_code_is_passed_on(
    vendor: str, impirun: type[Impirun]
) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, "sh", "-c", "exit 3")
    assert client.end() == 3
    assert (
        "ended with exit code 3, before the program had initialised MPI" in client.err
    )
    assert job.server.end() == 3


def test_the_exit_code_after_mpi(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", HELLO, "fail")
    assert client.end() == 3
    assert "ended with exit code 3, while the job was running\n" in client.err
    assert job.server.end() == 3


def test_one_failure_ends_the_others_at_once(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    script = (
        'case "$IMPI_JOIN" in *\'"rank": 1\'*) echo grief >&2; exit 5;; esac; sleep 600'
    )
    begin = time.monotonic()
    client = job.client("-np", "3", "sh", "-c", script)
    assert client.end() == 5
    assert time.monotonic() - begin < 30
    grief, sentence = client.err.splitlines()
    assert grief == "grief"
    assert "rank 1 of this client ended with exit code 5" in sentence


def test_a_proc_that_is_killed(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", "sh", "-c", "kill -9 $$")
    assert client.end() == 137
    assert "was ended by SIGKILL" in client.err


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_program_without_mpi(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, "true")
    assert client.end() == 0
    assert client.err == ""
    assert job.server.end() == 0


def test_no_program_starts_before_the_server_has_answered(
    tmp_path: Path, impirun: type[Impirun]
) -> None:
    """Else a slow server would take a client that fails for a stranger, and wait for it."""
    mark = tmp_path / "mark"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        client = impirun(
            "-client", "0", where, "-np", "1", "sh", "-c", f"touch {mark}; exit 3"
        )
        server, _ = listener.accept()
    with server:
        server.settimeout(WAIT_S)
        assert server.recv(100)[:4] == Command.AUTH.to_bytes(4, "big")
        assert not mark.exists()
        server.sendall(encode_command(Method.NONE))
        octets = b""
        while piece := server.recv(1000):
            octets += piece
    reason = "rank 0 of this client ended with exit code 3, before the program had initialised MPI"
    assert octets == encode_command(Command.IMPI, bytes(4)) + encode_reason(reason, 3)
    assert mark.exists()
    assert client.end() == 3
    assert (
        "ended with exit code 3, before the program had initialised MPI" in client.err
    )


def test_a_proc_that_ends_while_others_wait_for_it(impirun: type[Impirun]) -> None:
    client = Job(impirun).client("-np", "2", ODD)
    assert client.end() == 1
    assert "rank 0 of this client ended without initialising MPI" in client.err


@pytest.mark.parametrize("vendor", VENDORS)
def test_procs_that_never_use_mpi_while_others_do(
    vendor: str, impirun: type[Impirun]
) -> None:
    need(vendor)
    client = Job(impirun).client(
        "-np", "4", "--vendor", vendor, "--start-timeout", "2", ODD, STAY="1"
    )
    assert client.end() == 1
    assert "only 2 of 4 procs have begun to initialise MPI within 2 s" in client.err


def test_no_server(impirun: type[Impirun]) -> None:
    client = impirun("-client", "0", "127.0.0.1:1", "true")
    assert client.end() == 1
    assert "no server answers at 127.0.0.1:1" in client.err
    assert len(client.err.splitlines()) == 1


def test_wrong_key(impirun: type[Impirun]) -> None:
    job = Job(impirun, IMPI_AUTH_KEY="111111111111", IMPI_AUTH_NONE="")
    client = job.client(HOLD, IMPI_AUTH_KEY="222222222222", IMPI_AUTH_NONE="")
    assert client.end() == 1
    assert "Server disconnected (wrong authentication key?)" in client.err


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_server_is_lost(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, HOLD)
    left = holding(client, 2)
    job.server.process.kill()
    assert client.end() == 1
    assert "server" in client.err
    assert job.where in client.err
    assert all_gone(*left)


def test_the_server_is_lost_before_all_clients_have_come(
    impirun: type[Impirun],
) -> None:
    job = Job(impirun, 2)
    client = job.client("-np", "1", "sh", "-c", "echo up; sleep 600")
    assert client.line() == "up\n"
    pids = children_of(client.process.pid) - {client.process.pid}
    job.server.process.kill()
    assert client.end() == 1
    assert "erver" in client.err
    assert all_gone(pids, set())


def test_what_clients_say_of_a_lost_server_does_not_depend_on_their_programs(
    impirun: type[Impirun],
) -> None:
    # Clients whose procs are in MPI_Init would say another phase.
    secret = {"IMPI_AUTH_NONE": "", "IMPI_AUTH_SECRET": secrets.token_hex(16)}
    job = Job(impirun, 2, **secret)
    clients = [
        job.client("-np", "1", "sh", "-c", "echo up; sleep 600", rank=rank, **secret)
        for rank in (0, 1)
    ]
    assert [client.line() for client in clients] == ["up\n"] * 2
    job.server.process.kill()
    for number, client in enumerate(clients):
        assert client.end() == 1
        assert (
            client.err
            == f"impirun: client {number}: the server at {job.where} was lost, before start-up was complete\n"
        )


def test_another_client_is_lost(impirun: type[Impirun]) -> None:
    job = Job(impirun, 2)
    clients = [job.client("-np", "1", HOLD, rank=rank) for rank in (0, 1)]
    left = holding(clients[0], 1)
    holding(clients[1], 1)
    clients[1].process.kill()
    assert clients[0].end() != 0
    assert all_gone(*left)
    assert job.server.end() == 1
    assert "client 1" in job.server.err


@pytest.mark.parametrize(
    ("vendor", "number"), pairs(VENDORS, [signal.SIGINT, signal.SIGTERM])
)
def test_ended_by_the_user(
    vendor: str, number: signal.Signals, impirun: type[Impirun]
) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, HOLD)
    left = holding(client, 2)
    client.process.send_signal(number)
    assert client.end() == 128 + number
    told = client.err.removeprefix("impirun: client 0: ")
    assert told.startswith("client 0 (127.0.0.1:")
    assert told.endswith(
        f"): impirun was ended by {number.name}, while the job was running\n"
    )
    assert f"Error: {told}" in job.server.err
    assert all_gone(*left)
    assert job.server.end() == 128 + number


@pytest.mark.parametrize("vendor", VENDORS)
def test_impirun_is_killed(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, HOLD)
    left = holding(client, 2)
    client.process.kill()
    assert all_gone(*left)
    assert job.server.end() == 1


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_mpiexec_is_killed(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client("-np", "2", "--vendor", vendor, *BY_MPIEXEC, HOLD)
    left = holding(client, 2)
    [mpiexec] = [
        pid
        for pid in left[0]
        if Path(f"/proc/{pid}/comm").read_text().strip()
        in ("mpiexec", "mpiexec.hydra", "prterun")
    ]
    os.kill(mpiexec, signal.SIGKILL)
    assert client.end() == 137
    assert "mpiexec was ended by SIGKILL" in client.err
    assert all_gone(*left)


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_a_proc_under_mpiexec_is_killed(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun)
    client = job.client(
        "-np", "2", "--vendor", vendor, *BY_MPIEXEC, sys.executable, "-c", PIDS
    )
    pids = {
        int(rank): int(pid) for rank, pid in (client.line().split() for _ in range(2))
    }
    os.kill(pids[1], signal.SIGKILL)
    assert client.end() not in (0, None)
    last = client.err.strip().splitlines()[-1]
    assert (
        f"rank 1 of this client (process {pids[1]}) ended without MPI_Finalize" in last
    )
    assert "while the job was running" in last


@pytest.mark.parametrize("np", [1, 2])
def test_the_starter_is_killed(np: int, impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = job.client("-np", str(np), HOLD)
    left = holding(client, np)
    starters = [pid for pid in left[0] if is_starter(pid)]
    assert starters
    for pid in starters:
        os.kill(pid, signal.SIGKILL)
    assert client.end() == 1
    assert "the starter of node localhost was ended by SIGKILL" in client.err
    assert all_gone(*left)


def test_closed_output(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = subprocess.Popen(
        [sys.executable, "-m", "impi.cli.impirun", "-client", "0", job.where, HELLO],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "IMPI_AUTH_NONE": "1"},
    )
    assert client.stdout is not None
    client.stdout.close()
    assert client.wait(WAIT_S) == 0
    assert job.server.end() == 0


# ---- several nodes, by a stand-in for ssh that runs the command on this machine


@pytest.fixture
def ssh(tmp_path: Path) -> dict[str, str]:
    """An environment whose ssh gives, as a real one, next to no variables; PATH and a log."""
    program = tmp_path / "ssh"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {tmp_path}/log\n'
        'while :; do case "$1" in -o) shift 2;; -*) shift;; *) break;; esac; done\n'
        "shift\n"
        'exec env -i HOME="$HOME" PATH=/usr/bin:/bin sh -c "$*"\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}


@pytest.mark.parametrize(
    ("vendor", "nodes"),
    [
        ("pure", "node-a:1,node-b:2"),
        # Without Open MPI, which cannot tell two nodes with one address apart.
        ("mpich", "node-a:1,node-b:2"),
    ],
)
def test_other_nodes(
    vendor: str, nodes: str, ssh: dict[str, Any], impirun: type[Impirun]
) -> None:
    need(vendor)
    job = Job(impirun)
    arguments = ["--vendor", vendor, "--nodes", nodes, INPUT]
    client = job.client(*arguments, stdin="for rank 0\n", FI_TCP_IFACE="lo", **ssh)
    assert client.end() == 0, client.err
    lengths = [line.partition(",")[0] for line in client.out]
    assert lengths == ["(11", "(0", "(0"]
    log = Path(ssh["LOG"]).read_text()
    assert log.count("BatchMode=yes") >= len(nodes.split(","))
    assert "token" not in log
    assert job.server.end() == 0


@pytest.mark.parametrize("vendor", ["pure", "mpich"])
def test_other_nodes_are_ended(
    vendor: str, ssh: dict[str, Any], impirun: type[Impirun]
) -> None:
    need(vendor)
    client = Job(impirun).client(
        "--vendor",
        vendor,
        "--nodes",
        "node-a:1,node-b:1",
        HOLD,
        FI_TCP_IFACE="lo",
        **ssh,
    )
    left = holding(client, 2)
    client.process.terminate()
    assert client.end() == 143
    assert all_gone(*left)


def test_a_node_that_ssh_does_not_reach(tmp_path: Path, impirun: type[Impirun]) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'ssh: no such node' >&2\nexit 255\n")
    program.chmod(0o755)
    client = Job(impirun).client(
        "--nodes", "node-a:1", HELLO, PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    assert client.end() == 1
    assert "ssh: no such node" in client.err
    assert "the starter of node node-a could not be started by ssh" in client.err


# ---- what is asked wrongly, found before anything is started


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-program"], "there is no program 'no-such-program' on the PATH"),
        (["no-such-program.py"], "there is no program no-such-program.py in "),
        (
            ["--nodes", "localhost:2", "-np", "3", "true"],
            "-np 3 is more than the 2 slots",
        ),
        (["--nodes", "a:x", "true"], "--nodes takes NODE:SLOTS"),
        (
            ["--vendor", "mpich", "--prefix", "/usr/share", "true"],
            "--prefix /usr/share has no bin/mpiexec",
        ),
        (
            ["--hiwater", "2", "--ackmark", "5", "true"],
            "ackmark is 5, but must be 1 to 2",
        ),
        (["--datalen", "0", "true"], "--datalen is 0, but must be 1 to 4294967295"),
        (
            ["--tag-ub", "100", "true"],
            "--tag-ub is 100, but must be 32767 to 2147483647",
        ),
        (
            ["--interface", "192.0.2.77", "true"],
            "--interface 192.0.2.77 is not an address of this machine",
        ),
        (
            ["--interface", "nosuch0", "true"],
            "--interface nosuch0 is neither an address nor an interface",
        ),
    ],
)
def test_usage(arguments: list[str], sentence: str, impirun: type[Impirun]) -> None:
    client = impirun("-client", "0", "127.0.0.1:1", *arguments)
    assert client.end() == 4
    assert sentence in client.err
    assert len(client.err.splitlines()) == 1


def test_a_client_without_a_program_ends_the_job_of_the_others(
    impirun: type[Impirun],
) -> None:
    job = Job(impirun, 2)
    other = job.client("-np", "1", "sh", "-c", "echo up; sleep 600")
    assert other.line() == "up\n"
    client = job.client("no-such-program", rank=1)
    assert client.end() == 4
    assert "there is no program 'no-such-program' on the PATH" in client.err
    assert job.server.end() == 4
    reason = "there is no program 'no-such-program' on the PATH"
    assert "Error: client 1 (127.0.0.1" in job.server.err and reason in job.server.err
    assert other.end() == 4, other.err
    assert reason in other.err


def test_a_client_without_its_library_ends_the_job_of_the_others(
    impirun: type[Impirun],
) -> None:
    job = Job(impirun, 2)
    other = job.client("-np", "1", "sh", "-c", "echo up; sleep 600")
    assert other.line() == "up\n"
    client = job.client("--vendor", "mpich@4.0", "true", rank=1, PATH="/nowhere")
    reason = "no mpiexec of mpich was found; name its folder with --prefix DIR"
    for part in (client, job.server, other):
        assert part.end() == 1
        assert reason in part.err


def test_a_tag_that_the_vendor_does_not_have(impirun: type[Impirun]) -> None:
    need("mpich")
    client = Job(impirun).client("--vendor", "mpich", "--tag-ub", "2000000000", HELLO)
    assert client.end() == 4
    assert "--tag-ub 2000000000 is more than the" in client.err


# ---- host agents


AGENTS = [
    ("node", "the host agent of node localhost"),
    ("client", "the host agent of this client"),
]


def agent_of(pids: set[int]) -> int:
    """The process that routes, among those of a client."""
    [pid] = [
        pid
        for pid in pids
        if b"impi.rank.agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return pid


@pytest.mark.parametrize(("vendor", "hosts"), pairs(VENDORS, ["node", "client"]))
def test_success_behind_an_agent(
    vendor: str, hosts: str, impirun: type[Impirun]
) -> None:
    need(vendor)
    job = Job(impirun, 2)
    clients = [job.client("-np", "2", "--vendor", vendor, "--hosts", hosts, HELLO)]
    clients.append(job.client("-np", "1", HELLO, rank=1))
    assert [client.end() for client in clients] == [0, 0], (
        clients[0].err + clients[1].err
    )
    assert sorted(clients[0].out) == [
        "hello from 0 of 3, 3\n",
        "hello from 1 of 3, 3\n",
    ]
    assert [client.err for client in clients] == ["", ""]
    assert job.server.end() == 0


@pytest.mark.parametrize("hosts", ["node", "client"])
def test_a_job_of_one_client_behind_an_agent(
    hosts: str, impirun: type[Impirun]
) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", "--hosts", hosts, HELLO)
    assert client.end() == 0, client.err
    assert client.err == ""
    assert job.server.end() == 0


@pytest.mark.parametrize(("hosts", "title"), AGENTS)
def test_a_host_agent_is_killed(hosts: str, title: str, impirun: type[Impirun]) -> None:
    job = Job(impirun, 2)
    clients = [
        job.client("-np", "2", "--hosts", hosts, HOLD),
        job.client("-np", "1", HOLD, rank=1),
    ]
    left = holding(clients[0], 2)
    others = holding(clients[1], 1)
    os.kill(agent_of(left[0]), signal.SIGKILL)
    assert clients[0].end() == 137
    assert (
        f"{title} was ended by SIGKILL, while the job was running\n" in clients[0].err
    )
    assert clients[1].end() == 137
    assert clients[1].err.replace("client 1: ", "client 0: ") == clients[0].err
    assert all_gone(*left)
    assert all_gone(*others)
    assert job.server.end() == 137
    assert "client 0" in job.server.err


# Each mpiexec waits for the child of the proc until impirun's patience is over.
@pytest.mark.parametrize(
    "vendor", ["pure", pytest.param("mpich", marks=pytest.mark.proof), "openmpi"]
)
def test_a_proc_behind_an_agent_is_lost(vendor: str, impirun: type[Impirun]) -> None:
    need(vendor)
    job = Job(impirun, 2)
    under = () if vendor == "pure" else BY_MPIEXEC
    clients = [
        job.client("-np", "2", "--vendor", vendor, *under, "--hosts", "client", HOLD)
    ]
    clients.append(job.client("-np", "1", "--hosts", "node", HOLD, rank=1))
    left = holding(clients[0], 2)
    others = holding(clients[1], 1)
    [proc, _] = [pid for pid in left[0] if HOLD.encode() in proc_argv(pid)]
    os.kill(proc, signal.SIGKILL)
    assert clients[0].end() != 0
    if vendor == "pure":  # an mpiexec waits for the child, which has the proc's pipes
        assert "was lost" not in clients[0].err  # its launcher says it better
    code = clients[0].end()
    assert clients[1].end() == code
    assert all_gone(*left)
    assert all_gone(*others)
    assert job.server.end() == code
    assert "client 0" in job.server.err


def proc_argv(pid: int) -> list[bytes]:
    """Arguments of a Python process, but none of a starter forked from impirun."""
    name, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return arguments if b"python" in name and not is_starter(pid) else []


def is_starter(pid: int) -> bool:
    """Whether it is a starter that impirun has forked."""
    return Path(f"/proc/{pid}/comm").read_text().strip() == "impi-starter"


def test_a_proc_that_leaves_without_finalize(impirun: type[Impirun]) -> None:
    job = Job(impirun, 2)
    code = "import os; from mpi4py import MPI; os._exit(0)"
    client = job.client("--hosts", "client", sys.executable, "-c", code)
    other = job.client(HOLD, rank=1)
    assert client.end() == 1
    first, second = client.err.splitlines()
    assert first.startswith(
        "impi: the host agent of this client: rank 0 was lost: its connection ended without"
    )
    assert second.endswith(
        "): the host agent of this client ended with exit code 1, while the job was running"
    )
    other.end()
    assert job.server.end() == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_client_with_an_agent_is_ended_by_the_user(
    number: signal.Signals, impirun: type[Impirun]
) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", "--hosts", "client", HOLD)
    left = holding(client, 2)
    client.process.send_signal(number)
    assert client.end() == 128 + number
    told = client.err.removeprefix("impirun: client 0: ")
    assert told.startswith("client 0 (127.0.0.1:")
    assert told.endswith(
        f"): impirun was ended by {number.name}, while the job was running\n"
    )
    assert f"Error: {told}" in job.server.err
    assert all_gone(*left)


def test_impirun_with_an_agent_is_killed(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", "--hosts", "node", HOLD)
    left = holding(client, 2)
    client.process.kill()
    assert all_gone(*left)


def test_a_program_without_mpi_behind_an_agent(impirun: type[Impirun]) -> None:
    job = Job(impirun)
    client = job.client("-np", "2", "--hosts", "client", "true")
    assert client.end() == 0
    assert client.err == ""
    assert job.server.end() == 0


def test_nothing_is_left_of_the_meeting(impirun: type[Impirun]) -> None:
    # A path that is short enough for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    client = Job(impirun).client(
        "-np", "2", "--hosts", "client", HOLD, TMPDIR=str(folder)
    )
    holding(client, 2)
    assert list(folder.glob("impi-*")) == []
    client.stop()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("vendor", "hosts"), pairs(["pure", "mpich"], ["node", "client"])
)
def test_agents_and_other_nodes(
    vendor: str, hosts: str, ssh: dict[str, Any], impirun: type[Impirun]
) -> None:
    need(vendor)
    job = Job(impirun, 2)
    nodes = ("--nodes", "node-a:1,node-b:2")
    client = job.client(
        "--vendor", vendor, *nodes, "--hosts", hosts, HOSTS, FI_TCP_IFACE="lo", **ssh
    )
    other = job.client("--hosts", hosts, HOSTS, rank=1)
    assert client.end() == 0, client.err
    assert other.end() == 0, other.err
    # MPICH does not name nodes, and these two are one machine: the second agent idles.
    colors = [0, 1, 1, 2] if (vendor, hosts) == ("pure", "node") else [0, 0, 0, 1]
    expected = [
        f"{rank}: 4 procs, host {color} of {colors[-1] + 1}\n"
        for rank, color in enumerate(colors)
    ]
    assert sorted(client.out + other.out) == expected
    log = Path(ssh["LOG"]).read_text()
    assert log.count("impi.base.remote.starter") >= (2 if hosts == "node" else 0)
    assert "token" not in log
    assert job.server.end() == 0
