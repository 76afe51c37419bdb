"""A receive that waits for one message takes it whole, in part or not at all, and no other."""

from __future__ import annotations

import pytest
from engine_world import make_job, run_job

from impi.protocol.semantics.constants import ANY_TAG
from impi.protocol.semantics.errors import MPIException
from impi.rank.api.p2p.routes import ChannelRoute
from impi.rank.api.p2p.status import Status
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation

SIZES = [0, 1, 4096, 4097, 40_000, 100_000, 1 << 20]
LIMIT = 1 << 17


@pytest.mark.clause("3.7.2")
@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("tag", [7, ANY_TAG], ids=["tag", "any"])
def test_no_receive_is_posted_for_an_awaited_message(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, tag: int
) -> None:
    """Not even for one of several packets, which comes while the receive stands."""

    def program(engine: Engine) -> bytes:
        context = engine.make_context(0, range(2))
        route = ChannelRoute(engine, context, 1 - engine.rank)
        place = bytearray(nbytes + 3)
        if engine.rank == 0:
            # Now the other one waits, or will before it hears of ours
            route.receive(place, 5, None)
            route.send(bytes(range(256)) * (nbytes // 256) + bytes(nbytes % 256), 7)
            return b""
        route.send(b"", 5)
        monkeypatch.setattr(ReceiveOperation, "__init__", None)
        status = Status()
        route.receive(place, tag, status)
        assert (status.source, status.tag, status.count) == (0, 7, nbytes)
        assert place[nbytes:] == bytes(3)
        return bytes(place[:nbytes])

    found = run_job(make_job([1, 1], maxdatalen=LIMIT), program)[1]
    assert found == bytes(range(256)) * (nbytes // 256) + bytes(nbytes % 256)


@pytest.mark.parametrize("nbytes", [9, 5000, 200_000])
def test_a_message_that_does_not_fit_lets_no_later_one_pass(nbytes: int) -> None:
    def program(engine: Engine) -> bytes:
        context = engine.make_context(0, range(2))
        route = ChannelRoute(engine, context, 1 - engine.rank)
        if engine.rank == 0:
            route.start(bytes(nbytes), 1)
            route.send(b"next", 1)
            engine.turns.wait(lambda: engine.quiet)
            return b""
        place = bytearray(8)
        with pytest.raises(MPIException):
            route.receive(place, 1, None)
        route.receive(place, 1, None)
        return bytes(place)

    assert run_job(make_job([1, 1], maxdatalen=LIMIT), program)[1] == b"next" + bytes(4)


def test_another_tag_is_left_for_another_receive() -> None:
    def program(engine: Engine) -> list[bytes]:
        context = engine.make_context(0, range(2))
        route = ChannelRoute(engine, context, 1 - engine.rank)
        if engine.rank == 0:
            for tag in (1, 2, 3):
                route.send(bytes([tag]) * 5000, tag)
            return []
        places = [bytearray(5000) for _ in range(3)]
        for tag in (2, ANY_TAG, 3):
            route.receive(places[tag - 1 if tag > 0 else 0], tag, None)
        return [bytes(place[:1]) for place in places]

    assert run_job(make_job([1, 1], maxdatalen=LIMIT), program)[1] == [
        b"\1",
        b"\2",
        b"\3",
    ]
