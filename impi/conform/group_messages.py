"""The messages of chapter 4 between clients: for each operation a generator of :class:`Message`.

Written from the clauses alone. A generator yields every message of the global phase in an order in
which they can be sent; of messages between members of one client it yields none. Whoever drives it
sends or expects each message, and sends back into the generator what really crossed (None: nothing
was seen). ``octets`` None means that any content of ``size`` octets is right.

Tags: 4.25. Trees and masters: 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

TAGS: Final = {
    "barrier": 110,
    "bcast": 120,
    "gather": 130,
    "gatherv": 140,
    "scatter": 150,
    "scatterv": 160,
    "alltoall": 170,
    "alltoallv": 180,
    "reduce": 190,
    "scan": 200,
    "dup": 210,
    "merge": 220,
    "free": 230,
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message between two clients; ``src`` and ``dest`` are ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    cid: int
    lsrank: int
    octets: bytes | None
    size: int = 8
    """Octets, if the content is free."""


Combine: TypeAlias = Callable[[bytes, bytes], bytes]
"""``op(invec, inoutvec)`` of octets in external32."""
Messages: TypeAlias = Generator[Message, bytes | None, None]
Answer: TypeAlias = Generator[Message, bytes | None, bytes | None]
"""Yields messages and returns a result; None: it is known to the client under test alone."""


def cubedim(n: int) -> int:
    """Return the dimension of the smallest hypercube of ``n`` vertices (4.2)."""
    dim = 0
    while 1 << dim < n:
        dim += 1
    return dim


class Group:
    """The members of an intracommunicator.

    Args:
        members: ranks of MPI_COMM_WORLD, in the communicator's order.
        clients: the client of each rank of MPI_COMM_WORLD.
        cid: the even context id of the communicator; collectives have the next one (4.3).
        maxlinear: most masters of a linear algorithm.
        xsize: octets from which a collective is long.
    """

    def __init__(self, members: Sequence[int], clients: Sequence[int], cid: int, maxlinear: int, xsize: int) -> None:
        self.members = tuple(members)
        self.client = [clients[rank] for rank in self.members]
        self.cid = cid
        self.maxlinear = maxlinear
        self.xsize = xsize
        seen: list[int] = []
        for client in self.client:
            if client not in seen:
                seen.append(client)
        self.masters = [self.client.index(client) for client in seen]
        """Ranks of the masters, in the order of their ranks: master 0, 1, ... (4.2)."""
        self.number = [seen.index(client) for client in self.client]
        """The master's number of each rank's client."""

    @property
    def size(self) -> int:
        """Members."""
        return len(self.members)

    def say(self, src: int, dest: int, operation: str, octets: bytes | None, size: int = 8) -> Answer:
        """One message; nothing inside one client. The result is what crossed, or ``octets``."""
        if self.client[src] == self.client[dest]:
            return octets
        there = Message(self.members[src], self.members[dest], TAGS[operation], self.cid + 1, src, octets, size)
        crossed = yield there
        return octets if crossed is None else crossed

    def locals_of(self, number: int) -> list[int]:
        """Ranks under the client of a master, ascending."""
        return [rank for rank in range(self.size) if self.number[rank] == number]

    def participants(self, root: int) -> list[int]:
        """Return the process that acts for each client: its master, or the root itself (4.11)."""
        acting = list(self.masters)
        acting[self.number[root]] = root
        return acting

    @property
    def linear(self) -> bool:
        """Whether linear algorithms are used: up to MAXLINEAR masters."""
        return len(self.masters) <= self.maxlinear


def barrier(g: Group) -> Messages:
    """IMPI 4.10: masters fan in to rank 0 and out again, without data."""
    n = len(g.masters)
    if g.linear:
        for i in range(1, n):
            yield from g.say(g.masters[i], 0, "barrier", b"")
        for i in range(1, n):
            yield from g.say(0, g.masters[i], "barrier", b"")
        return
    edges = _high_edges(n)
    for parent, child in sorted(edges, key=lambda edge: -edge[1]):
        yield from g.say(g.masters[child], g.masters[parent], "barrier", b"")
    for parent, child in edges:
        yield from g.say(g.masters[parent], g.masters[child], "barrier", b"")


def _high_edges(n: int) -> list[tuple[int, int]]:
    """Parents and children of the high-bit tree; a parent hears before it speaks."""
    return [(child - (1 << (child.bit_length() - 1)), child) for child in range(1, n)]


def bcast(g: Group, root: int, octets: bytes | None, size: int = 8) -> Answer:
    """IMPI 4.11: from the root, which acts for its client, to masters; the result is the data."""
    acting, n, first = g.participants(root), len(g.masters), g.number[root]
    edges = [(0, child) for child in range(1, n)] if g.linear else _high_edges(n)
    if g.linear:  # in the order of master numbers
        edges = [(0, (i - first) % n) for i in range(n) if i != first]
    for parent, child in edges:
        src, dest = acting[(parent + first) % n], acting[(child + first) % n]
        octets = yield from g.say(src, dest, "bcast", octets, size)
    return octets


def gather(g: Group, root: int, parts: Sequence[bytes]) -> Messages:
    """IMPI 4.12: short ones packed by masters, long ones from each process."""
    if len(parts[root]) >= g.xsize:
        for rank in range(g.size):
            yield from g.say(rank, root, "gather", parts[rank])
        return
    acting, n, first = g.participants(root), len(g.masters), g.number[root]
    packed = [b"".join(parts[rank] for rank in g.locals_of((v + first) % n)) for v in range(n)]
    if g.linear:
        for number in range(n):
            if number != first:
                yield from g.say(acting[number], root, "gather", packed[(number - first) % n])
        return
    for i in range(cubedim(n)):
        for v in range(n):
            if v >> i & 1 and v % (1 << i) == 0:
                parent = v - (1 << i)
                yield from g.say(acting[(v + first) % n], acting[(parent + first) % n], "gather", packed[v])
                packed[parent] += packed[v]


def direct_to_root(g: Group, operation: str, root: int, parts: Sequence[bytes]) -> Messages:
    """Each process to the root (4.13)."""
    for rank in range(g.size):
        yield from g.say(rank, root, operation, parts[rank])


def direct_from_root(g: Group, operation: str, root: int, parts: Sequence[bytes]) -> Messages:
    """The root to each process (4.14, 4.15)."""
    for rank in range(g.size):
        yield from g.say(root, rank, operation, parts[rank])


def reduce(g: Group, root: int, parts: Sequence[bytes | None], combine: Combine, *, commute: bool = True) -> Answer:
    """IMPI 4.16; a part None is known to the client under test alone."""
    if not commute:
        octets = parts[g.size - 1]
        for rank in reversed(range(g.size)):
            crossed = yield from g.say(rank, root, "reduce", parts[rank])
            octets = crossed if rank == g.size - 1 else _combined(crossed, octets, combine)
        return octets
    acting, n, first = g.participants(root), len(g.masters), g.number[root]
    of_client: list[bytes | None] = []
    for v in range(n):
        mine = [parts[rank] for rank in g.locals_of((v + first) % n)]
        octets = mine[0]
        for part in mine[1:]:
            octets = _combined(part, octets, combine)
        of_client.append(octets)
    if g.linear:
        for number in range(n):
            if number != first:
                v = (number - first) % n
                crossed = yield from g.say(acting[number], root, "reduce", of_client[v])
                of_client[0] = _combined(crossed, of_client[0], combine)
        return of_client[0]
    for i in range(cubedim(n)):
        for v in range(n):
            if v >> i & 1 and v % (1 << i) == 0:
                parent = v - (1 << i)
                src, dest = acting[(v + first) % n], acting[(parent + first) % n]
                crossed = yield from g.say(src, dest, "reduce", of_client[v])
                of_client[parent] = _combined(crossed, of_client[parent], combine)
    return of_client[0]


def _combined(one: bytes | None, other: bytes | None, combine: Combine) -> bytes | None:
    return None if one is None or other is None else combine(one, other)


def scan(g: Group, parts: Sequence[bytes], combine: Combine) -> Messages:
    """IMPI 4.18: a chain of all ranks."""
    octets = parts[0]
    for rank in range(g.size - 1):
        yield from g.say(rank, rank + 1, "scan", octets)
        octets = combine(octets, parts[rank + 1])


def pairwise(g: Group, operation: str, blocks: Callable[[int, int], bytes]) -> Messages:
    """Each process to each other one (4.22 long, 4.23); ``blocks(src, dest)`` is the content."""
    for step in range(1, g.size):
        for rank in range(g.size):
            dest = (rank + step) % g.size
            yield from g.say(rank, dest, operation, blocks(rank, dest))
