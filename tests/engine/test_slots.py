"""Procs that show each other octets in shared memory, each in a thread: they read what was shown for that call."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.engine.rollcall import APART, BY_SLOTS, SHOWN, SHOWN_ROOTED, TOGETHER, Board, RollCall
from impi.engine.slots import Area, Calls, Slots
from tests.engine.test_rollcall import Engine, Faults, run

LONGEST = 3 * mmap.PAGESIZE
BUDGET = 64 * 1024 * 1024


pytestmark = pytest.mark.usefixtures("quick_turns")


class Memory:
    """A file that the procs of a client share."""

    def __init__(self, size: int, largest: int = LONGEST) -> None:
        self.size, self.table = size, 8 * size * (256 * 17 + size)
        self.fd = os.memfd_create("slots")
        self.area = Area.of(self.fd, self.table, size, largest, BUDGET)
        os.ftruncate(self.fd, self.area.end)
        self.words = memoryview(mmap.mmap(self.fd, self.table)).cast("Q")

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self.fd)

    def calls(self, me: int, *, cid: int = 0, members: list[int] | None = None, asks: int = 4) -> RollCall:
        members = list(range(self.size)) if members is None else members
        context: Any = SimpleNamespace(
            cid=cid,
            members=members,
            rank=members.index(me),
            shadow=SimpleNamespace(prompt=SimpleNamespace(counter=SimpleNamespace(messages=0))),
            faults=Faults(),
            waiting=0,
        )
        board = Board(self.words, self.size, range(self.size), self.area)
        calls = board.calls(Engine(self.size, asks), context)  # type: ignore[arg-type]
        assert calls is not None
        return calls


def pattern(rank: int, number: int, nbytes: int) -> bytes:
    return bytes([1 + (rank * 31 + number * 7) % 251]) * nbytes


@st.composite
def dances(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, int, int]]]:
    """How many procs; and for each call what it is, how much each shows, who does another thing, and who is slow."""
    size = draw(st.integers(2, 4))
    one = st.tuples(
        st.sampled_from(["together", "together", "rooted", "away"]),
        st.sampled_from([0, 1, 100, mmap.PAGESIZE + 1, LONGEST]),
        st.sampled_from([-1, -1, -1, *range(size)]),
        st.sampled_from([-1, *range(size)]),
    )
    return size, draw(st.lists(one, min_size=1, max_size=40))


@settings(max_examples=60)
@given(dances(), st.integers(0, 5), st.booleans())
def test_each_reads_what_was_shown(
    dance: tuple[int, list[tuple[str, int, int, int]]], asks: int, odd_is_away: bool
) -> None:
    """Somebody that shows nothing, or goes the long way, does so with an answer that is everybody's."""
    size, calls = dance

    def proc(memory: Memory, me: int) -> Callable[[], list[int]]:
        def body() -> list[int]:
            mine = memory.calls(me, asks=asks)
            assert mine.slots is not None
            answers = []
            for number, (kind, nbytes, odd, slow) in enumerate(calls):
                if kind == "away" or (me == odd and odd_is_away):
                    answers.append(int(mine.away()))
                    continue
                shows = me != odd
                places = mine.slots.places(nbytes) if shows else []
                if shows:
                    places[me][:nbytes] = pattern(me, number, nbytes)
                if kind == "together":
                    how = mine.together(5 + (SHOWN if shows else 0))
                else:
                    octets = [8] * size
                    said = mine.of_all(octets, 1) if me == 1 else 8
                    how = mine.rooted(3 + (SHOWN_ROOTED if shows else 0), 1, said)
                answers.append(how)
                if how == BY_SLOTS:
                    if me == slow:
                        threading.Event().wait(0.002)
                    for rank, place in enumerate(places):
                        assert place[:nbytes] == pattern(rank, number, nbytes), (number, rank)
            return answers

        return body

    def wanted(kind: str, odd: int) -> int:
        if kind == "away" or (odd >= 0 and odd_is_away):
            return APART
        return BY_SLOTS if odd < 0 else TOGETHER

    expected = [wanted(kind, odd) for kind, _, odd, _ in calls]
    with Memory(size) as memory:
        assert run([proc(memory, me) for me in range(size)]) == [expected] * size


def test_slots_of_disjoint_communicators_are_apart() -> None:
    def proc(memory: Memory, members: list[int], me: int) -> Callable[[], list[bytes]]:
        def body() -> list[bytes]:
            calls, seen = memory.calls(me, members=members), []
            assert calls.slots is not None
            for number in range(100):
                places = calls.slots.places(4)
                places[members.index(me)][:4] = pattern(me, number, 4)
                assert calls.together(SHOWN + 1) == BY_SLOTS
                seen += [bytes(place[:4]) for place in places]
            return seen

        return body

    with Memory(4) as memory:
        found = run([proc(memory, m, me) for me, m in enumerate([[0, 2], [3, 1], [0, 2], [3, 1]])])
    for me, members in enumerate([[0, 2], [3, 1], [0, 2], [3, 1]]):
        assert found[me] == [pattern(r, number, 4) for number in range(100) for r in members]


def test_a_call_that_was_given_up_before_it_was_made() -> None:
    """An interrupt between: the next call is of the same number, and nobody is waited for."""
    with Memory(2) as memory:
        calls = [memory.calls(me) for me in range(2)]
        for _ in range(3):
            for mine in calls:
                assert mine.slots is not None
                mine.slots.places(8)
                assert mine.slots.places(8)
            assert run([lambda mine=mine: mine.together(SHOWN + 1) for mine in calls]) == [BY_SLOTS] * 2  # type: ignore[misc]


def test_memory_is_taken_when_it_is_used() -> None:
    with Memory(2, 256 * 1024) as memory:
        before = os.fstat(memory.fd).st_blocks * 512
        slots = memory.calls(0).slots
        assert slots is not None
        slots.places(0)
        assert os.fstat(memory.fd).st_blocks * 512 == before
        slots.places(100)
        assert os.fstat(memory.fd).st_blocks * 512 == before + 2 * mmap.PAGESIZE
        slots.places(70_000)
        assert os.fstat(memory.fd).st_blocks * 512 == before + 2 * 128 * 1024


@pytest.mark.parametrize("what", ["posix_fallocate", "mmap"])
def test_where_there_is_no_room_nothing_is_shown(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    with Memory(2) as memory:
        slots = memory.calls(0).slots
        assert slots is not None
        monkeypatch.setattr(os if what == "posix_fallocate" else mmap, what, full)
        assert slots.places(8) == []
        monkeypatch.undo()
        assert len(slots.places(8)) == 2


@pytest.mark.parametrize(
    ("procs", "largest", "budget", "slot", "communicators"),
    [
        (2, 256 * 1024, BUDGET, 256 * 1024, 64),
        (2, 1, BUDGET, mmap.PAGESIZE, 4096),
        (2, 0, BUDGET, 0, 0),
        (2, 1 << 40, BUDGET, 1024 * 1024, 16),
        (3, 1 << 40, BUDGET, 1024 * 1024, 10),
        (16, 256 * 1024, BUDGET, 256 * 1024, 8),
        (17, 256 * 1024, BUDGET, 0, 0),
        (2, 256 * 1024, BUDGET // 64, 256 * 1024, 1),
        (2, 256 * 1024, 5 * mmap.PAGESIZE, mmap.PAGESIZE, 1),
        (2, 256 * 1024, 3 * mmap.PAGESIZE, 0, 0),
        (2, 256 * 1024, 0, 0, 0),
    ],
)
def test_how_much_there_is(procs: int, largest: int, budget: int, slot: int, communicators: int) -> None:
    area = Area.of(-1, 100, procs, largest, budget)
    assert (area.slot, area.communicators, area.start) == (slot, communicators, mmap.PAGESIZE)
    assert area.end - area.start == communicators * 2 * procs * slot <= budget
    numbers = Calls([0], [0], lambda turn: None)
    assert area.slots(communicators, range(procs), 0, numbers) is None
    assert not communicators or isinstance(area.slots(communicators - 1, range(procs), 0, numbers), Slots)


def test_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is for the MPI library, which has its own memory in that folder."""
    free = SimpleNamespace(f_bavail=1000, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda folder: free)
    assert Area.budget("/dev/shm") == 1_024_000
    free.f_bavail = 1 << 40
    assert Area.budget("/dev/shm") == BUDGET
    monkeypatch.undo()
    assert Area.budget("/no/such/folder") == 0
