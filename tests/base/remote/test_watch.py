"""A starter's view from outside: processes that are stopped, connections that are cut."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from impi.base.remote import processes, watch
from impi.base.remote.unacknowledged import Connections, Ends
from impi.base.remote.watch import Watch

LISTENER = ("10.0.0.1", 8080)
PEER = ("10.0.0.2", 50000)
OURS, ANOTHERS = 77, 78


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


Listed = list[tuple[int, Ends]]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    """Unacknowledged connections: inodes and ends; this process has the socket of inode 77."""
    now: Listed = []

    def unacknowledged(_connections: Connections, ports: set[int]) -> Listed:
        return now if ports == {8080} else []

    monkeypatch.setattr(Connections, "unacknowledged", unacknowledged)
    monkeypatch.setattr(
        watch, "sockets", lambda pids: {OURS} if list(pids) == [os.getpid()] else set()
    )
    return now


def looking(clock: Clock, limit_s: float = 10.0) -> Watch:
    made = Watch(limit_s, clock)
    made.ends = {LISTENER}
    return made


def test_a_connection_that_nobody_acknowledges_for_long_is_cut(listed: Listed) -> None:
    clock = Clock()
    watch = looking(clock)
    listed[:] = [(OURS, (LISTENER, PEER))]
    assert watch.cut([os.getpid()]) == []
    clock.now += 9.9
    assert watch.cut([os.getpid()]) == []
    clock.now += 0.1
    assert watch.cut([os.getpid()]) == [(LISTENER, PEER)]
    clock.now += 100
    assert watch.cut([os.getpid()]) == []  # it is told once


def test_an_acknowledgement_begins_the_time_anew(listed: Listed) -> None:
    clock = Clock()
    watch = looking(clock)
    cut: Listed = [(OURS, (PEER, LISTENER))]
    for now in (cut, [], cut, [], cut):
        listed[:] = now
        assert watch.cut([os.getpid()]) == []
        clock.now += 9.0
    clock.now += 1.0
    assert watch.cut([os.getpid()]) == [(PEER, LISTENER)]


@pytest.mark.parametrize(
    ("inode", "ends"),
    [
        (OURS, (("10.0.0.3", 8080), PEER)),  # not of this job
        (ANOTHERS, (LISTENER, PEER)),  # of another process
    ],
)
def test_connections_that_do_not_count(listed: Listed, inode: int, ends: Ends) -> None:
    clock = Clock()
    watch = looking(clock)
    listed[:] = [(inode, ends)]
    for _ in range(3):
        assert watch.cut([os.getpid()]) == []
        clock.now += 20


def test_without_listeners_the_kernel_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Connections, "unacknowledged")
    assert Watch(1.0).cut([]) == []


def test_looks_have_their_time() -> None:
    clock = Clock()
    watch = Watch(10.0, clock)
    assert watch.due()
    assert not watch.due()
    clock.now += 0.5
    assert not watch.due()
    clock.now += 0.5
    assert watch.due()


def test_a_job_in_which_all_is_well_has_fewer_looks(listed: Listed) -> None:
    clock = Clock()
    watch = looking(clock)
    assert watch.due()
    clock.now += 0.5
    assert watch.left_s == 0.5
    assert not watch.due()
    clock.now += 0.5
    assert watch.due()
    listed[:] = [(OURS, (LISTENER, PEER))]
    watch.cut([os.getpid()])
    assert watch.left_s == 0.5


@pytest.mark.parametrize("late_s", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("limit_s", [5.0, 5.25])
def test_what_is_lost_is_told_at_once_when_its_time_is_over(
    listed: Listed, late_s: float, limit_s: float
) -> None:
    """As looks each half second would tell it: a quarter of a second late on average."""
    clock = Clock()
    watch = looking(clock, limit_s)
    assert watch.due()
    assert watch.cut([os.getpid()]) == []
    began = clock.now + 1.0 - late_s
    listed[:] = [(OURS, (LISTENER, PEER))]
    told: list[Ends] = []
    while not told:
        clock.now += watch.left_s
        assert watch.due()
        told = watch.cut([os.getpid()])
    assert clock.now - began == pytest.approx(limit_s + late_s - 0.25)


def test_who_knows_of_a_stop_need_not_wait_for_the_next_look(listed: Listed) -> None:
    clock = Clock()
    watch = looking(clock)
    assert watch.due()
    clock.now += 0.7
    watch.hurry()
    assert watch.left_s == 0
    assert watch.due()
    assert watch.stopped(processes.Groups({7: 7}, {7})) == []
    assert not watch.due()
    clock.now += 9.9
    assert watch.stopped(processes.Groups({7: 7}, {7})) == []
    clock.now += 0.1
    assert watch.stopped(processes.Groups({7: 7}, {7})) == [7]


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
