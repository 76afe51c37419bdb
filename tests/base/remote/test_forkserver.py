"""A node's fork server: commands that are forks of it, and errands."""

from __future__ import annotations

import base64
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.base.remote import forkserver, supervised
from impi.base.remote.commands import Commands, this_machine
from impi.base.remote.supervised import Supervised

DEADLINE_S = 30.0

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    made = this_machine({"PATH": "/usr/bin:/bin"})
    yield made
    made.close()


def first_line(command: Supervised) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def python(commands: Commands, *argv: str, **changes: object) -> supervised.Completed:
    """``python -I -S ARGV``, which is a fork, and the same by a start."""
    whole = [sys.executable, "-I", "-S", *argv]
    env = {**ENV, "LC_ALL": "C.UTF-8"}
    begun = [
        commands.start(a, env=env, only=True, **changes)  # type: ignore[arg-type]
        for a in (whole, ["env", *whole])
    ]
    outcome, expected = (command.wait(DEADLINE_S) for command in begun)
    assert (outcome.code, outcome.stdout) == (expected.code, expected.stdout)
    assert outcome.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]
    return outcome


PROGRAM = """import os, signal, sys
print(sys.argv, __name__, os.getcwd(), sorted(os.environ)[:1], os.getpid() == os.getsid(0))
print([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)])
print(sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read(), flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('sentence')", 1),
        ("1 / 0", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("raise SystemExit", 0),
    ],
)
@pytest.mark.parametrize("file", [False, True])
def test_a_forked_python_is_like_a_started_one(
    commands: Commands, tmp_path: Path, end: str, code: int, file: bool
) -> None:
    text = PROGRAM.format(end=end)
    (tmp_path / "program.py").write_text(text)
    first = [str(tmp_path / "program.py")] if file else ["-c", text]
    outcome = python(commands, *first, "one", cwd=str(tmp_path), stdin=b"in")
    assert outcome.code == code
    assert b"'one'] __main__" in outcome.stdout


def test_a_forked_python_is_ended_like_any_other(commands: Commands) -> None:
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    command = commands.start([sys.executable, "-I", "-S", "-c", text], env=ENV)
    pid = int(first_line(command))
    assert command.stop().code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_commands_hold_nothing_of_each_other(commands: Commands) -> None:
    """Else one would not notice the end of the pipe of another."""
    begun = [
        commands.start(["sh", "-c", "echo $PPID; sleep 600"], env=ENV) for _ in range(3)
    ]
    starters = [int(first_line(command)) for command in begun]
    held = [
        {str(Path(f"/proc/{pid}/fd/{n}").readlink()) for n in (0, 1)}
        for pid in starters
    ]
    for pid, own in zip(starters, held, strict=True):
        others = {pipe for pipes in held for pipe in pipes} - own
        assert not others & {
            str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()
        }
    for command in begun:
        command.stop()


def test_errands_read_and_write_files(tmp_path: Path) -> None:
    path = str(tmp_path / "sub" / "file")
    written = {
        "do": "write",
        "path": path,
        "data": base64.b64encode(b"0123456789").decode(),
        "mode": 0o600,
    }
    assert forkserver.perform(written) == {}
    assert Path(path).stat().st_mode & 0o777 == 0o600
    answer = forkserver.perform({"do": "read", "path": path, "offset": 2, "most": 5})
    assert base64.b64decode(answer["data"]) == b"23456"
    assert forkserver.perform(
        {"do": "read", "path": f"{path}/none", "offset": 0, "most": 5}
    ) == {"data": None}
    assert forkserver.perform(
        {"do": "read", "path": str(tmp_path), "offset": 0, "most": 5}
    ) == {"error": "Is a directory"}


def test_an_errand_sends_one_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(DEADLINE_S)
        data = base64.b64encode(b"one").decode()
        where = {
            "host": "127.0.0.1",
            "port": receiver.getsockname()[1],
            "source": "127.0.0.1",
        }
        assert forkserver.perform({"do": "datagram", "data": data, **where}) == {}
        assert receiver.recv(99) == b"one"
