"""Reduction among any number of vertices by halving buffers, with 3-2 elimination.

How it works, after Rabenseifner and Traeff (EuroPVM/MPI 2004), with their overlapping protocol:
vertices stand in groups whose members hold the same partial result, each a part of it or all. In
every round two neighbouring groups merge: the i-th members of both meet, and each goes on with half
of the data (or all, once it is small). With an odd number of groups the first *three* merge: the
i-th member of the third gives its data to the other two and drops out. The first of a triple joins
one message later than the others, so the group that was late in one round is the one that may be
late in the next.

:func:`meetings` computes the schedule, which depends only on n. ``_reduce`` runs it forwards and
keeps a record of each meeting; the way back reverses the records, to vertex 0 or to all vertices.
:mod:`.tuned_reduce` calls this module for the processes that stand in for their clients.

Cost: ceil(log2 n) + 1 rounds for small buffers (log2 n for a power of two), twice as many for large
ones to everybody. A vertex sends less than 3 m octets and combines less than 3/2 m, for any n; m =
octets of a value. Invariant: partial results are combined in the order of the vertices, with one
bracketing for all elements.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from impi.base.records import record
from impi.protocol.collectives.reduction import Elements, Reduction
from impi.protocol.collectives.steps import Algorithm, Recv, Send
from impi.protocol.collectives.tags import REDUCE_TAG

V = TypeVar("V")


def meetings(n: int, vertex: int) -> list[tuple[tuple[int, ...], int]]:
    """Return the meetings of ``vertex``, one per round: its two or three members, and its place."""

    # Members of a group hold the same partial result, in parts or whole; neighbours in the list
    # hold results of neighbouring vertices. So operands stay in order whatever merges.
    groups = [[v] for v in range(n)]

    found = []
    while len(groups) > 1:
        merged = []

        start = 0
        while start < len(groups):
            # Only the first three merge as a triple: that group is the one late by a message, and
            # it stays at the low end, where the next round may have a triple again.
            together = groups[
                start : start + (3 if start == 0 and len(groups) % 2 else 2)
            ]

            start += len(together)
            # All groups have 2^k members after k rounds, so each member finds
            # its partner by position.
            for members in zip(*together, strict=True):
                if vertex in members:
                    found.append((members, members.index(vertex)))

            # The third of three is left out from here on.
            merged.append(
                [v for pair in zip(together[0], together[1], strict=True) for v in pair]
            )

        groups = merged

    return found


@record(frozen=False)
class _Round:
    """A record of one meeting, for the way back."""

    members: tuple[int, ...]
    place: int
    halved: bool


@record(frozen=False)
class _Held(Generic[V]):
    """The part of the result that a vertex holds."""

    value: V
    fresh: bool
    """Whether it may be changed in place."""


def reduce_to_all(
    vertices: tuple[int, ...],
    vertex: int,
    value: V,
    reduction: Reduction[V],
    *,
    threshold: int,
    fresh: bool = False,
) -> Algorithm[V]:
    """Every vertex returns the reduction of all values, in the order of the vertices.

    Args:
        vertices: their ranks.
        vertex: the caller's index among them.
        value: the caller's; stays as it is unless ``fresh``.
        reduction: how two values become one; it has ``elements``.
        threshold: octets; a buffer of more is halved.
        fresh: whether ``value`` may be changed.
    """

    # Halves would go there and back, two hops; whole values cross in one.
    if len(vertices) == 2 and _elements(reduction).nbytes(value) <= threshold:
        return _allreduce_by_swap(vertices, vertex, value, reduction, fresh=fresh)

    return _allreduce_by_halves(
        vertices, vertex, _Held(value, fresh), reduction, threshold
    )


def _allreduce_by_halves(
    vertices: tuple[int, ...],
    vertex: int,
    held: _Held[V],
    reduction: Reduction[V],
    threshold: int,
) -> Algorithm[V]:
    # The way back undoes the halvings in reverse order: after each meeting its members hold again
    # all that they held together before it.
    rounds = yield from _reduce(vertices, vertex, held, reduction, threshold)

    elements = _elements(reduction)
    while rounds:
        held.value = yield from _put_together(
            vertices, rounds.pop(), held.value, elements
        )

    return held.value


def _allreduce_by_swap(
    vertices: tuple[int, ...],
    vertex: int,
    own: V,
    reduction: Reduction[V],
    *,
    fresh: bool,
) -> Algorithm[V]:
    """Two vertices exchange their whole values, and both combine them in the vertices' order."""
    other = vertices[1 - vertex]
    # The received value becomes the result, so it may arrive in the result's place.
    [theirs] = yield [Recv(other, REDUCE_TAG, whole=True), Send(other, own, REDUCE_TAG)]

    return (
        _theirs_first(theirs, own, reduction, fresh=fresh)
        if vertex
        else reduction.combine(own, theirs)
    )


def reduce_to_first(
    vertices: tuple[int, ...],
    vertex: int,
    value: V,
    reduction: Reduction[V],
    *,
    threshold: int,
    fresh: bool = False,
) -> Algorithm[V | None]:
    """Reduce like :func:`reduce_to_all`; vertex 0 returns the reduction, the others None."""

    held = _Held(value, fresh)

    rounds = yield from _reduce(vertices, vertex, held, reduction, threshold)
    while rounds:
        meeting = rounds.pop()

        # Backwards, and only downwards: of each meeting the first member takes all, and the others
        # are done. The third of a triple left its part with the first two.
        first, second = (vertices[v] for v in meeting.members[:2])
        if meeting.place == 0 and meeting.halved:
            [upper] = yield [Recv(second, REDUCE_TAG)]
            held.value = _elements(reduction).join([held.value, upper])
        elif meeting.place == 1 and meeting.halved:
            yield [Send(first, held.value, REDUCE_TAG)]

        if meeting.place > 0:
            return None

    return held.value


def _elements(reduction: Reduction[V]) -> Elements[V]:
    assert reduction.elements is not None, "values without elements cannot be cut"
    return reduction.elements


def _reduce(
    vertices: tuple[int, ...],
    vertex: int,
    held: _Held[V],
    reduction: Reduction[V],
    threshold: int,
) -> Algorithm[list[_Round]]:
    elements = _elements(reduction)

    rounds = []
    for members, place in meetings(len(vertices), vertex):
        # All members of a meeting hold as many elements, so all decide alike without a word.
        count = elements.count(held.value)
        halved = count > 1 and count * elements.octets > threshold
        # Both ends cut by the same formula, so the lengths of the halves need not travel.
        middle = count // 2
        lower = elements.part(held.value, 0, middle) if halved else held.value
        upper = elements.part(held.value, middle, count) if halved else held.value

        ranks = tuple(vertices[v] for v in members)
        if len(members) == 2:
            yield from _pair(ranks, place, held, (lower, upper), reduction)
        else:
            yield from _triple(ranks, place, held, (lower, upper), reduction)

        rounds.append(_Round(members, place, halved))

    return rounds


def _combine_held_first(
    held: _Held[V], own: V, theirs: V, reduction: Reduction[V]
) -> None:
    """Combine with the held value first."""
    held.value, held.fresh = reduction.combine(own, theirs), True


def _combine_held_last(
    held: _Held[V], theirs: V, own: V, reduction: Reduction[V]
) -> None:
    """Combine with the held value last."""
    held.value, held.fresh = (
        _theirs_first(theirs, own, reduction, fresh=held.fresh),
        True,
    )


def _theirs_first(theirs: V, own: V, reduction: Reduction[V], *, fresh: bool) -> V:
    """Combine a received value with one behind it, which stays as it is unless ``fresh``."""
    # Three places for the result: the own value, theirs, or a copy of the own.
    if fresh:
        return reduction.combine(theirs, own)

    if reduction.onto is not None:
        return reduction.onto(theirs, own)

    return reduction.combine(theirs, reduction.copy(own))


def _pair(
    ranks: tuple[int, ...],
    place: int,
    held: _Held[V],
    parts: tuple[V, V],
    reduction: Reduction[V],
) -> Algorithm[None]:
    lower, upper = parts
    if place == 0:
        # Each gives away the half that the other goes on with, or all if it is small.
        [theirs] = yield [Recv(ranks[1], REDUCE_TAG), Send(ranks[1], upper, REDUCE_TAG)]
        _combine_held_first(held, lower, theirs, reduction)
    else:
        [theirs] = yield [Recv(ranks[0], REDUCE_TAG), Send(ranks[0], lower, REDUCE_TAG)]
        _combine_held_last(held, theirs, upper, reduction)


def _triple(
    ranks: tuple[int, ...],
    place: int,
    held: _Held[V],
    parts: tuple[V, V],
    reduction: Reduction[V],
) -> Algorithm[None]:
    (p0, p1, p2), (lower, upper) = ranks, parts
    if place == 0:
        # p2 has combined p1's lower half with its own before it sends, so the order of the
        # operands, p0 (p1 p2), stays that of the vertices.
        [theirs] = yield [Recv(p2, REDUCE_TAG), Send(p1, upper, REDUCE_TAG)]
        _combine_held_first(held, lower, theirs, reduction)
    elif place == 1:
        [theirs] = yield [Recv(p2, REDUCE_TAG), Send(p2, lower, REDUCE_TAG)]
        _combine_held_first(held, upper, theirs, reduction)
        [theirs] = yield [Recv(p0, REDUCE_TAG)]
        _combine_held_last(held, theirs, held.value, reduction)
    else:
        [theirs] = yield [Recv(p1, REDUCE_TAG), Send(p1, upper, REDUCE_TAG)]
        _combine_held_last(held, theirs, lower, reduction)
        yield [Send(p0, held.value, REDUCE_TAG)]


def _put_together(
    vertices: tuple[int, ...], meeting: _Round, own: V, elements: Elements[V]
) -> Algorithm[V]:
    """Return the combined value of a meeting, put together from the parts of its members."""

    ranks = tuple(vertices[v] for v in meeting.members)
    if len(ranks) == 3:
        return (yield from _back_to_three(ranks, meeting, own, elements))

    # Nothing was split, so both left the meeting with all of it.
    if not meeting.halved:
        return own

    other = ranks[1 - meeting.place]
    [theirs] = yield [Recv(other, REDUCE_TAG), Send(other, own, REDUCE_TAG)]

    return elements.join([own, theirs] if meeting.place == 0 else [theirs, own])


def _back_to_three(
    ranks: tuple[int, ...], meeting: _Round, own: V, elements: Elements[V]
) -> Algorithm[V]:
    p0, p1, p2 = ranks
    if not meeting.halved:
        if meeting.place == 1:
            yield [Send(p2, own, REDUCE_TAG)]
        elif meeting.place == 2:
            [own] = yield [Recv(p1, REDUCE_TAG)]

        return own

    # As on the way there, backwards: each sends and receives one part at a time.
    if meeting.place == 0:
        [upper] = yield [Recv(p1, REDUCE_TAG), Send(p2, own, REDUCE_TAG)]
        return elements.join([own, upper])

    if meeting.place == 1:
        yield [Send(p0, own, REDUCE_TAG)]
        [lower] = yield [Recv(p2, REDUCE_TAG), Send(p2, own, REDUCE_TAG)]
        return elements.join([lower, own])

    [lower] = yield [Recv(p0, REDUCE_TAG)]
    [upper] = yield [Recv(p1, REDUCE_TAG), Send(p1, lower, REDUCE_TAG)]

    return elements.join([lower, upper])
