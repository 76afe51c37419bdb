"""The participants of a phase, arranged as a star or as a tree around its root.

An operation has two phases. *Across* the clients, one process stands in for each: the root for its
own client, the master for any other (IMPI 4.11, 4.12, 4.16). *Within* a client all its processes
talk to the stand-in. Both are a :class:`Team`; the operations need only parents and children.
Across clients the shape is IMPI's: linear for at most ``maxlinear`` masters, else a tree (2.3.5 and
4.10 disagree about equality; we follow 4.10). Within a client it is ours: always a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

from impi.base.records import record
from impi.protocol.collectives import trees
from impi.protocol.collectives.layout import Layout

P = ParamSpec("P")
R = TypeVar("R")

# Entries of one layout's memo; simulated layouts have very many processes
_MOST: Final = 256
_Parent: TypeAlias = Callable[[int], int | None]
_Children: TypeAlias = Callable[[int, int], tuple[int, ...]]


@record
class Team:
    """The participants of one phase."""

    members: tuple[int, ...]
    """Ranks of the participants, by master number across clients, ascending within one."""
    first: int
    """Index of the root in ``members``; vertex v of a tree is member (v + first) mod n."""
    linear: bool
    """A star around the root instead of a tree."""

    def high(self, rank: int) -> tuple[int | None, tuple[int, ...]]:
        """Return parent and children of ``rank`` in the high-bit tree or star; none outside."""
        return self._around(rank, trees.high_parent, trees.high_children)

    def low(self, rank: int) -> tuple[int | None, tuple[int, ...]]:
        """Return parent and children of ``rank`` in the low-bit tree or star; none outside."""
        return self._around(rank, trees.low_parent, trees.low_children)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Return positions in ``members`` of the data in each message of a gather over :meth:`low`.

        The root's own come first, then one tuple for each of its children, in their order.
        """

        n = len(self.members)
        if self.linear:
            return ((self.first,), *((i,) for i in range(n) if i != self.first))

        # Below a vertex of the low-bit tree are its successors, up to the next child of the root.
        bounds = pairwise((0, *trees.low_children(0, n), n))

        return tuple(
            tuple((self.first + v) % n for v in range(start, end))
            for start, end in bounds
        )

    def _around(
        self, rank: int, parent: _Parent, children: _Children
    ) -> tuple[int | None, tuple[int, ...]]:
        if rank not in self.members:
            return None, ()

        root = self.members[self.first]
        if self.linear:
            # A linear root combines by ascending master number, not by vertex (IMPI 4.16).
            return (
                (root, ())
                if rank != root
                else (None, tuple(m for m in self.members if m != root))
            )

        n = len(self.members)
        # IMPI 4.11, 4.12, 4.16: the tree is rotated, so that vertex 0 is the root's client.
        v = (self.members.index(rank) - self.first) % n
        above = parent(v)
        below = tuple(
            self.members[(child + self.first) % n] for child in children(v, n)
        )

        return (
            None if above is None else self.members[(above + self.first) % n]
        ), below


def _remembered(
    make: Callable[Concatenate[Layout, P], R],
) -> Callable[Concatenate[Layout, P], R]:
    """Cache results by layout and numbers: callers of collectives mostly use few roots."""

    @wraps(make)
    def find(layout: Layout, /, *numbers: P.args, **named: P.kwargs) -> R:
        # In the layout, not in a table of this module: it goes with the communicator.
        key, memo = (make, *numbers, *named.values()), layout.memo

        found: R | None = memo.get(key)
        if found is None:
            # All at once, because the entries in use come back at the next
            # call, and no order is kept.
            if len(memo) >= _MOST:
                memo.clear()

            memo[key] = found = make(layout, *numbers, **named)

        return found

    return find


@_remembered
def across(layout: Layout, root: int, maxlinear: int) -> Team:
    """The team of the global phase: one process for each client, ``root`` for its own."""

    # The root takes its master's place, so its client needs no hop between the two (4.11).
    masters = [layout.master_rank(n) for n in range(layout.num_masters())]
    first = layout.local_master_num(root)
    masters[first] = root

    # The limit itself is linear: so 4.10, and LAM/MPI. By 2.3.5 it would be the first of the trees.
    return Team(tuple(masters), first, linear=len(masters) <= maxlinear)


@_remembered
def within(layout: Layout, rank: int, root: int) -> Team:
    """Return the team of the local phase at the client of ``rank``, around its stand-in."""
    members = layout.locals_to_rank(rank)
    # The root must have the value first where it is the source, and last where it is the sink. So
    # no other rank of its client can be at the top.
    stand_in = root if layout.are_local(rank, root) else layout.local_master_rank(rank)

    return Team(members, members.index(stand_in), linear=False)


@_remembered
def high_within(
    layout: Layout, rank: int, root: int
) -> tuple[int | None, tuple[int, ...]]:
    """Return :meth:`Team.high` of ``rank`` in its local phase."""
    return within(layout, rank, root).high(rank)


@_remembered
def low_within(
    layout: Layout, rank: int, root: int
) -> tuple[int | None, tuple[int, ...]]:
    """Return :meth:`Team.low` of ``rank`` in its local phase."""
    return within(layout, rank, root).low(rank)


class Links(NamedTuple):
    """The neighbours of one process in both phases together."""

    parent: int | None
    """Rank of the parent, at another client or at the same one; None at the root."""
    wide: tuple[int, ...]
    """Children under other clients."""
    near: tuple[int, ...]
    """Children under the same client."""


@_remembered
def high_links(layout: Layout, rank: int, root: int, maxlinear: int) -> Links:
    """The neighbours of ``rank`` for a barrier or a broadcast (IMPI 4.10, 4.11)."""
    return _join(
        across(layout, root, maxlinear).high(rank),
        high_within(layout, rank, root),
    )


@_remembered
def low_links(layout: Layout, rank: int, root: int, maxlinear: int) -> Links:
    """The neighbours of ``rank`` for a reduction (IMPI 4.16)."""
    return _join(
        across(layout, root, maxlinear).low(rank), low_within(layout, rank, root)
    )


def _join(
    wide: tuple[int | None, tuple[int, ...]], near: tuple[int | None, tuple[int, ...]]
) -> Links:
    # A process that stands in for its client has no local parent, any other no global one.
    return Links(wide[0] if wide[0] is not None else near[0], wide[1], near[1])


class Meeting(NamedTuple):
    """One round of a master on the circle of all masters: to whom it sends, from whom it hears."""

    before: int
    behind: int
    distance: int
    """Places between the master and each of both."""
    blocks: int
    """Clients whose data travels: those that the sender has and the receiver lacks."""


def rounds(n: int) -> Iterator[tuple[int, int]]:
    """Yield distance and blocks of each round of ``n`` masters: 1, 2, 4 and so on."""
    distance = 1
    while distance < n:
        # The last round brings only the blocks that are still missing.
        yield distance, min(distance, n - distance)
        distance *= 2


@_remembered
def circle(layout: Layout, rank: int) -> tuple[Meeting, ...]:
    """Return the rounds of the master of ``rank``, in which it hears of all other clients."""
    n, own = layout.num_masters(), layout.local_master_num(rank)
    # Before and behind by the same distance: what a master sends in a round is what its partner in
    # front lacks, so no round brings anything twice.
    return tuple(
        Meeting(
            layout.master_rank((own - distance) % n),
            layout.master_rank((own + distance) % n),
            distance,
            blocks,
        )
        for distance, blocks in rounds(n)
    )
