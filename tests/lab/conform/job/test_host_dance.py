"""The dance: higher hosts connect, strangers do not matter, and who does not come is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tester_world import FakeWire, TesterWorld

from impi.lab.conform.job.host_dance import HostDance
from impi.lab.conform.outcomes import Broken


class _Network:
    """Connections to hosts under test."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.wires: list[tuple[str, int, str]] = []
        self.forgotten: list[bytes] = []

    def connect(self, address, port, source="", timeout_s=0.0):
        self.wires.append((address, port, source))
        return FakeWire() if self.answers else None

    def forget(self, wire) -> None:
        self.forgotten.append(bytes(wire.sent))

    def wait(self, ready, _timeout_s) -> bool:
        return ready()


Network: Any = _Network


def join(
    network: Any, *, strangers: bool = False, world: TesterWorld | None = None
) -> TesterWorld:
    world = world or TesterWorld()
    world.procs.links[1, 0].wire = None
    HostDance(network, strangers=strangers).join(
        world.procs, world.job.layout, 0, 0.1, lambda: False
    )
    return world


def test_the_higher_host_connects_from_its_address_and_says_its_rank() -> None:
    network = Network()
    world = join(network)
    assert network.wires == [("10.0.0.1", 5000, "10.0.0.2")]
    wire = world.procs.links[1, 0].wire
    assert isinstance(wire, FakeWire)
    assert bytes(wire.sent) == b"\0\0\0\1"


def test_a_stranger_comes_first_and_is_no_part_of_the_job() -> None:
    network = Network()
    join(network, strangers=True)
    assert [source for _, _, source in network.wires] == ["", "10.0.0.2"]
    assert network.forgotten == [b"GET / HTTP/1.0\r\n\r\n"]


def test_a_host_that_does_not_answer() -> None:
    with pytest.raises(Broken, match="host 0 does not answer at"):
        join(Network(answers=False))


def test_a_host_that_does_not_connect() -> None:
    world = TesterWorld()
    links = world.procs.links
    links[0, 1] = links.pop((1, 0))  # as if we were the lower one
    links[0, 1].ours, links[0, 1].theirs, links[0, 1].wire = 0, 1, None
    with pytest.raises(Broken, match="host 1 does not connect to host 0") as raised:
        HostDance(Network(), strangers=False).join(
            world.procs, world.job.layout, 1, 0.1, lambda: False
        )
    assert raised.value.clause == "2.3.8"


def test_accepted_connections_are_kept_with_their_port() -> None:
    dance = HostDance(Network(), strangers=False)
    wire: Any = SimpleNamespace(
        sock=SimpleNamespace(getsockname=lambda: ("10.0.0.2", 5001)), closed=False
    )
    dance.accepted(wire)
    assert dance._arrived == [(wire, 5001)]
    wire.closed = True
    other: Any = SimpleNamespace(sock=wire.sock, closed=False)
    dance.accepted(other)
    assert dance._arrived == [(other, 5001)], "a storm leaves nothing behind"
