"""Every entry of the engine is guarded, or says that any thread may call it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import impi.rank.engine
from impi.rank.engine.channels.channels import ShortSender
from impi.rank.engine.channels.entries import MARK, creation, entry
from impi.rank.engine.channels.threads import Threads
from impi.rank.engine.collective import Closing, CollectiveOperation
from impi.rank.engine.engine import Engine
from impi.rank.engine.faults import Faults
from impi.rank.engine.job.surviving import Survival
from impi.rank.engine.lcos.lco_traffic import Traffic
from impi.rank.engine.matchers import Matching
from impi.rank.engine.partitioned import PartitionedSend
from impi.rank.engine.recovery import Recovery
from impi.rank.engine.standing_receive import StandingReceive
from impi.rank.engine.turns import Turns
from impi.rank.engine.windows.origin import Origin

ROOM = Path(impi.rank.engine.__file__).parent
LOCKS = ("self.threads.lock", "threads.lock")  # of a method, of a closure
INNER = {"impi.rank.engine.channels.threads", "impi.rank.engine.channels.entries"}


def _classes() -> Iterator[type]:
    for found in pkgutil.walk_packages([str(ROOM)], "impi.rank.engine."):
        if found.name in INNER:
            continue
        module = importlib.import_module(found.name)
        for one in vars(module).values():
            if (
                isinstance(one, type)
                and one.__module__ == module.__name__
                and not getattr(one, "_is_protocol", False)
            ):
                yield one


def _mark(member: object) -> str | None:
    function = member.fget if isinstance(member, property) else member
    return getattr(function, MARK, None)


def _is_front(one: type) -> bool:
    """Whether threads of the program call a class: it has an entry, or the threads for one."""
    if any(_mark(member) is not None for member in vars(one).values()):
        return True
    return "self.threads = " in inspect.getsource(one)


FRONTS = [one for one in _classes() if _is_front(one)]


def test_all_that_the_api_calls_is_a_front() -> None:
    expected = {
        Engine,
        Turns,
        Matching,
        Survival,
        Recovery,
        Faults,
        Traffic,
        Origin,
        PartitionedSend,
    }
    assert expected | {
        CollectiveOperation,
        Closing,
        ShortSender,
        StandingReceive,
    } <= set(FRONTS)


@pytest.mark.parametrize("front", FRONTS, ids=lambda one: one.__name__)
def test_every_public_function_has_a_mark(front: type) -> None:
    if front in (CollectiveOperation, Closing):
        # The engine drives these, in its turns; the program calls their constructors.
        assert _mark(vars(front)["__init__"]) == "creation"
        return
    public = {
        name: member
        for name, member in vars(front).items()
        if not name.startswith("_") and isinstance(member, FunctionType | property)
    }
    assert [name for name, member in public.items() if _mark(member) is None] == []


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(ROOM.rglob("*.py")):
        if path.stem in ("threads", "entries"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.stem}.{node.name}", node


def _is_checked(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == "checked_entry"
        for one in function.decorator_list
    )


def test_functions_with_a_guard_of_their_own_hold_the_lock_around_all_they_do() -> None:
    for name, function in _functions():
        if _is_checked(function):
            whole = (
                function.body[1:]
                if ast.get_docstring(function) is not None
                else function.body
            )
            assert len(whole) == 1 and isinstance(whole[0], ast.With), name
            assert [
                ast.unparse(item.context_expr) in LOCKS for item in whole[0].items
            ] == [True], name


def test_nothing_else_takes_the_lock() -> None:
    """Each guard in the engine is the body of a marked function, or in a mark."""
    written = sum(
        ast.unparse(node) in LOCKS
        for path in ROOM.rglob("*.py")
        if path.stem not in ("threads", "entries")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    )
    assert written == sum(_is_checked(function) for _, function in _functions())


class _Part:
    """A part of an engine with an entry, and what calls it."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.inside, self.leave = threading.Event(), threading.Event()
        self.order: list[str] = []

    @entry
    def block(self) -> None:
        self.inside.set()
        self.leave.wait(20)
        self.order.append("first leaves")

    @entry
    def come(self, who: str, *, loud: bool = False) -> str:
        """Note who came."""
        self.order.append(who.upper() if loud else who)
        return who


class _Made:
    @creation
    def __init__(self, part: _Part, who: str) -> None:
        part.order.append(who)


@pytest.mark.parametrize("second", ["entry", "creation"])
def test_a_guard_lets_one_thread_in_at_a_time(second: str) -> None:
    part = _Part()
    first = threading.Thread(target=part.block)
    first.start()
    assert part.inside.wait(20)
    call: Any = (
        (lambda: part.come("second"))
        if second == "entry"
        else (lambda: _Made(part, "second"))
    )
    part.threads.share()  # those that wait are counted from now on
    other = threading.Thread(target=call)
    other.start()
    while not part.threads.is_wanted():
        time.sleep(1e-3)
    assert part.order == []
    part.leave.set()
    for thread in (first, other):
        thread.join(20)
    assert part.order == ["first leaves", "second"]


def test_a_guarded_function_is_as_it_was() -> None:
    part = _Part()
    assert part.come("me", loud=True) == "me"
    assert part.order == ["ME"]
    assert (_Part.come.__name__, _Part.come.__doc__) == ("come", "Note who came.")
