"""One thread at a time in the engine: waiting, nested entries, guests, what is said."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from impi.rank.engine.channels import threads as module
from impi.rank.engine.channels.entries import entry
from impi.rank.engine.channels.threads import Threads

Start = Callable[[Callable[[], Any]], threading.Thread]


class Part:
    """A part of an engine, whose one entry does what it is told."""

    def __init__(self, *, shared: bool = True) -> None:
        self.threads = Threads()
        if shared:
            self.threads.share()

    @entry
    def do(self, body: Callable[[], Any]) -> Any:
        return body()


@pytest.fixture
def started() -> Iterator[Start]:
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


def until(ready: Callable[[], bool]) -> None:
    begun = time.monotonic()
    while not ready():
        assert time.monotonic() - begun < 20
        time.sleep(1e-3)


@pytest.fixture
def occupied(started: Start) -> Iterator[tuple[Part, threading.Thread]]:
    """A part with a thread in it, which leaves at the end."""
    part, inside, leave = Part(), threading.Event(), threading.Event()
    holder = started(lambda: part.do(lambda: (inside.set(), leave.wait(20))))
    assert inside.wait(20)
    yield part, holder
    leave.set()


@pytest.mark.parametrize("shared", [False, True])
def test_a_thread_waits_until_the_other_has_left(started: Start, shared: bool) -> None:
    part, inside, leave = Part(shared=shared), threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        inside.set()
        leave.wait(20)
        order.append("first leaves")

    started(lambda: part.do(first))
    assert inside.wait(20)
    other = started(lambda: part.do(lambda: order.append("second")))
    if shared:
        until(part.threads.is_wanted)
        assert part.threads.crowded
    assert order == []
    leave.set()
    other.join(20)
    assert order == ["first leaves", "second"]


def test_a_nested_entry_of_the_awaited_thread_is_let_in(started: Start) -> None:
    part, inside = Part(), threading.Event()
    order: list[str] = []

    def first() -> None:
        inside.set()
        until(part.threads.is_wanted)
        part.do(lambda: order.append("nested"))

    started(lambda: part.do(first))
    assert inside.wait(20)
    started(lambda: part.do(lambda: order.append("second"))).join(20)
    assert order == ["nested", "second"]


def test_the_lock_is_shared_while_a_thread_is_inside(started: Start) -> None:
    """The thread came in by the plain lock, and leaves by it; the newcomer comes by the queue."""
    part, order = Part(shared=False), list[str]()

    def first() -> None:
        part.threads.share()
        second.append(started(lambda: part.do(lambda: order.append("second"))))
        until(part.threads.is_wanted)
        order.append("first leaves")

    second: list[threading.Thread] = []
    part.do(first)
    second[0].join(20)
    assert order == ["first leaves", "second"]


@pytest.mark.parametrize("shared", [False, True])
def test_never_two_of_many_threads_are_inside(started: Start, shared: bool) -> None:
    """Threads that come, come again in a call, and step outside in the middle of one."""
    part = Part(shared=shared)
    inside, most, entries = 0, 0, [0]
    chance = random.Random(7)
    naps = [chance.choice((0.0, 0.0, 1e-5, 1e-3)) for _ in range(1000)]

    def body(nap: float) -> None:
        nonlocal inside, most
        for _ in range(2):
            inside += 1
            most = max(most, inside)
            time.sleep(nap)  # lets the others run
            inside -= 1
            part.threads.outside(time.sleep, nap)
        entries[0] += 1

    def run(start: int) -> None:
        for nap in naps[start::5]:
            part.do(lambda nap=nap: part.do(lambda: body(nap)))  # type: ignore[misc]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in [started(lambda start=start: run(start)) for start in range(5)]:  # type: ignore[misc]
            thread.join(20)
    finally:
        sys.setswitchinterval(before)
    assert (most, entries) == (1, [1000])


def test_both_threads_are_named_while_one_waits_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], started: Start
) -> None:
    monkeypatch.setattr(module, "_SAY_S", 0.05)
    part, inside, leave = Part(), threading.Event(), threading.Event()
    started(lambda: part.do(lambda: (inside.set(), leave.wait(20))))
    assert inside.wait(20)
    said = ""

    def look() -> None:
        nonlocal said
        while not said:
            said = capsys.readouterr().err
        leave.set()

    started(look)
    part.do(lambda: None)
    assert said.startswith(
        "impi: thread MainThread waits for thread T0, which has been in one call of MPI for 0.05 s"
    )


def test_a_thread_that_is_interrupted_while_it_waits_is_not_in(
    monkeypatch: pytest.MonkeyPatch, occupied: tuple[Part, threading.Thread]
) -> None:
    part, _ = occupied

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_SAY_S", 1e-3)
    monkeypatch.setattr(module, "_say", interrupt)
    with pytest.raises(KeyboardInterrupt):
        part.do(lambda: None)
    assert not part.threads.is_wanted()
    with pytest.raises(RuntimeError, match="un-acquired"):
        part.threads.lock.__exit__(None, None, None)


def test_a_call_outside_lets_others_in_however_deep_it_is(started: Start) -> None:
    part, came = Part(), list[str]()

    def deep() -> None:
        part.threads.outside(
            lambda: started(lambda: part.do(lambda: came.append("second"))).join(20)
        )
        came.append("first")

    part.do(lambda: part.do(deep))
    assert came == ["second", "first"]
    assert part.threads.crowded, "another thread came while this one was in a call"


def test_an_interrupt_while_a_thread_comes_back_leaves_nothing_behind(
    started: Start,
) -> None:
    """The signal is pending while the other thread is in; guests have their turns afterwards."""
    part, came = Part(), threading.Event()

    def hold() -> None:
        came.set()
        until(lambda: me in part.threads._wanting)
        # The main thread handles it, once it is back
        signal.raise_signal(signal.SIGUSR1)

    def away() -> None:
        started(lambda: part.do(hold))
        assert came.wait(20)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    me = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            part.do(lambda: part.threads.outside(away))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not part.threads.is_wanted()
    assert part.threads.attempt()
    part.threads.restore()


@pytest.mark.parametrize("where", ["enter", "outside"])
def test_an_interrupt_after_any_call_leaves_the_lock_free(where: str) -> None:
    """Python raises it once a call of C has returned. Only that of _release_save may not be hit."""

    def away() -> None:
        part.threads.outside(lambda: None)

    for number in range(1, 20):
        part, calls = Part(), 0

        def interrupt(frame: FrameType, event: str, function: Any) -> None:
            nonlocal calls
            here = event == "c_return" and frame.f_code.co_filename == module.__file__
            calls += here and function.__name__ != "_release_save"
            if here and calls == number:
                calls += 1
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            part.do(away if where == "outside" else lambda: None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        free: list[bool] = []
        other = threading.Thread(target=lambda: free.append(part.threads.attempt()))
        other.start()
        other.join(20)
        assert free == [True], f"call {number}"
        assert part.threads._away == 0


def test_a_call_outside_that_fails_comes_back(started: Start) -> None:
    part = Part()

    def fail() -> None:
        raise ValueError

    def body() -> None:
        with pytest.raises(ValueError):
            part.threads.outside(fail)
        newcomer = started(lambda: part.do(lambda: None))
        until(part.threads.is_wanted)
        assert newcomer.is_alive()

    part.do(body)


def test_outside_of_all_entries_a_function_is_only_called() -> None:
    assert Part().threads.outside(lambda: 7) == 7


def test_a_guest_has_its_turn_while_a_thread_is_in_a_call_of_the_library(
    started: Start,
) -> None:
    part, inside, leave = Part(), threading.Event(), threading.Event()

    def library() -> None:
        inside.set()
        leave.wait(20)

    started(lambda: part.do(lambda: part.threads.outside(library)))
    assert inside.wait(20)
    assert part.threads.attempt()
    assert part.do(lambda: "turn") == "turn"
    part.threads.restore()
    assert not part.threads.crowded
    leave.set()


def test_a_guest_has_no_turn_while_a_thread_is_in(
    occupied: tuple[Part, threading.Thread],
) -> None:
    assert not occupied[0].threads.attempt()


def test_a_guest_has_no_turn_before_a_thread_that_waits(started: Start) -> None:
    part, turns = Part(), list[bool]()

    def body() -> None:
        newcomer = started(
            lambda: part.do(lambda: turns.append(part.threads.is_wanted()))
        )
        until(part.threads.is_wanted)
        turns.append(part.threads.attempt())
        assert newcomer.is_alive()

    part.do(body)
    until(lambda: len(turns) == 2)
    assert turns == [False, False]


def test_a_newcomer_waits_for_the_end_of_a_guests_turn(started: Start) -> None:
    part, came = Part(), list[str]()
    assert part.threads.attempt()
    newcomer = started(lambda: part.do(lambda: came.append("in")))
    until(part.threads.is_wanted)
    assert came == []
    part.threads.restore()
    newcomer.join(20)
    assert (came, part.threads.crowded) == (["in"], False)


def test_guests_have_their_turns_one_at_a_time(started: Start) -> None:
    part, found = Part(), list[bool]()

    def visit() -> None:
        found.append(part.threads.attempt())
        if found[-1]:
            part.threads.restore()

    assert part.threads.attempt()
    started(visit).join(10)
    part.threads.restore()
    started(visit).join(10)
    assert found == [False, True]


def test_a_process_of_one_thread_keeps_the_plain_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = Threads()
    monkeypatch.setattr(module, "is_single", lambda: True)
    assert not threads.notice()
    plain = threads.lock
    monkeypatch.setattr(module, "is_single", lambda: False)
    assert threads.notice()
    assert threads.lock is not plain
