"""The messages of chapter 4 between clients: for each operation a generator of :class:`Message`.

Written from the clauses alone: no judged code is imported. A generator yields every
message of the global phase in an order in which they can be sent; of messages between members of
one client it yields none. The caller sends or expects each message, and sends back into the
generator the octets that really crossed (None: nothing was seen). ``octets`` None means that any
content of ``size`` octets is right.

This is the one oracle of both judges: :mod:`impi.lab.conform` sends and expects each message, and
the cases of :mod:`impi.lab` demand them of captures (``list(barrier(group))``: contents are known).

Trees and masters: 4.2. Tags: 4.25.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from impi.lab.dissect.chapter4.collective_tags import Tag


@dataclass(frozen=True, slots=True)
class Message:
    """One message between two clients; ``src`` and ``dest`` are ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    cid: int
    lsrank: int
    octets: bytes | None
    size: int = 8  # number of octets, if their content is free


Combine: TypeAlias = Callable[[bytes, bytes], bytes]
"""``op(invec, inoutvec)`` of octets in external32."""
Messages: TypeAlias = Generator[Message, bytes | None, None]
Answer: TypeAlias = Generator[Message, bytes | None, bytes | None]
"""Yields messages and returns a result; None: only the client under test knows the result."""
# Child and parent in a tree of clients; the root's client is 0, the next ones in turn 1, 2, ...
_Edges: TypeAlias = list[tuple[int, int]]


class Group:
    """The members of an intracommunicator.

    Args:
        members: ranks of MPI_COMM_WORLD, in the communicator's order.
        clients: the client of each rank of MPI_COMM_WORLD.
        cid: the even context id of the communicator; collectives have the next one (4.3).
        maxlinear: most masters of a linear algorithm.
        xsize: octets from which a collective is long.
    """

    def __init__(
        self,
        members: Sequence[int],
        clients: Sequence[int],
        cid: int,
        maxlinear: int,
        xsize: int,
    ) -> None:
        self.members = tuple(members)
        self.client = [clients[rank] for rank in self.members]
        self.cid = cid
        self.maxlinear = maxlinear
        self.xsize = xsize
        seen = list(dict.fromkeys(self.client))
        # Ranks of the masters, in the order of their ranks: master 0, 1, ... (4.2).
        self.masters = [self.client.index(client) for client in seen]
        # The master's number of each rank's client
        self.number = [seen.index(client) for client in self.client]

    @property
    def size(self) -> int:
        return len(self.members)

    def say(
        self, src: int, dest: int, tag: Tag, octets: bytes | None, size: int = 8
    ) -> Answer:
        """Yield one message, none inside a client; return octets that crossed, or ``octets``."""
        # Messages inside a client are a local matter (IMPI 4.2) and never
        # reach the wire.
        if self.client[src] == self.client[dest]:
            return octets

        crossed = yield Message(
            self.members[src], self.members[dest], tag, self.cid + 1, src, octets, size
        )

        # The octets that really crossed go on from here: later messages are held against it.
        return octets if crossed is None else crossed

    def from_root(self, root: int) -> list[tuple[int, list[int]]]:
        """Return all clients, that of the root first, the others in turn.

        A client is the process that acts for it, its master or the root itself (4.11), and
        the ranks under it, ascending.
        """

        # Numbers rotate, so that the root's client is always 0 in a tree.
        first, n = self.number[root], len(self.masters)
        numbers = [(first + v) % n for v in range(n)]
        acting = [
            root if number == first else self.masters[number] for number in numbers
        ]
        ranks = [
            [rank for rank in range(self.size) if self.number[rank] == number]
            for number in numbers
        ]

        return list(zip(acting, ranks, strict=True))

    def high_tree(self, root: int = 0) -> _Edges:
        """Return the edges of Barrier and Bcast; a parent hears before it speaks (4.10, 4.11).

        In the tree a parent's number lacks the highest bit of its child's.
        """
        return self._star(root) or [
            (v, v - (1 << (v.bit_length() - 1))) for v in range(1, len(self.masters))
        ]

    def low_tree(self, root: int) -> _Edges:
        """Return the edges of Gather and Reduce; a parent speaks after it has heard (4.12, 4.16).

        In the tree a parent's number lacks the lowest bit of its child's.
        """
        edges = [(v, v & (v - 1)) for v in range(1, len(self.masters))]
        return self._star(root) or sorted(edges, key=lambda edge: edge[0] & -edge[0])

    def _star(self, root: int) -> _Edges:
        """Return edges of a linear algorithm, by master number; none: too many masters."""
        first, n = self.number[root], len(self.masters)
        return (
            [((number - first) % n, 0) for number in range(n) if number != first]
            if n <= self.maxlinear
            else []
        )


def barrier(g: Group) -> Messages:
    """IMPI 4.10: masters fan in to rank 0 and out again, without data."""

    edges = g.high_tree()

    # Linear: in ascending order of masters. Tree: children with the highest bit first.
    inwards = edges if len(g.masters) <= g.maxlinear else edges[::-1]
    for child, parent in inwards:
        yield from g.say(g.masters[child], g.masters[parent], Tag.BARRIER, b"")

    for child, parent in edges:
        yield from g.say(g.masters[parent], g.masters[child], Tag.BARRIER, b"")


def bcast(g: Group, root: int, octets: bytes | None, size: int = 8) -> Answer:
    """Send from the root, which acts for its client, to masters; return the data (IMPI 4.11)."""
    clients = g.from_root(root)
    for child, parent in g.high_tree(root):
        octets = yield from g.say(
            clients[parent][0], clients[child][0], Tag.BCAST, octets, size
        )

    return octets


def gather(g: Group, root: int, parts: Sequence[bytes]) -> Messages:
    """IMPI 4.12: short ones packed by masters, long ones from each process."""

    # The size of one process's own part decides, and not the sum (IMPI 2.3.5).
    if len(parts[root]) >= g.xsize:
        yield from direct_to_root(g, Tag.GATHER, root, parts)
        return

    clients = g.from_root(root)

    # A client's parts in order of their ranks, as its master packs them.
    packed = [b"".join(parts[rank] for rank in ranks) for _, ranks in clients]
    for child, parent in g.low_tree(root):
        yield from g.say(
            clients[child][0], clients[parent][0], Tag.GATHER, packed[child]
        )
        # A parent appends what it got, so that blocks stay in the order of
        # master numbers.
        packed[parent] += packed[child]


def direct_to_root(g: Group, tag: Tag, root: int, parts: Sequence[bytes]) -> Messages:
    """Send from each process to the root (4.13)."""
    for rank in range(g.size):
        yield from g.say(rank, root, tag, parts[rank])


def direct_from_root(g: Group, tag: Tag, root: int, parts: Sequence[bytes]) -> Messages:
    """Send from the root to each process (4.14, 4.15)."""
    for rank in range(g.size):
        yield from g.say(root, rank, tag, parts[rank])


def reduce(
    g: Group,
    root: int,
    parts: Sequence[bytes | None],
    combine: Combine,
    *,
    commute: bool = True,
) -> Answer:
    """IMPI 4.16; a part None is known to the client under test alone."""

    if not commute:
        # Without commutativity there are no masters: all send to the root,
        # which folds from the right (IMPI 4.16).
        octets = parts[g.size - 1]
        for rank in reversed(range(g.size)):
            crossed = yield from g.say(rank, root, Tag.REDUCE, parts[rank])
            octets = (
                crossed if rank == g.size - 1 else _combined(crossed, octets, combine)
            )

        return octets

    clients = g.from_root(root)

    # Each client reduces its own part first; IMPI leaves open in which order.
    of_client: list[bytes | None] = []
    for _, ranks in clients:
        octets = parts[ranks[0]]
        for rank in ranks[1:]:
            octets = _combined(parts[rank], octets, combine)

        of_client.append(octets)

    for child, parent in g.low_tree(root):
        crossed = yield from g.say(
            clients[child][0], clients[parent][0], Tag.REDUCE, of_client[child]
        )
        # Once for each message, in the order of the tree. LAM combines
        # once, after its loop, which is wrong for three or four clients.
        of_client[parent] = _combined(crossed, of_client[parent], combine)

    return of_client[0]


def _combined(one: bytes | None, other: bytes | None, combine: Combine) -> bytes | None:
    # None spreads: what depends on an unknown part is unknown.
    return None if one is None or other is None else combine(one, other)


def reduce_scatter(
    g: Group,
    parts: Sequence[bytes],
    combine: Combine,
    sizes: Sequence[int],
    *,
    commute: bool = True,
) -> Messages:
    """IMPI 4.17: Reduce to rank 0, then Scatterv; ``sizes`` are the octets of each rank's piece."""

    whole = yield from reduce(g, 0, parts, combine, commute=commute)
    assert whole is not None
    ends = list(itertools.accumulate(sizes))
    pieces = [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    yield from direct_from_root(g, Tag.SCATTERV, 0, pieces)


def scan(g: Group, parts: Sequence[bytes], combine: Combine) -> Messages:
    """IMPI 4.18: a chain of all ranks."""
    octets = parts[0]
    for rank in range(g.size - 1):
        yield from g.say(rank, rank + 1, Tag.SCAN, octets)
        octets = combine(octets, parts[rank + 1])


def allgather(g: Group, parts: Sequence[bytes]) -> Messages:
    """IMPI 4.19: Gather to rank 0, then Bcast."""
    yield from gather(g, 0, parts)
    yield from bcast(g, 0, b"".join(parts))


def allgatherv(g: Group, parts: Sequence[bytes]) -> Messages:
    """IMPI 4.20: Gatherv to rank 0, then Bcast."""
    yield from direct_to_root(g, Tag.GATHERV, 0, parts)
    yield from bcast(g, 0, b"".join(parts))


def allreduce(
    g: Group, parts: Sequence[bytes | None], combine: Combine, *, commute: bool = True
) -> Answer:
    """IMPI 4.21: Reduce to rank 0, then Bcast; the result is the reduced data."""
    whole = yield from reduce(g, 0, parts, combine, commute=commute)
    return (yield from bcast(g, 0, whole))


def pairwise(g: Group, tag: Tag, blocks: Callable[[int, int], bytes]) -> Messages:
    """Send from each process to each other one (4.22 long, 4.23); ``blocks`` has the data."""
    # Each process begins behind itself, in a circle. On the wire the
    # order shows per pair only.
    for step in range(1, g.size):
        for rank in range(g.size):
            dest = (rank + step) % g.size
            yield from g.say(rank, dest, tag, blocks(rank, dest))
