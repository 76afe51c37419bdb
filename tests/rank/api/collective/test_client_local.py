"""Blocking collectives inside a client: procs are threads, the library is in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_world import make_job, run_job
from native_world import Meeting, give_library

from impi.base.records import replaced
from impi.protocol.job import LONG8_VERSION
from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime
from impi.rank.api.collective import native_specs
from impi.rank.api.collective.client_local import ClientLocal
from impi.rank.api.collective.operation_table import (
    ALLGATHER,
    BARRIER,
    BCAST,
    Collective,
)
from impi.rank.api.types.datatypes import INT
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.job.progress_thread import ProgressThread

COMM = SimpleNamespace(_owner=None)
"""A communicator without an error handler."""

Program = Callable[[Engine, Context, Any], Any]


@pytest.fixture(autouse=True)
def own_engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.local]:
    """Each thread is a proc with an engine of its own."""
    own = threading.local()
    monkeypatch.setattr(runtime, "engine", lambda: own.engine)
    monkeypatch.setattr(runtime, "finalized", lambda: False)
    yield own


def run(
    own: threading.local,
    program: Program,
    clients: list[int],
    failed: Callable[[Exception], None] | None = None,
) -> list[Any]:
    """Run a program at all procs of client 0 with their strategy; others get None."""
    meetings: dict[int, Meeting] = {}

    def proc(engine: Engine) -> Any:
        own.engine = engine
        world = engine.make_context(0, range(sum(clients)))
        if engine.client:
            return program(engine, world, None)
        give_library(engine, meetings, overruns=False)
        home = engine.make_context(2, range(clients[0]))
        native: Any = home.shadow.comm and home.shadow.comm.native
        return program(
            engine,
            world,
            ClientLocal(engine, home, native, ProgressThread(engine, failed or print)),
        )

    return run_job(
        replaced(make_job(clients, maxdatalen=1024), version=LONG8_VERSION), proc
    )


def error_class(call: Callable[[], object]) -> str:
    with pytest.raises(MPIException) as caught:
        call()
    return next(
        name
        for name, (code, *_) in ERROR_CLASSES.items()
        if code == caught.value.error_class
    )


def test_each_member_describes_its_buffer_in_its_own_way(
    own_engines: threading.local,
) -> None:
    vector = INT.Create_vector(2, 1, 2).Commit()
    values = np.array([5, 7], "i4")

    def program(engine: Engine, world: Context, home: Any) -> Any:
        spread = np.array([5, 0, 7, 0], "i4")
        buffer: Any = [values.copy(), np.zeros(2, "i4"), np.zeros(4, "i4")][engine.rank]
        spec = [[buffer, 2, INT], buffer, [buffer, 1, vector]][engine.rank]
        for _ in range(3):
            home[BCAST](COMM, spec, 0)
        assert list(buffer) == list(spread if engine.rank == 2 else values)
        whole = [np.zeros(6, "i4"), np.zeros(12, "i4")][engine.rank == 2]
        into = [whole, 1, vector] if engine.rank == 2 else whole
        home[ALLGATHER](COMM, spec, into)
        got = (
            [whole[at] for at in (0, 2, 3, 5, 6, 8)]
            if engine.rank == 2
            else list(whole)
        )
        assert got == [5, 7] * 3
        home[BARRIER](COMM)

    run(own_engines, program, [3])


def test_a_mistake_of_all_spoils_nothing(own_engines: threading.local) -> None:
    def program(engine: Engine, world: Context, home: Any) -> Any:
        for _ in range(3):
            assert error_class(lambda: home[BCAST](COMM, bytearray(1), 2)) == "ERR_ROOT"
        home[BARRIER](COMM)
        with pytest.raises(TypeError):
            home[BCAST](COMM, 3, 0)
        home[BARRIER](COMM)

    run(own_engines, program, [2])


def test_what_the_library_finds_breaks_the_communicator(
    own_engines: threading.local,
) -> None:
    def program(engine: Engine, world: Context, home: Any) -> Any:
        buffer = bytearray(4 + engine.rank)
        assert (
            error_class(
                lambda: home[BCAST](
                    COMM, [buffer, INT] if engine.rank == 0 else buffer, 0
                )
            )
            == "ERR_TRUNCATE"
        )
        assert error_class(lambda: home[BARRIER](COMM)) == "ERR_TRUNCATE"

    run(own_engines, program, [2])


def test_a_member_that_cannot_take_part_ends_the_job_of_the_one_in_the_library(
    own_engines: threading.local,
) -> None:
    ended = threading.Event()
    sentences: list[str] = []

    def failed(failure: Exception) -> None:
        sentences.append(str(failure))
        ended.set()

    def program(engine: Engine, world: Context, home: Any) -> Any:
        if engine.rank == 1:
            assert error_class(lambda: home[BCAST](COMM, bytearray(1), 2)) == "ERR_ROOT"
            assert ended.wait(20)
            # Lets the other out, as the end of the job would
            home._native.comm.Barrier()
        else:
            home[BARRIER](COMM)

    run(own_engines, program, [2], failed)
    assert len(sentences) == 1 and "rank 1 failed in Bcast: " in sentences[0], sentences


def test_a_call_that_still_returns_does_not_end_the_job(
    own_engines: threading.local,
) -> None:
    ended: list[Exception] = []
    waiting: list[Any] = []

    def program(engine: Engine, world: Context, home: Any) -> Any:
        if engine.rank == 0:
            waiting.append(home)
            home[BARRIER](COMM)
            assert error_class(lambda: home[BARRIER](COMM)) == "ERR_ROOT"
        else:
            assert error_class(lambda: home[BCAST](COMM, bytearray(1), 2)) == "ERR_ROOT"
            while not (waiting and waiting[0]._faults.broken):
                time.sleep(1e-3)
            home._native.comm.Barrier()  # all that the other waits for

    run(own_engines, program, [2], ended.append)
    assert not ended


@pytest.mark.parametrize("local", [False, True], ids=["channel", "local"])
def test_messages_are_served_while_a_call_lasts(
    own_engines: threading.local, local: bool
) -> None:
    """Rank 0 is in the library; rank 1 enters once its long message was received there."""
    sender = 1 if local else 2

    def program(engine: Engine, world: Context, home: Any) -> Any:
        target, note = OctetTarget(), OctetTarget()
        if engine.rank == 0:
            receiving = engine.receive(world, sender, 9, target)
            home[BARRIER](COMM)
            engine.turns.wait_for(receiving)
            assert len(target.data) == 100_000
        if engine.rank == sender:
            engine.turns.wait_for(
                engine.send(world, 0, 9, OctetSource(bytes(100_000)), synchronous=True)
            )
            if not local:
                engine.turns.wait_for(engine.send(world, 1, 10, OctetSource(b"")))
        if engine.rank == 1:
            if not local:
                engine.turns.wait_for(engine.receive(world, 2, 10, note))
            home[BARRIER](COMM)

    run(own_engines, program, [2, 1])


def test_a_nonblocking_collective_under_way_comes_first(
    own_engines: threading.local,
) -> None:
    order: list[str] = []

    def program(engine: Engine, world: Context, home: Any) -> Any:
        context = home._context
        context.under_way.collectives.append(None)  # as an operation that is under way
        engine.turns.track(
            _Ends(
                lambda: (
                    order.append("nonblocking"),
                    context.under_way.collectives.clear(),
                )
            )
        )
        home[BARRIER](COMM)
        order.append("barrier")

    run(own_engines, program, [2])
    assert order == ["nonblocking"] * 2 + ["barrier"] * 2


class _Ends:
    """An operation that is complete at the third look."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end, self._looks = end, 3
        self.done = self.cancelled = False

    def advance(self) -> bool:
        self._looks -= 1
        if not self.done and self._looks <= 0:
            self.done = True
            self._end()
        return self.done


def test_a_collective_is_made_at_its_first_call(own_engines: threading.local) -> None:
    def program(engine: Engine, world: Context, strategy: Any) -> set[Collective]:
        made = [set(strategy)]
        for _ in range(2):
            strategy[BARRIER](COMM)
            made.append(set(strategy))
        assert made[1] == made[2]
        with pytest.raises(KeyError):
            strategy["Bakrier"]
        return made[1] - made[0]

    assert run(own_engines, program, [2]) == [{BARRIER}] * 2


def test_the_first_array_of_a_job_goes_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_specs, "_ARRAYS", set())
    native: Any = SimpleNamespace(byte="MPI_BYTE", constant=lambda name: name)
    specs = native_specs.NativeSpecs(native, 2)
    array = np.zeros(2)

    assert specs.each(array, False) is array
    assert specs.each(array, True) is array
