"""The supervisor as a program of its own: what it says, and that nothing outlives it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from impi.remote import supervisor

DEADLINE_S = 30.0


class Raw:
    """A supervisor and its lines."""

    def __init__(self, argv: list[str], **changes: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        spec = {"argv": argv, "env": {}, "only": False, "cwd": "", "stdin": None, "grace_s": 0.5, "settle_s": 0.2}
        self.say({**spec, **changes})

    def say(self, value: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(value) + "\n").encode())
        self.process.stdin.flush()

    def line(self) -> dict[str, object]:
        assert self.process.stdout is not None
        value: dict[str, object] = json.loads(self.process.stdout.readline())
        return value

    def until(self, name: str) -> dict[str, object]:
        while name not in (line := self.line()):
            pass
        return line

    def printed(self) -> str:
        return base64.b64decode(str(self.until("stdout")["stdout"])).decode()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


Start = Callable[..., Raw]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Raw] = []

    def begin(argv: list[str], **changes: object) -> Raw:
        made.append(Raw(argv, **changes))
        return made[-1]

    yield begin
    for raw in made:
        raw.end()


def alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def gone(*pids: int) -> bool:
    """Whether they all end before the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, pids))


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -TERM $$", -15)])
def test_tells_how_the_command_ended(start: Start, script: str, code: int) -> None:
    raw = start(["sh", "-c", script])
    assert raw.until("exit") == {"exit": code, "leftovers": []}
    assert raw.process.wait(DEADLINE_S) == 0


def test_a_program_that_is_not_there_is_127_and_says_so(start: Start) -> None:
    raw = start(["/no/such/program"])
    assert b"/no/such/program" in base64.b64decode(str(raw.line()["stderr"]))
    assert raw.line() == {"exit": 127, "leftovers": []}


def test_passes_both_streams_and_the_input_octet_by_octet(start: Start) -> None:
    data = bytes(range(256)) * 1000
    raw = start(["sh", "-c", "cat; echo complaint >&2"], stdin=base64.b64encode(data).decode())
    out = err = b""
    while "exit" not in (line := raw.line()):
        out += base64.b64decode(str(line.get("stdout", "")))
        err += base64.b64decode(str(line.get("stderr", "")))
    assert out == data
    assert err == b"complaint\n"


def test_without_input_there_is_nothing_to_read(start: Start) -> None:
    assert start(["cat"]).until("exit")["exit"] == 0


def test_environment_and_folder(start: Start, tmp_path: Path) -> None:
    raw = start(["sh", "-c", 'echo "$IMPI_TEST $(pwd)"'], env={"IMPI_TEST": "yes"}, cwd=str(tmp_path))
    assert raw.printed() == f"yes {tmp_path}\n"


def test_the_command_may_be_interrupted_as_usual(start: Start) -> None:
    # Signals that the supervisor does not care for must not be ignored in what it starts.
    raw = start(["sh", "-c", "grep SigIgn /proc/self/status"])
    ignored = int(raw.printed().split()[1], 16)
    assert ignored & (1 << 1 | 1 << 0 | 1 << 12) == 0  # INT, HUP, PIPE


DEEP = """
import os, signal, subprocess, sys, time
if sys.argv[1:] == ["deep-one"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(600)
subprocess.Popen([sys.executable, __file__, "deep-one"], start_new_session=True)
"""


def test_a_daemon_left_behind_is_a_leftover_and_ended(start: Start, tmp_path: Path) -> None:
    # In a session of its own, its parent gone, and deaf to TERM.
    program = tmp_path / "deep.py"
    program.write_text(DEEP)
    os.mkfifo(tmp_path / "go")
    raw = start(["sh", "-c", f"{sys.executable} {program} & wait; read line < {tmp_path}/go"])
    deep = int(raw.printed())
    (tmp_path / "go").write_text("go\n")
    end = raw.until("exit")
    assert end["exit"] == 0
    assert isinstance(end["leftovers"], list)
    assert end["leftovers"] == [f"{sys.executable} {program} deep-one"]
    assert gone(deep)


def test_what_ends_by_itself_soon_is_no_leftover(start: Start) -> None:
    raw = start(["sh", "-c", "sleep 0.2 & exit 5"], settle_s=20.0)
    assert raw.until("exit") == {"exit": 5, "leftovers": []}


STUBBORN = "trap '' TERM; sleep 600 & echo $$ $!; while :; do sleep 600; done"


def test_stop_ends_all_of_it(start: Start) -> None:
    raw = start(["sh", "-c", "sleep 600 & echo $$ $!; wait"])
    pids = list(map(int, raw.printed().split()))
    raw.say({"do": "stop"})
    assert raw.until("exit") == {"exit": -15, "leftovers": []}
    assert gone(*pids)


def test_stop_kills_what_does_not_hear_term(start: Start) -> None:
    raw = start(["sh", "-c", STUBBORN], grace_s=0.1)
    pids = list(map(int, raw.printed().split()))
    raw.say({"do": "stop"})
    end = raw.until("exit")
    assert end["exit"] == -9
    assert gone(*pids)


def test_the_end_of_its_input_ends_all_of_it(start: Start) -> None:
    raw = start(["sh", "-c", STUBBORN], grace_s=0.1)
    pids = list(map(int, raw.printed().split()))
    assert raw.process.stdin is not None
    raw.process.stdin.close()
    assert gone(*pids)
    assert raw.process.wait(DEADLINE_S) == 0


def test_a_broken_output_ends_all_of_it(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; while :; do echo more; sleep 0.01; done"])
    pid = int(raw.printed().split()[0])
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    assert gone(pid)


def test_term_to_the_supervisor_ends_all_of_it(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; sleep 600"])
    pid = int(raw.printed())
    raw.process.terminate()
    assert raw.until("exit")["exit"] == -15
    assert gone(pid)


def test_a_killed_supervisor_takes_the_command_with_it(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; exec sleep 600"])
    pid = int(raw.printed())
    raw.process.kill()
    assert gone(pid)


def test_forks_faster_than_the_walk_are_ended_too(start: Start) -> None:
    name = f"runaway-{secrets.token_hex(8)}"
    # Each process is replaced by a new one again and again.
    code = "import os, time\nend = time.monotonic() + 20\nwhile time.monotonic() < end:\n    if os.fork(): os._exit(0)"
    raw = start(["sh", "-c", f'echo ready; {sys.executable} -c "{code}" {name} & sleep 600'], grace_s=0.1)
    assert raw.printed() == "ready\n"
    raw.say({"do": "stop"})
    assert "exit" in raw.until("exit")
    assert [p for p in Path("/proc").glob("[0-9]*") if name.encode() in _cmdline(p)] == []


def _cmdline(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""
