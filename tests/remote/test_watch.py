"""What a starter sees from outside: processes that are stopped, connections that are cut."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.remote import processes
from impi.remote.watch import Ends, Watch

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LISTENER = ("10.0.0.1", 8080)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def line(*, own: str, other: str, state: str = "01", timer: str = "01", repeated: int = 0, probes: int = 0) -> str:
    """A line of /proc/net/tcp about the socket of inode 77."""
    return (
        f"   1: {own} {other} {state} 00000010:00000000 {timer}:00000014 {repeated:08X}  1000 {probes:8d} 77 2 0 20\n"
    )


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """This process, among whose sockets is one of inode 77."""
    real = os.readlink
    with socket.socket() as held:
        own = real(f"/proc/self/fd/{held.fileno()}")
        monkeypatch.setattr(os, "readlink", lambda path: "socket:[77]" if real(path) == own else real(path))
        yield os.getpid()


HERE = "0100000A:1F90"
THERE = "0200000A:C350"
MAPPED_HERE = "0000000000000000FFFF00000100000A:1F90"
MAPPED_THERE = "0000000000000000FFFF00000200000A:C350"


def look(watch: Watch, folder: Path, text: str, pid: int) -> list[Ends]:
    table = folder / "tcp"
    table.write_text(HEAD + text, "ascii")
    return watch.cut([pid], [str(table), str(folder / "none")])


@pytest.mark.parametrize("ends", [(HERE, THERE), (MAPPED_HERE, MAPPED_THERE)])
@pytest.mark.parametrize("counter", ["repeated", "probes"])
def test_a_connection_that_nobody_acknowledges_for_long_is_cut(
    tmp_path: Path, process: int, ends: tuple[str, str], counter: str
) -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    watch.ends = {LISTENER}
    text = line(own=ends[0], other=ends[1], **{counter: 3})  # type: ignore[arg-type]
    assert look(watch, tmp_path, text, process) == []
    clock.now += 9.9
    assert look(watch, tmp_path, text, process) == []
    clock.now += 0.1
    assert look(watch, tmp_path, text, process) == [(("10.0.0.1", 8080), ("10.0.0.2", 50000))]
    clock.now += 100
    assert look(watch, tmp_path, text, process) == []  # it is told once


def test_an_acknowledgement_begins_the_time_anew(tmp_path: Path, process: int) -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    watch.ends = {LISTENER}
    cut, whole = (line(own=THERE, other=HERE, repeated=count) for count in (3, 0))
    for text in (cut, whole, cut, whole, cut):
        assert look(watch, tmp_path, text, process) == []
        clock.now += 9.0
    clock.now += 1.0
    assert look(watch, tmp_path, cut, process) == [(("10.0.0.2", 50000), ("10.0.0.1", 8080))]


@pytest.mark.parametrize(
    "text",
    [
        line(own=THERE, other=THERE, repeated=3),  # not of this job
        line(own=HERE, other=THERE, repeated=3, state="02"),  # it has not begun
        line(own=HERE, other=THERE, repeated=3, timer="00"),
        line(own=HERE, other=THERE).replace(" 77 ", " 78 "),  # another process
    ],
)
def test_connections_that_do_not_count(tmp_path: Path, process: int, text: str) -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    watch.ends = {LISTENER}
    for _ in range(3):
        assert look(watch, tmp_path, text, process) == []
        clock.now += 20


def test_without_listeners_nothing_is_read() -> None:
    assert Watch(1.0).cut([], ["/no/such/table"]) == []


def test_the_tables_of_this_machine_can_be_read() -> None:
    watch = Watch(10.0)
    watch.ends = {("127.0.0.1", 1)}
    assert watch.cut([os.getpid()]) == []


def test_looks_have_their_time() -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    assert watch.due()
    assert not watch.due()
    clock.now += 1.0
    assert watch.due()


def test_a_process_is_lost_after_it_was_stopped_for_long() -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            os.kill(child.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert watch.stopped(processes.descendants()) == []
            clock.now += 10.0
            assert watch.stopped(processes.descendants()) == [child.pid]
            assert watch.stopped(processes.descendants()) == []
            os.kill(child.pid, signal.SIGCONT)
            os.waitid(os.P_PID, child.pid, os.WCONTINUED | os.WNOWAIT)
            assert watch.stopped(processes.descendants()) == []
        finally:
            child.kill()
