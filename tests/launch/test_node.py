"""The agent of a node, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WAIT_S = 20.0


class Agent:
    def __init__(self, argv: list[str], ranks: list[int], *, cwd: str = "/", only: bool = False, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "impi.launch.node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OUTER": "1"},
        )
        procs = [{"rank": rank, "env": {"RANK": str(rank)}} for rank in ranks]
        self.tell({"argv": argv, "cwd": cwd, "env": {"PATH": "/usr/bin:/bin", **env}, "only": only, "procs": procs})

    def tell(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def rest(self, *, hang_up: bool = False) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        if hang_up:
            self.process.stdin.close()
        with self.process.stdout:
            lines = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(WAIT_S) == 0
        self.process.stdin.close()
        return lines


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """A deadline for tests that read from an agent."""

    def late(*_: object) -> None:
        raise TimeoutError("the agent said nothing more")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def printed(lines: list[dict[str, Any]], rank: int, name: str) -> str:
    return "".join(line.get(name, "") for line in lines if line.get("rank") == rank)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def test_output_environment_and_exit_codes() -> None:
    script = 'echo "I am $RANK, $MINE, $OUTER"; echo grief >&2; printf "no end \\344"; exit $RANK'
    agent = Agent(["sh", "-c", script], [0, 3], MINE="yes")
    lines = agent.rest()
    for rank in (0, 3):
        assert printed(lines, rank, "stdout").encode("latin-1") == b"I am %d, yes, 1\nno end \xe4" % rank
        assert printed(lines, rank, "stderr") == "grief\n"
    assert {line["rank"]: line["exit"] for line in lines if "exit" in line} == {0: 0, 3: 3}
    assert len({line["pid"] for line in lines if "pid" in line}) == 2


def test_only_the_environment_that_was_given() -> None:
    lines = Agent(["sh", "-c", "echo $OUTER-$MINE"], [0], only=True, MINE="yes").rest()
    assert printed(lines, 0, "stdout") == "-yes\n"


def test_lines_of_procs_are_kept_apart() -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do printf $RANK; sleep 0.01; printf $RANK; echo; done"
    lines = Agent(["sh", "-c", script], [1, 2]).rest()
    pieces = [line["stdout"] for line in lines if "stdout" in line]
    assert all(set(piece.splitlines()) in ({"11"}, {"22"}) for piece in pieces)
    assert "".join(pieces).count("11\n") == 9


def test_a_very_long_line_is_not_held_back_for_ever() -> None:
    agent = Agent(["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; sleep 100"], [0])
    total = 0
    while total < 80_000:
        total += len(agent.line().get("stdout", ""))
    agent.rest(hang_up=True)


def test_ended_by_a_signal() -> None:
    assert {"rank": 0, "exit": -9} in Agent(["sh", "-c", "kill -9 $$"], [0]).rest()


@pytest.mark.parametrize(
    ("argv", "cwd", "text"),
    [
        (["/no/such/program"], "/", "cannot start /no/such/program"),
        (["true"], "/no/such/folder", "in /no/such/folder: No such file or directory"),
    ],
)
def test_what_cannot_be_started(argv: list[str], cwd: str, text: str) -> None:
    lines = Agent(argv, [0, 1], cwd=cwd).rest()
    assert text in lines[0]["error"]
    assert len(lines) == 1


@pytest.mark.parametrize("how", ["hang up", "TERM", "impirun vanishes"])
@pytest.mark.parametrize("stubborn", [False, True])
def test_everything_is_ended(how: str, stubborn: bool) -> None:
    """Also a process in a session of its own whose parent has ended, and one that ignores TERM."""
    deaf = "trap '' TERM; " if stubborn else ""
    child = f"{deaf}echo child $$; while :; do sleep 0.1; done"
    agent = Agent(
        ["sh", "-c", f'{deaf}setsid sh -c "$CHILD" & echo proc $$; while :; do sleep 0.1; done'], [0], CHILD=child
    )
    pids: list[int] = []
    while len(pids) < 2:
        pids += [int(word) for word in agent.line().get("stdout", "").split() if word.isdigit()]
    if how == "TERM":
        agent.process.terminate()
        agent.rest()
    elif how == "hang up":
        lines = agent.rest(hang_up=True)
        assert lines[-1]["exit"] in (-9, -15)
    else:
        assert agent.process.stdin is not None
        assert agent.process.stdout is not None
        agent.process.stdout.close()
        agent.process.stdin.close()
        agent.process.wait(WAIT_S)
    assert all(gone(pid) for pid in pids)


def test_it_does_not_wait_for_what_a_proc_left_behind() -> None:
    agent = Agent(["sh", "-c", "sleep 30 & echo $!"], [0])
    begin = time.monotonic()
    lines = agent.rest()
    assert time.monotonic() - begin < 15
    left = int(printed(lines, 0, "stdout"))
    os.kill(left, 0)  # it goes on: the program has succeeded
    os.kill(left, signal.SIGKILL)


def test_shared_memory_of_killed_procs_is_removed() -> None:
    mine = Path(f"/dev/shm/sm_segment.test.{os.getpid()}")
    other = Path(f"/dev/shm/sm_segment.other.{os.getpid()}")
    other.write_bytes(bytes(10))
    code = f"""
import mmap, time
with open({str(mine)!r}, "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(100)
"""
    try:
        agent = Agent([sys.executable, "-c", code], [0])
        while "mapped" not in agent.line().get("stdout", ""):
            pass
        agent.tell({})  # MPI is initialised
        assert mine.exists()
        agent.rest(hang_up=True)
        assert not mine.exists()
        assert other.exists()
    finally:
        mine.unlink(missing_ok=True)
        other.unlink()
