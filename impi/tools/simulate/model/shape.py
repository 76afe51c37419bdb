"""The places of processes in a simulated job: clients, nodes, hosts; ranks ascend in this order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from impi.base.errors import UsageError
from impi.protocol.collectives import Layout
from impi.protocol.job import LONG8_VERSION, Host, Job, Proc
from impi.protocol.options import HostKind, Offer
from impi.protocol.startup.agree import DEFAULT_MAXLINEAR, DEFAULT_XSIZE
from impi.protocol.startup.facts import MAX_CLIENTS

MOST_PROCS: Final = 1_000_000
"""Most processes of a simulated job: a figure then takes some minutes and 7 GB."""

_CLIENT: Final = re.compile(r"([1-9]\d{0,5})x([1-9]\d{0,5})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that start-up would negotiate (IMPI 2.3.5), with our clients' defaults.

    Raises:
        UsageError: a client may not offer such a limit.
    """

    datalen: int = Offer().datalen
    ackmark: int = Offer().ackmark
    hiwater: int = Offer().hiwater
    xsize: int = DEFAULT_XSIZE
    maxlinear: int = DEFAULT_MAXLINEAR

    def __post_init__(self) -> None:
        Offer(**asdict(self))
        if min(self.xsize, self.maxlinear) < 0:
            raise UsageError("xsize and maxlinear cannot be negative", clause="2.3.5")


DEFAULT_LIMITS: Final = Limits()
"""The limits if users choose none."""


@dataclass(frozen=True)
class Shape:
    """The places of a job's processes: ``clients[c][n]`` of them are on node n of client c.

    Raises:
        UsageError: there is no client, one has no process, or there are more than IMPI allows.
    """

    clients: tuple[tuple[int, ...], ...]
    # All nodes are one machine, with its processors and its link (a test over loopback)
    one_machine: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.clients) <= MAX_CLIENTS:
            raise UsageError(
                f"a job has 1 to {MAX_CLIENTS} clients, not {len(self.clients)}",
                clause="2.3.5",
            )

        if not all(nodes and all(n > 0 for n in nodes) for nodes in self.clients):
            raise UsageError(
                "every client needs at least one process on each of its nodes"
            )

    @cached_property
    def size(self) -> int:
        return sum(map(sum, self.clients))

    @cached_property
    def client_of(self) -> tuple[int, ...]:
        return tuple(
            c for c, nodes in enumerate(self.clients) for n in nodes for _ in range(n)
        )

    @cached_property
    def node_of(self) -> tuple[int, ...]:
        """The node of each rank; nodes are numbered through all clients."""
        flat = [n for nodes in self.clients for n in nodes]
        return tuple(
            0 if self.one_machine else i for i, n in enumerate(flat) for _ in range(n)
        )

    @cached_property
    def ranks(self) -> tuple[range, ...]:
        sizes = [sum(nodes) for nodes in self.clients]
        return tuple(
            range(sum(sizes[:c]), sum(sizes[: c + 1])) for c in range(len(sizes))
        )

    def hosts(self, kind: HostKind) -> list[tuple[int, range]]:
        """Return client and ranks of each host, by host index (IMPI 2.3.5)."""
        return list(self._hosts(kind))

    def _hosts(self, kind: HostKind) -> Iterator[tuple[int, range]]:
        first = 0
        for client, nodes in enumerate(self.clients):
            total = sum(nodes)

            sizes = {"proc": (1,) * total, "node": nodes, "client": (total,)}[kind]
            for size in sizes:
                yield client, range(first, first + size)
                first += size

    def layout(self) -> WideLayout:
        return WideLayout(self.client_of)

    def job(self, kind: HostKind, limits: Limits) -> Job:
        hosts, procs = [], []
        for index, (client, ranks) in enumerate(self.hosts(kind)):
            where = address(self.node_of[ranks[0]])
            hosts.append(
                Host(
                    index=index,
                    client=client,
                    ipv6=where,
                    port=5000,
                    procs=tuple(ranks),
                )
            )
            procs += [
                Proc(
                    rank=r,
                    client=client,
                    host=index,
                    ipv6=address(self.node_of[r]),
                    pid=r + 1,
                )
                for r in ranks
            ]

        return Job(
            version=LONG8_VERSION,
            nclients=len(self.clients),
            hosts=tuple(hosts),
            procs=tuple(procs),
            maxdatalen=limits.datalen,
            tag_ub=2**30,
            xsize=limits.xsize,
            maxlinear=limits.maxlinear,
            ackmark=limits.ackmark,
            hiwater=limits.hiwater,
        )

    def __str__(self) -> str:
        parts = []
        for nodes in self.clients:
            alike = len(set(nodes)) == 1
            parts.append(
                f"{len(nodes)}x{nodes[0]}"
                if alike
                else f"{len(nodes)} nodes with {sum(nodes)}"
            )

        if len(parts) > 4 and len(set(parts)) == 1:
            return f"{len(parts)} x {parts[0]}"

        return (
            "+".join(parts)
            if len(parts) <= 4
            else "+".join((*parts[:2], "...", parts[-1]))
        )


def address(node: int) -> bytes:
    """Return a node's address: IPv4, embedded (IMPI 1.2.3)."""
    return bytes(12) + (0x0A000001 + node).to_bytes(4, "big")


def parse_shape(text: str) -> Shape:
    """Parse ``2x2+1x4``: client 0 has 2 nodes of 2 procs, client 1 has 1 of 4.

    Raises:
        UsageError: the text is malformed.
    """

    clients = []
    for part in text.split("+"):
        match = _CLIENT.fullmatch(part)
        if match is None:
            raise UsageError(
                f"topology {text!r}: {part!r} is not NODESxPROCS; write a client with 2 nodes of 4 procs as 2x4"
            )

        # Before the tuple is made, since a user may ask for 10^12 processes.
        _check_many(int(match[2]) * int(match[1]))
        clients.append((int(match[2]),) * int(match[1]))

    _check_many(sum(map(sum, clients)))

    return Shape(tuple(clients))


def spread(procs: int, clients: int, per_node: int) -> Shape:
    """Return ``procs`` spread evenly over ``clients``, ``per_node`` on a node.

    Raises:
        UsageError: a client would have no proc, or a number is out of range.
    """

    if not 1 <= clients <= procs:
        raise UsageError(
            f"{procs} processes cannot be spread over {clients} clients; each needs one"
        )

    _check_many(procs)
    if per_node < 1:
        raise UsageError(f"a node cannot have {per_node} processes; give at least 1")

    # The first clients have one more where it does not come out even.
    shares = [procs // clients + (c < procs % clients) for c in range(clients)]

    return Shape(
        tuple(
            (per_node,) * (n // per_node) + ((n % per_node,) if n % per_node else ())
            for n in shares
        )
    )


def _check_many(procs: int) -> None:
    if procs > MOST_PROCS:
        raise UsageError(
            f"{procs} processes are more than can be simulated; give at most {MOST_PROCS}"
        )


class _Run(tuple[int, ...]):
    """Consecutive ranks: a tuple that finds a rank by arithmetic, without a search."""

    __slots__ = ()

    def index(self, value: Any, *_limits: Any) -> int:
        if value not in self:
            raise ValueError(f"{value} is not in {self[:1]}...")

        return int(value) - self[0]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and bool(self) and self[0] <= value <= self[-1]


class WideLayout(Layout):
    """The layout of MPI_COMM_WORLD, which finds a process among many without a search."""

    __slots__ = ("_runs",)

    def __init__(self, client_of_rank: Sequence[int]) -> None:
        super().__init__(client_of_rank)
        self._runs = tuple(
            _Run(super(WideLayout, self).locals_to_master(n))
            for n in range(self.num_masters())
        )

    def locals_to_master(self, number: int) -> tuple[int, ...]:
        return self._runs[number]

    def locals_to_rank(self, rank: int) -> tuple[int, ...]:
        return self._runs[self.local_master_num(rank)]
