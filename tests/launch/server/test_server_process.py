"""The server as a process: signals, and pipes that are closed behind it (IMPI 2.2.1, 2.2.3)."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from server_thread import DEADLINE_S, NO_AUTH, Client, facts_of, negotiate_all, step

from impi.launch.net import parse_endpoint
from impi.protocol.startup.client import Joined
from impi.protocol.wire import Command, encode_command
from impi.rank.vendors.dial import show_endpoint

PROGRAM = """
import sys
from typing import Any
from impi.launch.server.loop import run_server
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made
options = made(ServerOptions, count=int(sys.argv[1]), interface="127.0.0.1", verbose=True)
sys.exit(run_server(options, environ={"IMPI_AUTH_NONE": ""}, stdout=sys.stdout, stderr=sys.stderr))
"""

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """``start(stdout, stderr)`` starts a server; none outlives the test."""
    started: list[Process] = []

    def start_server(stdout: int, stderr: int | None, count: int = 1) -> Process:
        # With this variable Python keeps nothing back, and so nothing is left to fail at exit.
        environ = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONUNBUFFERED"
        }
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(count)],
            text=True,
            stdout=stdout,
            stderr=stderr,
            env=environ,
        )
        started.append(process)
        return process

    yield start_server
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE_S)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def endpoint(process: Process) -> tuple[str, int]:
    assert process.stdout is not None
    return parse_endpoint(process.stdout.readline())


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_signals_end_it_in_order(start: Start, signum: int, code: int) -> None:
    process = start(subprocess.PIPE, subprocess.PIPE)
    host, port = endpoint(process)
    with Client(host, port, 0, environ=NO_AUTH) as client:
        client.join(DEADLINE_S)
        process.send_signal(signum)
        out, err = process.communicate(timeout=DEADLINE_S)
        sentence = f"the server was ended by {signal.Signals(signum).name}, before start-up was complete"
        assert str(client.lost()) == sentence
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    [error] = [line for line in err.splitlines() if line.startswith("Error:")]
    assert error == f"Error: {sentence}"


@pytest.mark.clause("2.2.3")
@pytest.mark.parametrize("stderr", [None, subprocess.STDOUT])
def test_pipes_closed_after_the_first_line_do_not_matter(
    start: Start, stderr: int | None
) -> None:
    """``impirun -server 1 | head -1`` closes them, with and without ``2>&1``."""
    process = start(subprocess.PIPE, stderr)
    host, port = endpoint(process)
    assert process.stdout is not None
    process.stdout.close()
    with Client(host, port, 0, environ=NO_AUTH) as client:
        client.join(DEADLINE_S)
        client.negotiate(facts_of(0), DEADLINE_S)
        client.finish()
    assert process.wait(DEADLINE_S) == 0


@pytest.mark.clause("2.2.3")
def test_a_pipe_closed_before_the_first_line(start: Start) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(writing, subprocess.PIPE)
    os.close(writing)
    assert process.stderr is not None
    words, _, line = process.stderr.readline().rpartition(" ")
    assert words == "impirun: stdout is closed; the server listens on"
    host, port = parse_endpoint(line)
    with Client(host, port, 0, environ=NO_AUTH) as client:
        client.join(DEADLINE_S)
        client.negotiate(facts_of(0), DEADLINE_S)
        client.finish()
    assert process.wait(DEADLINE_S) == 0


def refused(host: str, port: int, rank: int) -> str:
    """A connection that wants to be client ``rank`` and is closed for it; what it is called."""
    with socket.create_connection((host, port), DEADLINE_S) as sock:
        name = show_endpoint(*sock.getsockname())
        sock.sendall(
            encode_command(Command.AUTH, b"\0\0\0\1")
            + encode_command(Command.IMPI, rank.to_bytes(4, "big"))
        )
        heard = b""
        with suppress(ConnectionResetError):
            while data := sock.recv(4096):
                heard += data
    # The method may still have been under way; only clients get their number.
    assert bytes(8).startswith(heard[:8])
    assert name.encode() in heard or b"FAIL" not in heard
    return name


@pytest.mark.clause("2.3.4")
def test_32_clients_and_a_33rd_in_every_place(start: Start) -> None:
    """Whenever it comes, and whoever it says it is: named, closed, and no matter to the others."""
    process = start(subprocess.PIPE, subprocess.PIPE, 32)
    host, port = endpoint(process)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Client(host, port, rank, environ=NO_AUTH))
            for rank in range(32)
        ]
        early = refused(host, port, 32)
        for client in clients:
            client.start()
        for client in clients:
            events: list[Any] = []
            while not events:
                events = step(client)
            assert events == [Joined(32)]
        late = [refused(host, port, rank) for rank in (32, 0)]
        jobs = negotiate_all(clients)
        late.append(refused(host, port, 32))
        for client in clients:
            client.finish()
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert jobs == [jobs[0]] * 32
    assert [h.client for h in jobs[0].hosts] == list(range(32))
    lines = [line for line in err.splitlines() if "impirun: closed" in line]
    assert lines == [
        f"impirun: closed the connection of {early}: wants to be client 32,"
        " but this job has clients 0 to 31 (IMPI 2.3.4)",
        f"impirun: closed the connection of {late[0]}: is one client too many: all 32 have joined (IMPI 2.3.4)",
        "impirun: closed 2 more connections of 127.0.0.1: is one client too many: all 32 have joined",
    ]
