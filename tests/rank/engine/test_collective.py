"""How values of collectives are seen as octets, and what a blocking collective does by itself."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from engine_world import make_job, run_job

from impi.base.records import replaced
from impi.protocol.collectives import Layout, Reduction, barrier, bcast, reduce
from impi.protocol.job import LONG8_VERSION
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.engine.channels import channels as channels_module
from impi.rank.engine.channels.channels import Channels
from impi.rank.engine.collective import (
    ArrayCodec,
    Codec,
    CollectiveOperation,
    OctetCodec,
)
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation
from impi.rank.engine.standing_receive import StandingReceive


@pytest.mark.parametrize("value", [b"", bytearray(), np.zeros((0, 3)).data])
def test_nothing_can_be_written_too(value: object) -> None:
    """Libraries refuse what is not writable, even where they write nothing."""
    view = OctetCodec().view(value)
    assert (view.nbytes, view.readonly) == (0, False)


def test_no_elements_can_be_written_too() -> None:
    codec: Codec = ArrayCodec(NAMED["DOUBLE"], np.dtype("d"), 8)
    view = codec.view(np.zeros(0))
    assert (view.nbytes, view.readonly) == (0, False)


def test_a_blocking_collective_posts_no_receive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def program(engine: Engine) -> bool:
        context = engine.make_context(0, range(2))
        done = _barrier(engine, context, blocking=True).done
        return done and not engine.turns.active and not context.under_way.collectives

    monkeypatch.setattr(ReceiveOperation, "__init__", None)
    assert run_job(make_job([1, 1]), program) == [True, True]


def test_an_interrupt_of_a_wait_leaves_the_collective_to_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether its message has come or not: the later barrier would wait for it for ever."""
    wait_on = Channels.wait_on
    interrupted = threading.Event()

    def once(channels: Channels, *how: Any) -> bool:
        moved = wait_on(channels, *how)
        if threading.current_thread() is threads.get(1) and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Channels, "wait_on", once)
    threads: dict[int, threading.Thread] = {}

    def program(engine: Engine) -> bool:
        threads[engine.rank] = threading.current_thread()
        context = engine.make_context(0, range(2))
        if engine.rank == 1:
            with pytest.raises(KeyboardInterrupt):
                _barrier(engine, context, blocking=True)
        else:
            engine.turns.wait_for(_barrier(engine, context, blocking=True))
        later = _barrier(engine, context, blocking=True)
        engine.turns.wait_for(later)
        return later.done and later.failure is None

    assert run_job(make_job([1, 1]), program) == [True, True]


def test_a_refusal_ends_a_blocking_collective() -> None:
    def program(engine: Engine) -> str:
        context = engine.make_context(0, range(2))
        if engine.rank == 1:
            context.faults.refuse("Barrier", ValueError("no"))
            engine.turns.wait(lambda: engine.quiet)
            return ""
        operation = _barrier(engine, context, blocking=True)
        engine.turns.wait_for(operation)
        return str(operation.failure)

    job = replaced(make_job([1, 1]), version=LONG8_VERSION)
    assert "rank 1 failed in Barrier: ValueError: no" in run_job(job, program)[0]


def test_a_result_without_room_comes_without_the_octets_of_it() -> None:
    """The failure came with the algorithm's StopIteration, whose traceback printed all octets."""

    def refuse(_octets: object) -> None:
        raise error("ERR_TRUNCATE", "too many")

    def program(engine: Engine) -> bool:
        context = engine.make_context(0, range(2))
        algorithm = bcast(Layout([0, 1]), engine.rank, 0, b"octets", maxlinear=4)
        operation = CollectiveOperation(
            engine, context, algorithm, OctetCodec(), refuse
        )
        engine.turns.wait(lambda: operation.done)
        assert operation.failure == error("ERR_TRUNCATE")
        return operation.failure is not None and operation.failure.__context__ is None

    assert run_job(make_job([1, 1]), program) == [True, True]


def _barrier(
    engine: Engine, context: Context, *, blocking: bool
) -> CollectiveOperation:
    algorithm = barrier(Layout([0, 1]), engine.rank, maxlinear=4)
    return CollectiveOperation(
        engine, context, algorithm, OctetCodec(), blocking=blocking
    )


class Busy:
    """An operation that ends when it is looked at."""

    done = cancelled = False

    def advance(self) -> bool:
        self.done = True
        return True


def test_a_message_of_which_a_part_is_here_is_waited_for_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Something else begins while it comes, so that its receive cannot stand any longer."""
    wait_on, interrupted = Channels.wait_on, []

    def one_more(channels: Channels, *how: Any) -> bool:
        moved = wait_on(channels, *how)
        standing = how[-1]
        if (
            isinstance(standing, StandingReceive)
            and standing.taken is not None
            and not standing.taken.advance()
        ):
            standing._turns.active.append(Busy())
            interrupted.append(standing)
        return moved

    monkeypatch.setattr(Channels, "wait_on", one_more)
    monkeypatch.setattr(channels_module, "_READS", 1)
    largest: Reduction[bytes] = Reduction(lambda a, b: max(bytes(a), bytes(b)))
    nbytes = 1 << 17

    def program(engine: Engine) -> object:
        context = engine.make_context(0, range(2))
        algorithm = reduce(
            Layout([0, 1]),
            engine.rank,
            0,
            bytes([engine.rank]) * nbytes,
            largest,
            maxlinear=4,
        )
        operation = CollectiveOperation(
            engine, context, algorithm, OctetCodec(), blocking=True
        )
        engine.turns.wait_for(operation)
        return operation.result

    assert (
        run_job(make_job([1, 1], maxdatalen=nbytes), program)[0] == bytes([1]) * nbytes
    )
    assert interrupted


@pytest.mark.parametrize(
    ("nbytes", "native", "copied"), [(3000, True, 0), (2999, True, 1), (3000, False, 1)]
)
def test_a_broadcast_arrives_where_its_result_belongs(
    nbytes: int, native: bool, copied: int
) -> None:
    """Unless it has another length than the receiver expects, or another form."""

    def program(engine: Engine) -> object:
        context, buffer = engine.make_context(0, range(2)), bytearray(3000)
        place, copies = memoryview(buffer), list[int]()

        def finish(value: memoryview) -> None:
            copies.append(len(value))
            place[: len(value)] = value

        value = bytes([7]) * nbytes if engine.rank == 0 else None
        algorithm = bcast(Layout([0, 1]), engine.rank, 0, value, maxlinear=4)
        CollectiveOperation(
            engine, context, algorithm, OctetCodec(), finish if engine.rank else None, blocking=True,
            place=place if engine.rank else None,
        )  # fmt: skip
        return len(copies), bytes(buffer)

    facts = {"native": True} if native else {}
    result: Any = run_job(make_job([1, 1], maxdatalen=1 << 17, **facts), program)[1]
    assert result == (copied, bytes([7]) * nbytes + bytes(3000 - nbytes))
