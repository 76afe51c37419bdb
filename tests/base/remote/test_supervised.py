"""Our end of a supervised command, over a pipe."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.base.remote import supervised
from impi.base.remote.commands import Commands, this_machine
from impi.base.remote.supervised import Supervised

DEADLINE_S = 30.0
ENV = {"PATH": "/usr/bin:/bin"}

Begin = Callable[..., Supervised]


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    made = this_machine({"PATH": "/usr/bin:/bin"})
    yield made
    made.close()


@pytest.fixture
def begin(commands: Commands) -> Begin:
    def start(script: str, **changes: float | bytes) -> Supervised:
        return commands.start(["sh", "-c", script], env=ENV, only=True, **changes)  # type: ignore[arg-type]

    return start


def first_line(command: Supervised) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def test_an_outcome_is_a_value(begin: Begin) -> None:
    outcome = begin("echo out; echo err >&2; exit 7").wait(DEADLINE_S)
    assert outcome == supervised.Completed(
        argv=("sh", "-c", "echo out; echo err >&2; exit 7"),
        code=7,
        stdout=b"out\n",
        stderr=b"err\n",
        leftovers=(),
    )


def test_a_program_that_is_not_there_is_an_outcome(commands: Commands) -> None:
    outcome = commands.start(["/no/such/program"]).wait(DEADLINE_S)
    assert (outcome.code, outcome.stdout, outcome.leftovers) == (127, b"", ())
    assert outcome.stderr.startswith(b"cannot start /no/such/program in ")


def test_output_has_the_times_of_its_node(begin: Begin) -> None:
    before = time.time()
    command = begin("echo one; read -r line; echo two; echo three >&2", stdin=b"go\n")
    outcome = command.wait(DEADLINE_S)
    streams = {
        stream: [end for name, end, _ in outcome.times if name == stream]
        for stream in ("stdout", "stderr")
    }
    assert (streams["stdout"][-1], streams["stderr"][-1]) == (8, 6)
    times = [at for _, _, at in outcome.times]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


def test_poll_never_blocks_and_output_is_there_before_the_end(begin: Begin) -> None:
    command = begin("echo early; sleep 600")
    assert first_line(command) == "early"
    assert command.poll() is None
    ended = command.stop()
    assert ended.code == -signal.SIGTERM
    assert command.poll() == ended
    assert command.stop() == ended


def test_the_deadline_ends_it_and_says_so_by_no_code(begin: Begin) -> None:
    command = begin("echo $$; sleep 600")
    pid = int(first_line(command))
    outcome = command.wait(0.0)
    assert outcome.code is None
    assert not Path(f"/proc/{pid}").exists()


def test_closing_lets_it_end(begin: Begin) -> None:
    command = begin("echo $$; sleep 600")
    pid = int(first_line(command))
    command.close()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_of_our_environment_reaches_it(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPI_SECRET", "1")
    names = {
        line.split("=")[0]
        for line in begin("env").wait(DEADLINE_S).stdout.decode().splitlines()
    }
    assert "IMPI_SECRET" not in names
    assert names <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}


def test_a_starter_that_is_killed_is_an_error_and_no_outcome(begin: Begin) -> None:
    command = begin("echo $PPID; sleep 600")
    os.kill(int(first_line(command)), signal.SIGKILL)
    with pytest.raises(LaunchError, match="outcome of sh is unknown"):
        command.wait(DEADLINE_S)


def test_output_beyond_the_limit_is_dropped_and_said(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "MOST_OUTPUT", 1000)
    outcome = begin("head -c 5000 /dev/zero").wait(DEADLINE_S)
    assert outcome.stdout == bytes(1000) + b"\n[impi: 4000 more octets were dropped]\n"


def test_a_talkative_command_needs_nobody_who_listens(begin: Begin) -> None:
    outcome = begin("head -c 20000000 /dev/zero; echo done >&2").wait(DEADLINE_S)
    assert (len(outcome.stdout), outcome.stderr) == (20_000_000, b"done\n")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_all_threads_and_descriptors_are_given_back(begin: Begin) -> None:
    begin("true").wait(DEADLINE_S)
    before, threads = descriptors(), threading.enumerate()
    for _ in range(5):
        begin("true").wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        left = [t for t in threading.enumerate() if t not in threads]
        if not left and descriptors() <= before:
            break
        time.sleep(0.01)
    assert not left
    assert descriptors() <= before
