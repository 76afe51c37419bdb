"""Ports: short messages to an open slot of another client are ordinary ones, in their order."""

from __future__ import annotations

import random

import pytest
from engine_world import make_job, run_job
from lco_world import KEY, channel_to, traffic

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.errors import MPIException
from impi.protocol.slots.machine import INLINE
from impi.rank.engine.channels.payload import DirectTarget, OctetSource, OctetTarget
from impi.rank.engine.engine import Engine
from impi.rank.engine.lcos.lco_ports import _PORTS, _cid
from impi.rank.engine.lcos.lco_traffic import LcoContext, Traffic
from impi.rank.engine.operations import SendOperation

MOST = 1024
"""maxdatalen of the jobs here."""


def wait(engine: Engine, context: LcoContext, size: int) -> tuple[int, bytes]:
    """Receive a message; return its tag and octets."""
    place = bytearray(size)
    operation = engine.receive(
        context, ANY_SOURCE, ANY_TAG, DirectTarget(memoryview(place))
    )
    engine.turns.wait_for(operation)
    assert operation.message is not None and operation.message.source == 0
    return operation.message.tag, bytes(place[: operation.message.nbytes])


def connected(engine: Engine) -> tuple[Traffic, LcoContext, LcoContext]:
    """An LCO with an open slot, and one that sends to that of the other client, and knows it."""
    one = traffic(engine)
    receiver = one.create(KEY)
    one.add_receive_slots(receiver, 1)
    out = channel_to(one, engine, 1 - engine.rank, receiver)
    (slot,) = out.lco.send_slots
    engine.turns.wait(lambda: slot.state == 1)
    engine.turns.wait(lambda: len(receiver.lco.attached) == 1)
    return one, receiver, out


@pytest.mark.parametrize("seed", range(5))
def test_messages_by_port_by_packet_and_apart_keep_their_order(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [0, 1, 8, MOST - 1, MOST, MOST + 1, 4 * MOST, INLINE, INLINE + 1]
    plan = [
        (chance.choice(sizes), chance.random() < 0.2, chance.randrange(6))
        for _ in range(200)
    ]

    def program(engine: Engine) -> None:
        _, receiver, out = connected(engine)
        (slot,) = out.lco.send_slots
        sent: list[SendOperation] = []
        ways: set[bool] = set()
        came = 0

        def receive() -> None:
            nonlocal came
            assert wait(engine, receiver, INLINE + 1) == (
                came,
                bytes([came % 251]) * plan[came][0],
            )
            came += 1

        for tag, (size, synchronous, most) in enumerate(plan):
            while len(sent) - came > most:
                receive()
            ways.add(size <= slot.reach and not synchronous and not slot.waiting)
            sent.append(
                engine.send(
                    out,
                    0,
                    tag,
                    OctetSource(bytes([tag % 251]) * size),
                    synchronous=synchronous,
                )
            )
        while came < len(plan):
            receive()
        for operation in sent:
            engine.turns.wait_for(operation)
            assert operation.failure is None
        assert ways == {True, False}
        assert sum(cid >= _PORTS for cid in engine.matching.contexts) == 1

    run_job(make_job([1, 1], maxdatalen=MOST), program)


def test_who_is_freed_tells_how_many_were_received_and_drops_the_rest() -> None:
    def program(engine: Engine) -> str:
        one, receiver, out = connected(engine)
        (slot,) = out.lco.send_slots
        for tag in range(3):
            engine.send(out, 0, tag, OctetSource(b"x"))
        assert slot.short is not None
        # There is credit
        engine.turns.wait(
            lambda: slot.short is not None and slot.short(3, memoryview(b"y"), 0)
        )
        slot.sent += 1
        for tag in range(2):
            assert wait(engine, receiver, 1) == (tag, b"x")
        (attached,) = receiver.lco.attached
        # All are here, two of them not received
        engine.turns.wait(lambda: attached.taken == 4)
        one.free(receiver)
        assert not engine.matching._unmatched
        assert not [cid for cid in engine.matching.contexts if cid >= _PORTS]
        engine.turns.wait(lambda: slot.refused)
        assert slot.short is None
        with pytest.raises(MPIException) as caught:
            engine.send(out, 0, 5, OctetSource(b"z"))
        one.free(out)
        return str(caught.value)

    for text in run_job(make_job([1, 1]), program):
        assert "of 4 messages sent there, 2 were received" in text


def test_what_comes_for_a_port_that_is_gone_or_anothers_is_dropped() -> None:
    def program(engine: Engine) -> None:
        one, receiver, out = connected(engine)
        (slot,) = out.lco.send_slots
        other = 1 - engine.rank
        for cid in (_cid(engine.rank, slot.number + 7), _cid(other, slot.number)):
            engine.ways.transfer.send(
                other, cid=cid, tag=0, lsrank=0, views=[memoryview(b"forged")]
            )
            engine.ways.channels.flush(other)
        engine.send(out, 0, 1, OctetSource(b"lawful"))
        assert wait(engine, receiver, 6) == (1, b"lawful")
        assert not engine.matching._orphans and not engine.matching._unmatched
        one.free(receiver)

    run_job(make_job([1, 1]), program)


def test_a_sender_that_leaves_closes_its_port() -> None:
    def program(engine: Engine) -> None:
        one, receiver, out = connected(engine)
        engine.send(out, 0, 1, OctetSource(b"x"))
        assert wait(engine, receiver, 1) == (1, b"x")
        one.free(out)
        engine.turns.wait(lambda: not receiver.lco.attached)
        assert not [cid for cid in engine.matching.contexts if cid >= _PORTS]

    run_job(make_job([1, 1]), program)


@pytest.mark.parametrize("clients", [[2], [1, 1]], ids=str)
def test_only_messages_to_another_client_have_ports(clients: list[int]) -> None:
    def program(engine: Engine) -> bool:
        _, receiver, out = connected(engine)
        engine.send(out, 0, 1, OctetSource(b"x"))
        assert wait(engine, receiver, 1) == (1, b"x")
        return any(cid >= _PORTS for cid in engine.matching.contexts)

    assert run_job(make_job(clients), program) == [len(clients) > 1] * 2


def test_what_takes_messages_by_their_tag_takes_those_of_ports_too() -> None:
    """Faults of collectives are told so."""

    def program(engine: Engine) -> list[int]:
        _, receiver, out = connected(engine)
        taken: list[tuple[int, OctetTarget]] = []

        def take(source: int) -> OctetTarget:
            taken.append((source, OctetTarget()))
            return taken[-1][1]

        receiver.takers[99] = take
        engine.send(out, 0, 1, OctetSource(b"r"))
        assert wait(engine, receiver, 1) == (1, b"r")  # the other one takes them now
        for octet in (b"1", b"2"):
            engine.send(out, 0, 99, OctetSource(octet), collective=True)
        engine.turns.wait(lambda: len(taken) == 2 and bool(taken[1][1].data))
        assert [source for source, _ in taken] == [0, 0]
        return [int(target.data) for _, target in taken]

    assert run_job(make_job([1, 1]), program) == [[1, 2], [1, 2]]
