"""LCOs on engines: packets between clients and inside one, short and long, in any order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from engine_world import make_job, run_job
from lco_world import KEY, channel_to, traffic

from impi.base.errors import PeerError
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.errors import MPIException
from impi.protocol.slots.machine import INLINE
from impi.rank.engine.channels.payload import DirectTarget, OctetSource
from impi.rank.engine.engine import Engine


@pytest.mark.parametrize("clients", [[1], [2], [1, 1], [2, 3]], ids=str)
@pytest.mark.parametrize("first", ["send", "slot"])
def test_a_ring_of_channels(clients: list[int], first: str) -> None:
    sizes = [0, 1, INLINE, INLINE + 1, 50_000]

    def program(engine: Engine) -> list[int]:
        one = traffic(engine)
        n = len(engine.job.procs)
        receiver = one.create(KEY)
        if first == "slot":
            one.add_receive_slots(receiver, 1)
        out = channel_to(one, engine, (engine.rank + 1) % n, receiver)
        sending = [
            engine.send(
                out,
                0,
                tag,
                OctetSource(bytes([engine.rank]) * size),
                synchronous=tag % 2 == 1,
            )
            for tag, size in enumerate(sizes)
        ]
        if first == "send":
            one.add_receive_slots(receiver, 1)
        came = []
        for tag, size in enumerate(sizes):
            place = bytearray(size)
            operation = engine.receive(
                receiver, ANY_SOURCE, ANY_TAG, DirectTarget(memoryview(place))
            )
            engine.turns.wait_for(operation)
            assert operation.message is not None
            assert (operation.message.source, operation.message.tag) == (0, tag)
            assert place == bytes([(engine.rank - 1) % n]) * size
            came.append(len(place))
        for sent in sending:
            engine.turns.wait_for(sent)
            assert sent.failure is None
        return came

    job = make_job(clients)
    assert run_job(job, program) == [sizes] * len(job.procs)


def test_a_refused_send_fails_in_its_own_wait() -> None:
    def program(engine: Engine) -> str:
        one = traffic(engine)
        receiver = one.create(KEY)
        out = channel_to(one, engine, 1 - engine.rank, receiver)
        receiver.lco.key = bytes(16)  # not the one that the other proc believes
        try:
            operation = engine.send(out, 0, 0, OctetSource(b"x"), synchronous=True)
            engine.turns.wait_for(operation)
            first = str(operation.failure)
        except MPIException as known:  # the answer was there already
            first = str(known)
        with pytest.raises(MPIException, match="its key is wrong"):
            engine.send(out, 0, 0, OctetSource(b"x"))
        return first

    for text in run_job(make_job([1, 1]), program):
        assert "its key is wrong" in text


def test_a_packet_that_is_none_is_the_peers_fault() -> None:
    def program(engine: Engine) -> None:
        one = traffic(engine)
        letter = one._expect(0)
        letter.landing(3, external=False)
        with pytest.raises(
            PeerError, match="rank 0: 3 octets are too few for a packet between LCOs"
        ):
            letter.finish(3, 0, external=False)

    run_job(make_job([1]), program)


def test_packets_of_a_rank_are_handled_in_the_order_of_their_begin() -> None:
    """The end of the second may come first, as a library moves both at once."""

    def program(engine: Engine) -> list[bytes]:
        one = traffic(engine)
        handled: list[bytes] = []
        one._machine.handle = lambda world, octets: handled.append(bytes(octets))  # type: ignore[method-assign]
        letters = [one._expect(0) for _ in range(3)]
        for i in (1, 2, 0):
            letters[i].landing(1, external=False)[:] = bytes([i])
            letters[i].finish(1, 0, external=False)
        return handled

    (handled,) = run_job(make_job([1]), program)
    assert handled == [b"\0", b"\1", b"\2"]
    assert all(a < b for a, b in pairwise(handled))
