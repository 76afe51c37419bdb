"""One thread at a time in the engine: waiting, nested entries, guests, what is said."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from impi.engine import threads as module
from impi.engine.threads import Threads

ENTRY = """
def entry(threads, body):
    if get_ident() != threads.owner:
        threads.enter()
    return body()

def unchecked(threads, body):
    return entry(threads, body)
"""


def entry_in(package: str, name: str = "entry") -> Callable[[Threads, Callable[[], Any]], Any]:
    """Return an entry like those of the engine, as if a module of ``package`` had it."""
    names: dict[str, Any] = {"__name__": f"{package}.fake", "get_ident": threading.get_ident}
    exec(ENTRY, names)  # the check goes by the module's name
    found: Callable[[Threads, Callable[[], Any]], Any] = names[name]
    return found


entry = entry_in("impi.engine")
unchecked = entry_in("impi.engine", "unchecked")


@pytest.fixture
def started() -> Iterator[Callable[[Callable[[], Any]], threading.Thread]]:
    """Start threads; all must end."""
    every: list[threading.Thread] = []

    def start(body: Callable[[], Any]) -> threading.Thread:
        thread = threading.Thread(target=body, name=f"T{len(every)}", daemon=True)
        every.append(thread)
        thread.start()
        return thread

    yield start
    for thread in every:
        thread.join(20)
        assert not thread.is_alive()


def test_a_thread_waits_until_the_other_has_left(started: Callable[[Callable[[], Any]], threading.Thread]) -> None:
    threads, inside, leave = Threads(), threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        inside.set()
        leave.wait(20)
        order.append("first leaves")

    started(lambda: entry(threads, first))
    assert inside.wait(20)
    other = started(lambda: entry(threads, lambda: order.append("second")))
    while threads.owner != other.ident:
        time.sleep(1e-3)
    assert order == []
    leave.set()
    other.join(20)
    assert order == ["first leaves", "second"]


def test_a_newcomer_waits_whose_first_function_makes_no_check(
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    """Its stack looks like that of a call within a call."""
    threads = Threads()
    order: list[str] = []
    newcomer: list[threading.Thread] = []

    def first() -> None:
        newcomer[0].start()
        while newcomer[0].is_alive() and threads.owner == threading.get_ident():
            time.sleep(1e-3)
        order.append("first leaves")

    newcomer.append(threading.Thread(target=lambda: unchecked(threads, lambda: order.append("second"))))
    started(lambda: entry(threads, first)).join(20)
    newcomer[0].join(20)
    assert order == ["first leaves", "second"]


def test_a_nested_entry_of_the_awaited_thread_is_let_in(
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    threads, inside = Threads(), threading.Event()
    order: list[str] = []

    def first() -> None:
        inside.set()
        while threads.owner == threading.get_ident():  # until the second waits
            time.sleep(1e-3)
        entry(threads, lambda: order.append("nested"))

    started(lambda: entry(threads, first))
    assert inside.wait(20)
    started(lambda: entry(threads, lambda: order.append("second"))).join(20)
    assert order == ["nested", "second"]


def test_never_two_of_many_threads_are_inside(started: Callable[[Callable[[], Any]], threading.Thread]) -> None:
    threads = Threads()
    inside, most, entries = 0, 0, [0]
    chance = random.Random(7)
    naps = [chance.choice((0.0, 0.0, 1e-5, 1e-3)) for _ in range(1000)]

    def body(nap: float) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(nap)  # lets the others run
        entries[0] += 1
        inside -= 1

    def run(start: int) -> None:
        for nap in naps[start::5]:
            entry(threads, lambda nap=nap: entry(threads, lambda: body(nap)))  # type: ignore[misc]

    for thread in [started(lambda start=start: run(start)) for start in range(5)]:  # type: ignore[misc]
        thread.join(20)
    assert (most, entries) == (1, [1000])


def test_both_threads_are_named_while_one_waits_long(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    monkeypatch.setattr(module, "_SAY_S", 0.05)
    threads, inside, leave = Threads(), threading.Event(), threading.Event()
    started(lambda: entry(threads, lambda: (inside.set(), leave.wait(20))))
    assert inside.wait(20)
    said = ""

    def look() -> None:
        nonlocal said
        while not said:
            said = capsys.readouterr().err
        leave.set()

    started(look)
    entry(threads, lambda: None)
    assert said.startswith("impi: thread MainThread waits for thread T0, which has been in one call of MPI for 0.05 s")
    assert threads.crowded


def test_a_thread_that_is_interrupted_while_it_waits_is_not_in(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[Callable[[], Any]], threading.Thread]
) -> None:
    threads, inside, leave = Threads(), threading.Event(), threading.Event()
    first = started(lambda: entry(threads, lambda: (inside.set(), leave.wait(20))))
    assert inside.wait(20)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("impi.engine.threads.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        entry(threads, lambda: None)
    monkeypatch.undo()
    assert threads.owner == first.ident
    leave.set()


def test_code_of_the_program_and_of_the_api_is_not_the_engine(
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    threads, inside, leave = Threads(), threading.Event(), threading.Event()
    started(lambda: entry_in("impi.api")(threads, lambda: (inside.set(), leave.wait(20))))
    assert inside.wait(20)
    assert entry(threads, lambda: "in") == "in"
    leave.set()


def test_a_guest_has_its_turn_while_the_owner_is_in_a_call_of_the_library(
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    threads, inside, leave = Threads(), threading.Event(), threading.Event()

    def library() -> None:
        inside.set()
        leave.wait(20)

    owner = started(lambda: entry(threads, lambda: threads.outside(library)))
    assert inside.wait(20)
    former = threads.attempt()
    assert former is not None and former == owner.ident
    assert entry(threads, lambda: "turn") == "turn"
    threads.restore(former)
    assert threads.owner == owner.ident
    assert not threads.crowded
    leave.set()


def test_nothing_is_collected_while_the_stacks_of_threads_are_listed(monkeypatch):
    """In Python 3.11 a collection there may wait for ever, with all other threads."""
    seen: list[bool] = []

    def listed() -> dict[int, Any]:
        seen.append(gc.isenabled())
        return {}

    monkeypatch.setattr("impi.engine.threads.sys._current_frames", listed)
    assert gc.isenabled()
    assert list(module._stack(1)) == []
    assert (seen, gc.isenabled()) == ([False], True)


def test_a_newcomer_waits_for_the_end_of_a_guests_turn(
    started: Callable[[Callable[[], Any]], threading.Thread],
) -> None:
    threads, came = Threads(), list[str]()
    entry(threads, lambda: None)
    former = threads.attempt()
    assert former is not None
    newcomer = started(lambda: entry(threads, lambda: came.append("in")))
    while threads.owner != newcomer.ident:
        time.sleep(1e-3)
    assert came == []
    threads.restore(former)
    newcomer.join(20)
    assert (came, threads.owner, threads.crowded) == (["in"], newcomer.ident, False)


def test_guests_have_their_turns_one_at_a_time(started: Callable[[Callable[[], Any]], threading.Thread]) -> None:
    threads, found = Threads(), list[int | None]()
    entry(threads, lambda: None)

    def visit() -> None:
        former = threads.attempt()
        found.append(former)
        if former is not None:
            threads.restore(former)

    former = threads.attempt()
    started(visit).join(10)
    assert former is not None
    threads.restore(former)
    started(visit).join(10)
    assert found == [None, threading.get_ident()]
