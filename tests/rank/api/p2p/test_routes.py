"""One suite that every route passes: procs are threads, the library is in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from engine_world import make_job, run_job
from hypothesis import given, settings
from hypothesis import strategies as st
from native_world import Meeting, give_library

from impi.protocol.quirks import Quirks
from impi.protocol.semantics.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERROR_CLASSES,
    PROC_NULL,
)
from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime
from impi.rank.api.p2p.library_route import LibraryRoute, ProbingRoute
from impi.rank.api.p2p.request import Request
from impi.rank.api.p2p.route_table import CLOSED, Routes
from impi.rank.api.p2p.routes import ChannelRoute, NullRoute, QueuedRoute, Route
from impi.rank.api.p2p.status import Status
from impi.rank.api.types.datatypes import BYTE, DOUBLE, INT
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine

KINDS: dict[str, tuple[list[int], type, bool]] = {
    "channel": ([1, 1], ChannelRoute, False),
    "queued": ([2], QueuedRoute, False),
    "library": ([2], LibraryRoute, False),
    "probing": ([2], ProbingRoute, True),
}
"""By name: procs by client, the route of ranks 0 and 1, writes behind short buffers."""

Program = Callable[[Engine, Context, Routes, Routes], Any]


@pytest.fixture(autouse=True)
def own_engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.local]:
    """Each thread is a proc with an engine of its own."""
    own = threading.local()
    monkeypatch.setattr(runtime, "engine", lambda: own.engine)
    yield own


def run(
    own: threading.local,
    kind: str,
    program: Program,
    *,
    queued: tuple[int, ...] = (),
    **facts: int,
) -> list[Any]:
    """Run a program at both ranks; those in ``queued`` take the engine's queues."""
    clients, expected, overruns = KINDS[kind]
    meetings: dict[int, Meeting] = {}

    def proc(engine: Engine) -> Any:
        own.engine = engine
        if issubclass(expected, LibraryRoute):
            give_library(engine, meetings, overruns=overruns)
        context = engine.make_context(4, range(2))
        to, by = (
            Routes(engine, context, receiving=False),
            Routes(engine, context, receiving=True),
        )
        assert type(to[1 - engine.rank]) is expected
        if engine.rank in queued:
            to[1 - engine.rank] = by[1 - engine.rank] = QueuedRoute(
                engine, context, 1 - engine.rank
            )
        return program(engine, context, to, by)

    return run_job(make_job(clients, **facts), proc)


def error_class(call: Callable[[], object]) -> str:
    with pytest.raises(MPIException) as caught:
        call()
    return next(
        name
        for name, (code, *_) in ERROR_CLASSES.items()
        if code == caught.value.error_class
    )


@pytest.mark.parametrize(
    "queued", [(), (0,), (1,)], ids=["both", "0 queued", "1 queued"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_buffer_arrives_in_order(
    own_engines: threading.local, kind: str, queued: Any
) -> None:
    vector = INT.Create_vector(2, 1, 2).Commit()
    forms: list[tuple[Any, Any, bytes]] = [
        (b"octets", bytearray(6), b"octets"),
        ([np.arange(3.0), DOUBLE], [np.zeros(3), 3, DOUBLE], np.arange(3.0).tobytes()),
        (
            [np.arange(4, dtype="i4"), 1, vector],
            [np.zeros(2, "i4"), INT],
            np.array([0, 2], "i4").tobytes(),
        ),
        (b"", bytearray(4), bytes(4)),
        (bytes(5000), [bytearray(5000), BYTE], bytes(5000)),
    ]

    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        for number, (out, into, octets) in enumerate(forms):
            if engine.rank == 0:
                to[1].send(out, number)
                to[1].start(out, number).Wait()
                continue
            buffer = into[0] if isinstance(into, list) else into
            for receive in (
                by[0].receive,
                lambda spec, tag, status: by[0].post(spec, tag).Wait(status),
            ):
                memoryview(buffer).cast("B")[:] = bytes(memoryview(buffer).nbytes)
                status = Status()
                receive(into, number, status)
                assert bytes(memoryview(buffer).cast("B")) == octets
                assert (status.source, status.tag) == (0, number)
                assert status.Get_count(BYTE) == (0 if not out else len(octets))

    run(own_engines, kind, program, queued=queued)


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_receive_and_an_older_message_come_first(
    own_engines: threading.local, kind: str
) -> None:
    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        if engine.rank == 0:
            for value in b"abc":
                to[1].send(bytes([value]), 7)
            return
        first, second, third = bytearray(1), bytearray(1), bytearray(1)
        anybody = by[ANY_SOURCE].post(first, ANY_TAG)
        by[0].receive(second, 7, None)
        engine.turns.wait(lambda: engine.probe(context, 0, 7) is not None)
        by[0].receive(third, 7, None)
        anybody.Wait()
        assert first + second + third == b"abc"

    run(own_engines, kind, program)


@pytest.mark.parametrize("kind", ["library", "probing"])
def test_any_tag_is_one_of_the_program(own_engines: threading.local, kind: str) -> None:
    """Messages of collectives lie in the same queue of the library."""

    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        if engine.rank == 0:
            inside = OctetSource(b"inner")
            engine.send(context, 1, 5, inside, collective=True)
            to[1].send(b"first", 5)
            engine.send(context, 1, 6, inside, collective=True)
            to[1].send(b"other", 6)
            return
        room, status = bytearray(5), Status()
        for octets, tag in ((b"first", 5), (b"other", 6)):
            by[0].receive(room, ANY_TAG, status)
            assert (bytes(room), status.tag) == (octets, tag)
        for tag in (6, 5):
            target = OctetTarget()
            receive = engine.receive(context, 0, tag, target, collective=True)
            engine.turns.wait_for(receive)
            assert target.data == b"inner"

    run(own_engines, kind, program)


@pytest.mark.parametrize("kind", ["library", "probing"])
def test_any_tag_takes_the_way_of_the_library(
    own_engines: threading.local, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("the engine's queue was asked")

    monkeypatch.setattr(QueuedRoute, "receive", refuse)

    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        if engine.rank == 0:
            to[1].send(np.arange(3.0), 9)
        else:
            into = np.zeros(3)
            by[0].receive(into, ANY_TAG, None)
            assert into.tolist() == [0.0, 1.0, 2.0]

    run(own_engines, kind, program)


@pytest.mark.parametrize("tag", [1, ANY_TAG], ids=["its tag", "any tag"])
@pytest.mark.parametrize("nbytes", [9, 3000], ids=["short", "long"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_message_spoils_nothing(
    own_engines: threading.local, kind: str, nbytes: int, tag: int
) -> None:
    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        if engine.rank == 0:
            to[1].send(bytes(nbytes), 1)
            to[1].send(b"next", 1)
            return
        memory = bytearray(b"-" * 16)
        assert (
            error_class(lambda: by[0].receive(memoryview(memory)[:8], tag, Status()))
            == "ERR_TRUNCATE"
        )
        assert memory[8:] == b"-" * 8
        after = bytearray(4)
        by[0].receive(after, tag, None)
        assert after == b"next"

    run(own_engines, kind, program)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_says_so_and_leaves_nothing_behind(
    own_engines: threading.local, kind: str
) -> None:
    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        route, source = to[1 - engine.rank], by[1 - engine.rank]
        for wrong, name in (
            (lambda: route.send(b"", -1), "ERR_TAG"),
            (lambda: route.start(b"", -5), "ERR_TAG"),
            (lambda: source.receive(bytearray(1), -5, None), "ERR_TAG"),
            (lambda: source.post(bytearray(1), -7), "ERR_TAG"),
            (lambda: route.send([b"ab", 3, BYTE], 0), "ERR_BUFFER"),
            (lambda: source.receive([bytearray(2), 3, BYTE], 0, None), "ERR_BUFFER"),
        ):
            assert error_class(wrong) == name
        with pytest.raises(BufferError):
            source.receive(b"read only", 0, None)
        with pytest.raises(TypeError):
            route.send(None, 0)
        # The caller converts what is not an int; a C int cannot be larger.
        tags: list[Any] = [0.5, 1.0, "1", None, Fraction(1, 2), True]
        for tag in tags:
            for begin in (
                lambda: source.receive(bytearray(1), tag, None),
                lambda: source.post(bytearray(1), tag),
            ):
                with pytest.raises(TypeError):
                    begin()
            if not isinstance(tag, bool):
                for begin in (
                    lambda: route.send(b"", tag),
                    lambda: route.start(b"", tag),
                ):
                    with pytest.raises(TypeError):
                        begin()
        for begin in (
            lambda: route.send(b"", 1 << 31),
            lambda: source.post(bytearray(1), 1 << 31),
        ):
            with pytest.raises(OverflowError):
                begin()
        assert engine.quiet and not any(context.matchers[0].lines())

    run(own_engines, kind, program)


def test_ranks_that_are_no_ints(own_engines: threading.local) -> None:
    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        whatever: Any = to
        for rank in (1.0, 1.5, Fraction(3, 2), True):
            assert whatever[rank] is to[1]
        for none in ("1", None, 2j):
            with pytest.raises(TypeError):
                whatever[none]
        with pytest.raises(OverflowError):
            to[1 << 31]

    run(own_engines, "channel", program)


def test_ranks_that_are_none(own_engines: threading.local) -> None:
    def program(engine: Engine, context: Context, to: Routes, by: Routes) -> None:
        assert (
            error_class(lambda: to[2])
            == error_class(lambda: by[-7])
            == error_class(lambda: to[ANY_SOURCE])
        )
        assert isinstance(to[PROC_NULL], NullRoute) and isinstance(
            by[ANY_SOURCE], QueuedRoute
        )
        status = Status()
        to[PROC_NULL].send(None, 0)
        by[PROC_NULL].receive(None, ANY_TAG, status)
        assert (status.source, status.tag, status.Get_count(BYTE)) == (
            PROC_NULL,
            ANY_TAG,
            0,
        )
        Request.Waitall(
            [to[PROC_NULL].start(None, 0), by[PROC_NULL].post(None, ANY_TAG)]
        )
        assert error_class(lambda: to[PROC_NULL].send(None, -1)) == "ERR_TAG"
        assert error_class(lambda: CLOSED.destinations[0]) == "ERR_COMM"

    run(own_engines, "queued", program)


def test_with_the_quirk_of_reduce_all_routes_are_queued(
    own_engines: threading.local,
) -> None:
    def program(engine: Engine) -> None:
        own_engines.engine = engine
        routes = Routes(engine, engine.make_context(4, range(2)), receiving=False)
        assert type(routes[1 - engine.rank]) is QueuedRoute
        assert error_class(lambda: routes[1 - engine.rank].send(b"", 190)) == "ERR_TAG"

    run_job(make_job([1, 1]), program, quirks=Quirks(reduce_on_p2p=True))


moves = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 8, 1024, 3000]),  # octets
        st.integers(0, 1),  # tag
        st.booleans(),  # whether its send waits
        st.sampled_from(["receive", "post", "any", "any tag", "probe"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(moves=moves, ackmark=st.integers(1, 3))
def test_messages_are_those_of_the_queues(
    moves: list[Any], ackmark: int, kind: str
) -> None:
    """A receiver gets each tag's octets in the order in which they were sent."""
    own = threading.local()
    before, runtime.engine = runtime.engine, lambda: own.engine
    try:
        run(own, kind, partial(_exchange, moves), ackmark=ackmark, hiwater=2 * ackmark)
    finally:
        runtime.engine = before


def _exchange(
    moves: list[Any], engine: Engine, context: Context, to: Routes, by: Routes
) -> None:
    route: Route
    if engine.rank == 0:
        requests = []
        for number, (nbytes, tag, waits, _) in enumerate(moves):
            octets = bytes([number]) * nbytes
            if waits:
                to[1].send(octets, tag)
            else:
                requests.append(to[1].start(octets, tag))
        Request.Waitall(requests)
        return
    posted = []
    for number, (nbytes, tag, _, how) in enumerate(moves):
        room, route = bytearray(nbytes), by[0]
        if how == "probe":
            here = partial(engine.probe, context, 0, tag)
            engine.turns.wait(lambda: here() is not None, polling=True)
        if how == "any":
            route = by[ANY_SOURCE]
        if how == "post":
            posted.append((route.post(room, tag), room, number, nbytes))
        else:
            status = Status()
            route.receive(room, ANY_TAG if how == "any tag" else tag, status)
            assert room == bytes([number]) * nbytes
            assert (status.source, status.tag) == (0, tag)
    for request, room, number, nbytes in posted:
        request.Wait()
        assert room == bytes([number]) * nbytes
