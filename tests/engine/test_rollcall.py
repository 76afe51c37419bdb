"""Procs that come to collectives by a shared table, each in a thread: whatever they do, all come to one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.engine import rollcall
from impi.engine.rollcall import Board, RollCall

REGIONS, RING = 256, 16
WORDS = 1 << 16


pytestmark = pytest.mark.usefixtures("quick_turns")


class Engine:
    """What a roll call needs of the real one: to be asked again and again, and to drive what is tracked."""

    def __init__(self, size: int, asks: int) -> None:
        self.vendor_ranks = {rank: rank for rank in range(size)}
        self.asks = range(asks)
        self.tracked: list[Any] = []

    def progress(self) -> None:
        pass

    def ask(self, test: Callable[[], bool]) -> bool:
        return test()

    def track(self, operation: Any) -> None:
        self.tracked.append(operation)

    def wait(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.tracked = [operation for operation in self.tracked if not operation.advance()]


class Broken(Exception):
    """In place of what a refused collective raises."""


class Faults:
    def __init__(self) -> None:
        self.begun, self.calm, self.broken = 0, True, False

    def failure(self) -> Exception:
        return Broken()


def roll_call(
    words: memoryview, size: int, members: list[int], me: int, *, cid: int = 0, asks: int = 4, present: Any = None
) -> tuple[RollCall | None, Faults, SimpleNamespace]:
    counter = SimpleNamespace(messages=0)
    faults = Faults()
    context: Any = SimpleNamespace(
        cid=cid,
        members=members,
        rank=members.index(me),
        shadow=SimpleNamespace(prompt=SimpleNamespace(counter=counter)),
        faults=faults,
        waiting=0,
    )
    board = Board(words, size, range(size) if present is None else present)
    return board.calls(Engine(size, asks), context), faults, counter  # type: ignore[arg-type]


def table(size: int) -> memoryview:
    return memoryview(bytearray(8 * size * (REGIONS * (RING + 1) + size))).cast("Q")


def run(procs: list[Callable[[], Any]]) -> list[Any]:
    results: list[Any] = [None] * len(procs)

    def proc(number: int) -> None:
        results[number] = procs[number]()

    threads = [threading.Thread(target=proc, args=(number,), daemon=True) for number in range(len(procs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    return results


ONE = st.one_of(
    st.tuples(st.just("together"), st.integers(1, 2)),
    st.tuples(st.just("away"), st.just(0)),
    st.tuples(st.just("rooted"), st.integers(0, 2)),
    st.tuples(st.just("matched"), st.integers(0, 2)),
)


@st.composite
def dances(draw: st.DrawFn) -> tuple[int, list[list[tuple[str, int]]]]:
    """How many procs, and for each call what each of them does: mostly the same, sometimes something else."""
    size = draw(st.integers(2, 4))
    calls = []
    for _ in range(draw(st.integers(1, 40))):
        everybody = draw(ONE)
        odd = draw(st.sampled_from([None, None, *range(size)]))
        other = draw(st.one_of(ONE, st.just(("away", 0)))) if odd is not None else everybody
        calls.append([other if rank == odd else everybody for rank in range(size)])
    return size, calls


def answer(calls: RollCall, size: int, rank: int, kind: str, number: int, sizes: list[int]) -> int:
    """One call of one proc; ``number`` is what it believes."""
    if kind == "together":
        return calls.together(number)
    if kind == "rooted":
        root = 1
        believed = [s + (number if r == 0 and rank == root else 0) for r, s in enumerate(sizes)]
        return calls.rooted(3, root, calls.of_all(believed, root) if rank == root else sizes[rank])
    if kind == "matched":
        sent = [100 * rank + r for r in range(size)]
        room = [100 * r + rank + (number if r == 0 and rank else 0) for r in range(size)]
        return calls.matched(5, sent, room)
    return calls.away()


def expected(said: list[tuple[str, int]]) -> bool:
    """What all must come to: they do one thing, by the short way, and what they believe is right."""
    kinds, numbers = {kind for kind, _ in said}, [number for _, number in said]
    if kinds == {"together"}:
        return len(set(numbers)) == 1
    if kinds == {"rooted"}:
        return numbers[1] == 0  # the root's
    return kinds == {"matched"} and not any(numbers[1:])


@settings(max_examples=60)
@given(dances(), st.integers(0, 5))
def test_all_come_to_one_answer(dance: tuple[int, list[list[tuple[str, int]]]], asks: int) -> None:
    size, calls = dance
    words = table(size)
    sizes = [8 * rank for rank in range(size)]

    def proc(me: int) -> Callable[[], tuple[list[int], int, int]]:
        def body() -> tuple[list[int], int, int]:
            mine, faults, counter = roll_call(words, size, list(range(size)), me, asks=asks)
            assert mine is not None
            answers = [answer(mine, size, me, *said[me], sizes) for said in calls]
            return answers, faults.begun, counter.messages

        return body

    wanted = [expected(said) for said in calls]
    for rank, (answers, begun, messages) in enumerate(run([proc(me) for me in range(size)])):
        assert answers == wanted, rank
        assert begun == messages == sum(wanted)


def test_disjoint_communicators_of_one_id_do_not_meet() -> None:
    words = table(4)

    def proc(members: list[int], me: int, sign: int) -> Callable[[], list[int]]:
        calls, _, _ = roll_call(words, 4, members, me, cid=6)
        assert calls is not None
        return lambda: [calls.together(sign) for _ in range(200)]

    procs = [proc([0, 2], 0, 7), proc([3, 1], 1, 9), proc([0, 2], 2, 7), proc([3, 1], 3, 9)]
    assert run(procs) == [[True] * 200] * 4


def test_who_goes_the_long_way_is_not_too_far_ahead() -> None:
    """A word is there until all have read it, although nobody waits for anybody in these calls."""
    words = table(2)
    (fast, _, _), (slow, _, _) = (roll_call(words, 2, [0, 1], me) for me in range(2))
    assert fast is not None and slow is not None
    done = []

    def ahead() -> None:
        for _ in range(3 * RING):
            fast.away()
            done.append(None)

    runner = threading.Thread(target=ahead, daemon=True)
    runner.start()
    answers = [slow.together(1)]
    assert len(done) <= RING
    answers += [slow.together(1) for _ in range(3 * RING - 1)]
    runner.join(60)
    assert not runner.is_alive() and not any(answers)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("call", ["together", "rooted", "matched"])
def test_who_knows_of_a_refused_collective_has_left_for_good(call: str, slow: bool) -> None:
    """However many calls it makes, and although it is calm again: the others find it gone, and what it said before."""
    words = table(2)
    (hasty, faults, _), (other, _, _) = (roll_call(words, 2, [0, 1], me) for me in range(2))
    assert hasty is not None and other is not None
    before, after = 5, 3 * RING

    def first() -> list[int]:
        answers = [answer(hasty, 2, 0, call, int(call == "together"), [0, 8]) for _ in range(before)]
        faults.calm = False
        answers += [hasty.away() for _ in range(after)]
        faults.calm = True
        return answers + [answer(hasty, 2, 0, call, int(call == "together"), [0, 8]) for _ in range(after)]

    def second() -> list[int]:
        answers = []
        for _ in range(before + 2 * after):
            answers.append(answer(other, 2, 1, call, int(call == "together"), [0, 8]))
            if slow:
                threading.Event().wait(0.001)
        return answers

    wanted = [True] * before + [False] * 2 * after
    assert run([first, second]) == [wanted, wanted]


@pytest.mark.parametrize("call", ["together", "rooted", "matched"])
def test_a_refused_collective_is_not_waited_for(call: str) -> None:
    words = table(2)
    calls, faults, _ = roll_call(words, 2, [0, 1], 0)
    assert calls is not None
    faults.broken = True  # the other proc has said so, and comes no more
    with pytest.raises(Broken):
        answer(calls, 2, 0, call, 1, [8, 8])


def test_who_has_no_table() -> None:
    words = table(2)
    assert roll_call(words, 2, [0, 1], 0, present=[0])[0] is None, "not all see it"
    assert roll_call(words, 2, [0, 1], 0, cid=2 * REGIONS)[0] is None, "there is no room for so many communicators"
    assert Board(None, 2, [1]).calls(Engine(2, 1), SimpleNamespace(cid=0, members=[0, 1], shadow=None)) is None  # type: ignore[arg-type]


def test_numbers_that_have_come_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word says the lower bits of its number only."""
    monkeypatch.setattr(rollcall, "_FIRST", 1 + 0xFFD0)
    words = table(2)

    def proc(me: int) -> Callable[[], list[int]]:
        calls, _, _ = roll_call(words, 2, [0, 1], me, asks=64)
        assert calls is not None
        return lambda: [calls.away() if me and turn % 20 == 19 else calls.together(1 + turn % 3) for turn in range(96)]

    assert run([proc(0), proc(1)]) == [[turn % 20 != 19 for turn in range(96)]] * 2


@pytest.mark.parametrize("unusual", [False, True])
@pytest.mark.parametrize("call", ["together", "rooted", "matched"])
def test_who_has_left_has_not_come_again_when_numbers_have_come_round(
    call: str, unusual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words stay in the table, and their numbers are those of later calls."""
    monkeypatch.setattr(rollcall, "_NUMBER", 4 * RING - 1)
    words = table(2)
    (hasty, faults, _), (other, _, _) = (roll_call(words, 2, [0, 1], me) for me in range(2))
    assert hasty is not None and other is not None

    def first() -> list[int]:
        answers = [answer(hasty, 2, 0, call, int(call == "together"), [0, 8]) for _ in range(5)]
        faults.calm = False
        return [*answers, hasty.away()]

    def second() -> list[int]:
        answers = [answer(other, 2, 1, call, int(call == "together"), [0, 8]) for _ in range(5)]
        for number in range(8 * RING):
            # What goes the long way does not look at the others' words.
            goes = "away" if unusual and number < 4 * RING - 5 else call
            answers.append(answer(other, 2, 1, goes, int(call == "together"), [0, 8]))
        return answers

    assert run([first, second]) == [[True] * 5 + [False], [True] * 5 + [False] * 8 * RING]
