"""The interface of the two models that carry messages: both tell the same of one message."""

from __future__ import annotations

import pytest
from simulate_world import network

from impi.tools.simulate.model.clock import Clock
from impi.tools.simulate.model.counted import CountedTransport
from impi.tools.simulate.model.fabric import Fabric
from impi.tools.simulate.model.messages import Message, Transport
from impi.tools.simulate.model.shape import Limits, parse_shape
from impi.tools.simulate.model.transfer_machines import PacketTransport

SHAPE, LIMITS = parse_shape("1x1+1x1"), Limits(datalen=64)


class Listener:
    """Notes what it is told; ``posted``: whether a receive is there when a message arrives."""

    def __init__(self, *, posted: bool) -> None:
        self.posted, self.log = posted, list[str]()

    def arrived(self, message: Message) -> bool:
        self.log.append("arrived")
        return self.posted

    def received(self, message: Message) -> None:
        self.log.append("received")

    def sent(self, message: Message) -> None:
        self.log.append("sent")


def carrying(kind: str, listener: Listener) -> tuple[Clock, Transport]:
    clock = Clock()
    fabric = Fabric(clock, SHAPE, network())
    if kind == "counted":
        return clock, CountedTransport(fabric, LIMITS, listener)
    return clock, PacketTransport(fabric, SHAPE, LIMITS, listener, "proc")


@pytest.mark.parametrize("kind", ["counted", "packets"])
def test_a_short_message_is_sent_before_it_arrives(kind: str) -> None:
    listener = Listener(posted=True)
    clock, transport = carrying(kind, listener)
    transport.send(Message(0, 1, 7, None, 8, 1))
    clock.run()
    assert listener.log == ["sent", "arrived", "received"]
    assert transport.quiet()


@pytest.mark.parametrize("kind", ["counted", "packets"])
def test_a_long_message_is_held_back_until_it_is_accepted(kind: str) -> None:
    listener = Listener(posted=False)
    clock, transport = carrying(kind, listener)
    message = Message(0, 1, 7, None, 100, 1)
    transport.send(message)
    clock.run()
    assert listener.log == ["arrived"]
    transport.accept(message)
    clock.run()
    assert listener.log == ["arrived", "sent", "received"]
    assert transport.quiet()
