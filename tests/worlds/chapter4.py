"""The messages of chapter 4 between clients, told in a second way: the judge of the algorithms.

Nothing here is taken from the code under test. A message is ``(source, dest, tag, content)``; the
content is the tuple of ranks whose contribution it carries. ``layouts`` are the communicators that
the tests try.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

Wire = tuple[int, int, int, tuple[int, ...]]


ALL_UP_TO = 5
"""Up to this size every layout there is; as many as there are partitions of a set (52 of five)."""


def partitions(size: int) -> Iterator[tuple[int, ...]]:
    """Every way to give ``size`` ranks to clients, numbered downwards, unlike their masters."""
    if size == 0:
        yield ()
        return
    for before in partitions(size - 1):
        for client in range(len(set(before)) + 1):
            yield (*before, -client)


def layouts(size: int) -> Iterator[tuple[int, ...]]:
    """Clients by rank: all small sizes; contiguous, interleaved and mixed, 1 to 6 clients."""
    if size <= ALL_UP_TO:
        yield from partitions(size)
        return
    seen = set()
    rng = random.Random(size)
    for nclients in range(1, min(6, size) + 1):
        mixed = [
            *range(nclients),
            *(rng.randrange(nclients) for _ in range(size - nclients)),
        ]
        rng.shuffle(mixed)
        for clients in (
            tuple(rank * nclients // size for rank in range(size)),
            tuple(rank % nclients for rank in range(size)),
            tuple(mixed),
        ):
            if clients not in seen:
                seen.add(clients)
                yield clients


def members_by_master(clients: Sequence[int]) -> list[list[int]]:
    """The ranks of each client, by master number."""
    order = list(dict.fromkeys(clients))
    return [[r for r, c in enumerate(clients) if c == client] for client in order]


def clear_high(v: int) -> int:
    return int("0" + bin(v)[3:], 2)


def clear_low(v: int) -> int:
    return int(bin(v)[2:].rstrip("0")[:-1].ljust(len(bin(v)) - 2, "0") or "0", 2)


class Participants:
    """Root and masters as tree vertices, and the edges (child, parent) between them."""

    def __init__(
        self, clients: Sequence[int], root: int, limit: int, clear: object
    ) -> None:
        self.groups = members_by_master(clients)
        n = len(self.groups)
        [home] = [m for m, group in enumerate(self.groups) if root in group]
        self.rank = [
            root if m == home else group[0] for m, group in enumerate(self.groups)
        ]
        self.home = home
        if n <= limit:
            self.parent = {m: home for m in range(n) if m != home}
        else:
            self.parent = {(v + home) % n: (clear(v) + home) % n for v in range(1, n)}  # type: ignore[operator]

    def below(self, master: int) -> list[int]:
        """This master and all under it, in rotated order."""
        n = len(self.groups)
        return [
            m
            for m in ((self.home + v) % n for v in range(n))
            if self._leads_to(m, master)
        ]

    def _leads_to(self, m: int, master: int) -> bool:
        while m != master:
            if m not in self.parent:
                return False
            m = self.parent[m]
        return True


def barrier(clients: Sequence[int], limit: int) -> list[Wire]:
    who = Participants(clients, 0, limit, clear_high)
    edges = [(who.rank[m], who.rank[p]) for m, p in who.parent.items()]
    both = edges + [(p, c) for c, p in edges]
    return [(source, dest, 110, ()) for source, dest in both]


def bcast(clients: Sequence[int], root: int, limit: int) -> list[Wire]:
    who = Participants(clients, root, limit, clear_high)
    return [(who.rank[p], who.rank[m], 120, (root,)) for m, p in who.parent.items()]


def _upwards(clients: Sequence[int], root: int, limit: int, tag: int) -> list[Wire]:
    who = Participants(clients, root, limit, clear_low)
    return [
        (
            who.rank[m],
            who.rank[p],
            tag,
            tuple(r for b in who.below(m) for r in who.groups[b]),
        )
        for m, p in who.parent.items()
    ]


def gather_short(clients: Sequence[int], root: int, limit: int) -> list[Wire]:
    return _upwards(clients, root, limit, 130)


def reduce_commutative(clients: Sequence[int], root: int, limit: int) -> list[Wire]:
    return _upwards(clients, root, limit, 190)


def everybody_to_root(clients: Sequence[int], root: int, tag: int) -> list[Wire]:
    return [
        (r, root, tag, (r,)) for r in range(len(clients)) if clients[r] != clients[root]
    ]


def root_to_everybody(clients: Sequence[int], root: int, tag: int) -> list[Wire]:
    return [
        (root, r, tag, (r,)) for r in range(len(clients)) if clients[r] != clients[root]
    ]


def root_to_masters(clients: Sequence[int], root: int) -> list[Wire]:
    groups = members_by_master(clients)
    return [
        (root, group[0], 150, tuple(group)) for group in groups if root not in group
    ]


def masters_to_masters(clients: Sequence[int]) -> list[Wire]:
    """The content: source and destination of every piece, one after the other."""
    groups = members_by_master(clients)
    return [
        (
            a[0],
            b[0],
            170,
            tuple(rank for source in a for dest in b for rank in (source, dest)),
        )
        for a in groups
        for b in groups
        if a is not b
    ]


def every_pair(clients: Sequence[int], tag: int) -> list[Wire]:
    n = len(clients)
    return [
        (a, b, tag, (a, b))
        for a in range(n)
        for b in range(n)
        if clients[a] != clients[b]
    ]


def chain(clients: Sequence[int]) -> list[Wire]:
    return [
        (r, r + 1, 200, tuple(range(r + 1)))
        for r in range(len(clients) - 1)
        if clients[r] != clients[r + 1]
    ]
