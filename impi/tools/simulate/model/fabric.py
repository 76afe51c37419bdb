"""Carry packets and local messages in virtual time, and count them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from impi.protocol.options import HostKind
from impi.tools.simulate.model.clock import Clock, Workers
from impi.tools.simulate.model.network import Network, Tier, wire_time
from impi.tools.simulate.model.shape import Shape


class Traffic(NamedTuple):
    """Traffic in one direction."""

    packets: int = 0
    octets: int = 0

    def plus(self, octets: int) -> Traffic:
        return Traffic(self.packets + 1, self.octets + octets)


@dataclass(slots=True)
class Parcel:
    """One packet, or one local message."""

    source: int  # the sender's rank in MPI_COMM_WORLD
    dest: int
    octets: int
    left: Callable[[], None]  # called when the sender's processor has finished with it
    come: Callable[[], None]  # called when the receiver's processor has


class Links:
    """The links of nodes: each sends one packet after another, and receives one after another."""

    def __init__(self, clock: Clock, tier: Tier, nodes: int) -> None:
        self._clock, self._tier = clock, tier
        self._out = [0] * nodes
        self._in = [0] * nodes
        self.busy = [0] * nodes  # time that each link has spent on sending

    def carry(
        self, source: int, dest: int, octets: int, then: Callable[..., None], *args: Any
    ) -> None:
        """Carry octets from node to node; call ``then(*args)`` when the last one has come."""

        clock, lasts = self._clock, wire_time(octets, self._tier.bandwidth)
        start = max(clock.now, self._out[source])
        self._out[source] = start + lasts
        self.busy[source] += lasts
        # The receiving link is reserved when the first octet comes, not before: packets of other
        # nodes may come earlier.
        clock.at(start + self._tier.latency, self._come, dest, lasts, then, args)

    def _come(
        self, dest: int, lasts: int, then: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        end = max(self._clock.now, self._in[dest]) + lasts
        self._in[dest] = end
        self._clock.at(end, then, *args)


class Fabric:
    """The network between the processes of one job."""

    def __init__(
        self, clock: Clock, shape: Shape, network: Network, kind: HostKind = "proc"
    ) -> None:
        self.clock, self.network, self._shape = clock, network, shape
        self.links = Links(clock, network.wide, max(shape.node_of) + 1)
        # The worker that routes for each rank; empty if each process is its own host
        self._agent_of: list[int] = []

        agents = [] if kind == "proc" else shape.hosts(kind)
        for number, (_, ranks) in enumerate(agents):
            self._agent_of += [shape.size + number] * len(ranks)

        self._places = [
            *shape.node_of,
            *(shape.node_of[ranks[0]] for _, ranks in agents),
        ]
        self.workers = Workers(clock, self._places, network.cores)
        # Packets and octets between clients, by (source, destination)
        self.wide: dict[tuple[int, int], Traffic] = {}
        self.local = Traffic()  # messages within clients, and their octets

    def packet(self, parcel: Parcel) -> None:
        way = self._shape.client_of[parcel.source], self._shape.client_of[parcel.dest]
        self.wide[way] = self.wide.get(way, _NOTHING).plus(parcel.octets)
        self.workers.do(
            parcel.source, self.network.wide.sending(parcel.octets), self._leave, parcel
        )

    def _leave(self, parcel: Parcel) -> None:
        if self._agent_of:
            # The agent is a process of its own, and its work does not keep the sender.
            agent = self._agent_of[parcel.source]
            self._later(
                parcel, self.workers.do, agent, self.network.route, self._out, parcel
            )
        else:
            self._out(parcel)

        parcel.left()

    def _out(self, parcel: Parcel) -> None:
        ends = (parcel.source, parcel.dest)
        source, dest = (
            self._places[self._agent_of[rank] if self._agent_of else rank]
            for rank in ends
        )
        self.links.carry(source, dest, parcel.octets, self._come, parcel)

    def _come(self, parcel: Parcel) -> None:
        if self._agent_of:
            agent = self._agent_of[parcel.dest]
            self.workers.do(
                agent, self.network.route, self._later, parcel, self._take, parcel
            )
        else:
            self._take(parcel)

    def _later(self, parcel: Parcel, then: Callable[..., None], *args: Any) -> None:
        """Call ``then`` after the hop between a process and its agent."""
        local = self.network.local
        hop = local.latency + wire_time(parcel.octets, local.bandwidth)
        self.clock.at(self.clock.now + hop, then, *args)

    def _take(self, parcel: Parcel) -> None:
        self.workers.do(
            parcel.dest, self.network.wide.receiving(parcel.octets), parcel.come
        )

    def message(self, parcel: Parcel) -> None:
        self.local = self.local.plus(parcel.octets)
        tier = self.network.local
        # The library copies: its bandwidth is time of the sender's processor.
        cost = tier.sending(parcel.octets) + wire_time(parcel.octets, tier.bandwidth)
        self.workers.do(parcel.source, cost, self._pass_on, parcel)

    def _pass_on(self, parcel: Parcel) -> None:
        tier = self.network.local
        cost = tier.receiving(parcel.octets)
        self.clock.at(
            self.clock.now + tier.latency,
            self.workers.do,
            parcel.dest,
            cost,
            parcel.come,
        )
        parcel.left()


_NOTHING = Traffic()


def nothing() -> None:
    """Do nothing: the callback of an event that no one awaits."""
