"""The server as a process: signals, and pipes that are closed behind it (IMPI 2.2.1, 2.2.3)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from server_thread import DEADLINE_S, NO_AUTH, facts_of

from impi.launch.net import parse_endpoint
from impi.launch.rendezvous import Rendezvous

PROGRAM = """
import sys
from impi.launch.server import ServerOptions, run_server
options = ServerOptions(count=1, interface="127.0.0.1", verbose=True)
sys.exit(run_server(options, environ={"IMPI_AUTH_NONE": ""}, stdout=sys.stdout, stderr=sys.stderr))
"""

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """``start(stdout, stderr)`` starts a server; none outlives the test."""
    started: list[Process] = []

    def start_server(stdout: int, stderr: int | None) -> Process:
        # With this variable Python keeps nothing back, and so nothing is left to fail at exit.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], text=True, stdout=stdout, stderr=stderr, env=environ
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


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_in_order(start: Start, signum: int, code: int) -> None:
    process = start(subprocess.PIPE, subprocess.PIPE)
    host, port = endpoint(process)
    with Rendezvous(host, port, 0, environ=NO_AUTH) as client:
        client.join(DEADLINE_S)
        process.send_signal(signum)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert client.lost() is not None
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "impirun: interrupted; closing all connections"


@pytest.mark.clause("2.2.3")
@pytest.mark.parametrize("stderr", [None, subprocess.STDOUT])
def test_pipes_closed_after_the_first_line_do_not_matter(start: Start, stderr: int | None) -> None:
    """As under ``impirun -server 1 | head -1``, with and without ``2>&1``."""
    process = start(subprocess.PIPE, stderr)
    host, port = endpoint(process)
    assert process.stdout is not None
    process.stdout.close()
    with Rendezvous(host, port, 0, environ=NO_AUTH) as client:
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
    with Rendezvous(host, port, 0, environ=NO_AUTH) as client:
        client.join(DEADLINE_S)
        client.negotiate(facts_of(0), DEADLINE_S)
        client.finish()
    assert process.wait(DEADLINE_S) == 0
