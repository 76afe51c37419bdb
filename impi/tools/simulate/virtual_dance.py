"""The dance (IMPI 2.3.8) in virtual time, in the manner of our engine.

Every host connects to the lower hosts of other clients, one after another; each connection takes a
round trip (the other kernel answers) and a little processor time. Only then does it take accepted
connections, a little time each. The four octets of a host rank follow one latency later.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from impi.protocol.job import Job
from impi.protocol.startup.dance import Connect, check_rank, dance_steps, encode_rank
from impi.tools.simulate.model.clock import Clock
from impi.tools.simulate.model.network import Network

BACKLOG: Final = 1024
"""Connections that may wait at a host that does not accept yet: our engine's backlog."""
# Most hosts whose steps are run; the formula serves larger jobs
_MOST_STEPS: Final = 256


@dataclass(frozen=True, kw_only=True)
class Dance:
    """The cost of a dance. Times in picoseconds."""

    end: int  # time at which the last host has danced
    hosts: int
    connections: int  # number of all connections
    most: int  # most connections of one host: descriptors that it needs
    # Most unaccepted connections of one host at any moment. Its kernel turns some away beyond
    # BACKLOG; their retry a second later is not in `end`.
    waiting: int


def dance(job: Job, network: Network, starts: Sequence[int]) -> Dance:
    """Return the cost of the dance; ``starts`` has the time at which each client's hosts begin."""
    return (dance_by_steps if len(job.hosts) <= _MOST_STEPS else dance_by_formula)(
        job, network, starts
    )


class _Host:
    def __init__(self, job: Job, me: int) -> None:
        self.me = me
        steps = dance_steps(job, me)
        self.connects = [step.host for step in steps if isinstance(step, Connect)]
        self.expected = len(steps) - len(self.connects)
        self.begun: list[bytes] = []
        self.free = 0
        self.waiting = 0
        self.accepted: set[int] = set()
        self.accepting = False
        self.end = -1


class _Steps:
    def __init__(self, job: Job, network: Network, starts: Sequence[int]) -> None:
        self._job, self._network = job, network
        self._clock = Clock()

        self.hosts = [_Host(job, host.index) for host in job.hosts]
        for host, owner in zip(self.hosts, job.hosts, strict=True):
            self._clock.at(starts[owner.client], self._next, host, 0)

    def run(self) -> None:
        self._clock.run()
        assert all(host.end >= 0 for host in self.hosts), "a host waits for ever"

    def _next(self, host: _Host, at: int) -> None:
        if at < len(host.connects):
            round_trip = 2 * self._network.wide.latency
            self._clock.at(
                self._clock.now + self._network.connect + round_trip,
                self._connected,
                host,
                at,
            )
            return

        host.accepting = True

        host.free = self._clock.now
        # These connections have waited in the backlog while this host made its own.
        for octets in host.begun:
            self._accept(host, octets)

        self._settle(host)

    def _connected(self, host: _Host, at: int) -> None:
        other = self.hosts[host.connects[at]]
        octets = encode_rank(host.me)
        self._clock.at(
            self._clock.now + self._network.wide.latency, self._come, other, octets
        )
        self._next(host, at + 1)

    def _come(self, host: _Host, octets: bytes) -> None:
        if host.accepting:
            self._accept(host, octets)
            self._settle(host)
        else:
            host.begun.append(octets)
            host.waiting = len(host.begun)

    def _accept(self, host: _Host, octets: bytes) -> None:
        host.accepted.add(check_rank(self._job, host.me, host.accepted, octets))
        host.free = max(host.free, self._clock.now) + self._network.connect
        host.waiting = max(
            host.waiting, _left(host.free - self._clock.now, self._network.connect)
        )

    def _settle(self, host: _Host) -> None:
        if len(host.accepted) == host.expected:
            host.end = max(host.free, self._clock.now)


def dance_by_steps(job: Job, network: Network, starts: Sequence[int]) -> Dance:
    """Run the steps of :func:`impi.protocol.startup.dance_steps` in virtual time, with checks."""
    steps = _Steps(job, network, starts)
    steps.run()

    return Dance(
        end=max(host.end for host in steps.hosts),
        hosts=len(steps.hosts),
        connections=sum(len(host.connects) for host in steps.hosts),
        most=max(len(host.connects) + host.expected for host in steps.hosts),
        waiting=max(host.waiting for host in steps.hosts),
    )


def dance_by_formula(job: Job, network: Network, starts: Sequence[int]) -> Dance:
    """Compute the dance without steps: higher hosts reach host h by their connection h + 1."""

    latency, cost = network.wide.latency, network.connect
    each = cost + 2 * latency

    counts = [0] * job.nclients
    for host in job.hosts:
        counts[host.client] += 1

    n = len(job.hosts)
    below = [sum(counts[:client]) for client in range(job.nclients)]

    end = most = waiting = 0
    for host in job.hosts:
        client = host.client
        # A host first makes its own connections, one to each host of all lower clients.
        at = begins = starts[client] + below[client] * each

        # The hosts of one client begin together, so their connections arrive together.
        come: list[tuple[int, int]] = []
        for other in range(client + 1, job.nclients):
            insort(
                come, (starts[other] + (host.index + 1) * each + latency, counts[other])
            )

        early = 0
        for arrival, many in come:
            at = max(at, arrival) + many * cost
            early += many
            waiting = max(
                waiting, early if arrival < begins else _left(at - arrival, cost)
            )

        end = max(end, at)
        most = max(most, n - counts[client])

    connections = (n * n - sum(count * count for count in counts)) // 2

    return Dance(end=end, hosts=n, connections=connections, most=most, waiting=waiting)


def _left(work: int, cost: int) -> int:
    """Return the number of items that are left after ``work``."""
    return -(-work // cost) if cost else 0
