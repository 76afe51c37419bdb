"""The channel to a node's fork server: many commands at once, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from impi.base.errors import LaunchError
from impi.base.remote import starter
from impi.base.remote.commands import bootstrap, this_machine
from impi.base.remote.starter_lines import NOTHING, unpack
from impi.base.remote.supervised import Supervised

DEADLINE_S = 30.0

ENV = {"PATH": "/usr/bin:/bin"}


def first_line(command: Supervised) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def test_the_bootstrap_leaves_the_input_to_the_fork_server() -> None:
    argv, text = bootstrap("python3")
    assert argv[:4] == ["python3", "-I", "-S", "-c"]
    assert (
        json.loads(text)["impi.base.remote.starter"]
        == Path(starter.__file__).read_text()
    )
    assert str(len(text)) in argv[4]


def test_a_line_for_a_command_that_is_over_is_no_new_command() -> None:
    """Such as a stop that crosses the end."""
    argv, text = bootstrap(sys.executable)
    spec = {
        "argv": ["true"],
        "procs": {"0": {}},
        "env": {},
        "only": False,
        "cwd": "",
        "stdin": None,
        "fed": None,
        "grace_s": 1.0,
        "settle_s": 0.0,
        "silence_s": None,
        "leaves": NOTHING,
    }
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(text + b"1 " + json.dumps(spec).encode() + b"\n")
        server.stdin.flush()
        while server.stdout.readline() != b"1 \n":
            pass
        server.stdin.write(
            b'1 {"do": "stop"}\n1 \n2 ' + json.dumps(spec).encode() + b"\n"
        )
        server.stdin.flush()
        rest: list[bytes] = []
        while not rest or rest[-1] != b"2 \n":
            rest.append(server.stdout.readline())
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.wait(DEADLINE_S) == 0
    assert not [line for line in rest if line.startswith(b"1 ")]
    assert rest[-2] == b'2 {"leftovers": []}\n'


def test_a_fork_server_that_is_killed_ends_all_and_is_an_error() -> None:
    own = this_machine({"PATH": "/usr/bin:/bin"})
    first, second = (
        own.start(["sh", "-c", "echo $$ $PPID; sleep 600"], env=ENV) for _ in range(2)
    )
    pids = [*map(int, first_line(first).split()), *map(int, first_line(second).split())]
    server = int(
        Path(f"/proc/{pids[1]}/stat").read_text().rpartition(")")[2].split()[1]
    )
    os.kill(server, signal.SIGKILL)
    for command in (first, second):
        with pytest.raises(LaunchError, match="outcome of sh is unknown"):
            command.wait(DEADLINE_S)
    with pytest.raises(LaunchError, match="fork server"):
        own.start(["true"])
    deadline = time.monotonic() + DEADLINE_S
    while (
        any(Path(f"/proc/{pid}").exists() for pid in pids)
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_closing_the_fork_server_ends_all() -> None:
    own = this_machine({"PATH": "/usr/bin:/bin"})
    command = own.start(["sh", "-c", "echo $$; sleep 600"], env=ENV)
    pid = int(first_line(command))
    own.close()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_closing_needs_no_fork_server_that_reads() -> None:
    """A write that waits for ever ends, too, and nothing of it goes to the next fork server."""
    own = this_machine({"PATH": "/usr/bin:/bin"})
    command = own.start(["sh", "-c", "echo $PPID; sleep 600"], env=ENV)
    starter_pid = int(first_line(command))
    server = int(
        Path(f"/proc/{starter_pid}/stat").read_text().rpartition(")")[2].split()[1]
    )
    os.kill(server, signal.SIGSTOP)
    failed = threading.Event()

    def write() -> None:
        with pytest.raises(LaunchError, match="fork server on this machine is gone"):
            own.start(["true"], stdin=bytes(10_000_000))
        failed.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert not failed.wait(0.3)
        own.close()
        assert failed.wait(DEADLINE_S)
    finally:
        os.kill(server, signal.SIGCONT)
        writer.join()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM


WARMED = """
import os, sys
from pathlib import Path
from typing import Any
loaded = []
def warm_up():
    loaded.append(os.getpid())
def main(argv):
    from impi.base.remote import starter
    print(argv, bool(loaded) and loaded[0] != os.getpid(), sys.orig_argv[1:], starter.__file__)
    print(Path("/proc/self/cmdline").read_bytes().split(b"\\0")[1:-1], os.environ["OF"])
    return 3
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def ask_for_one(argv: list[str], first: bytes, folder: Path, command: list[str]) -> Any:
    """Return the reports of one command by a fork server, up to the last one."""
    spec = {
        "argv": command,
        "procs": {"0": {}},
        "env": {"OF": "the command"},
        "only": False,
        "cwd": "",
        "stdin": None,
        "fed": None,
        "grace_s": 1.0,
        "settle_s": 0.0,
        "silence_s": None,
        "leaves": NOTHING,
    }
    path = f"{folder}:{Path(starter.__file__).parents[3]}"
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**ENV, "PYTHONPATH": path, "OF": "the fork server"},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(first + b"1 " + json.dumps(spec).encode() + b"\n")
        server.stdin.flush()
        lines = [*iter(server.stdout.readline, b"1 \n")]
        server.stdin.close()
    return [json.loads(line.partition(b" ")[2]) for line in lines]


def said(reports: Any) -> str:
    return b"".join(unpack(r["stdout"]) for r in reports if "stdout" in r).decode()


def test_a_command_is_a_fork_of_a_process_that_has_loaded_its_module(
    tmp_path: Path,
) -> None:
    """It shows its own words, and has the node's modules: ours only supervise it."""
    (tmp_path / "warmed.py").write_text(WARMED)
    command = [sys.executable, "-m", "warmed", "one", "two"]
    warm = ask_for_one(*bootstrap(sys.executable, "warmed"), tmp_path, command)
    first, second = said(warm).splitlines()
    assert first == f"['one', 'two'] True {command[1:3]} {starter.__file__}"
    words = [word.encode() for word in command[1:]]
    assert second == f"{words} the command"
    assert [report["exit"] for report in warm if "exit" in report] == [3]


def test_a_module_that_cannot_be_loaded_fails_in_the_command_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "warmed.py").write_text(WARMED + "\nraise OSError('no')\n")
    command = [sys.executable, "-m", "warmed"]
    reports = ask_for_one(*bootstrap(sys.executable, "warmed"), tmp_path, command)
    assert [report["exit"] for report in reports if "exit" in report] == [3]


def test_other_commands_of_a_warm_fork_server_are_fresh(tmp_path: Path) -> None:
    (tmp_path / "warmed.py").write_text(WARMED)
    command = [sys.executable, "-c", "import sys; print('warmed' in sys.modules)"]
    reports = ask_for_one(*bootstrap(sys.executable, "warmed"), tmp_path, command)
    assert said(reports) == "False\n"
