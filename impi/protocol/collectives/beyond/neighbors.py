"""Neighbourhood collectives (MPI 4.1, 8.6), not in IMPI: one message along every edge, all at once.

A process may be its own neighbour, and two may be neighbours several times; PROC_NULL is at the rim
of a grid. Messages of one pair with one tag are matched in the order of the edges. Where that would
mix up edges (a periodic dimension of one or two), every edge has its own tag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from impi.base.records import record
from impi.protocol.collectives.steps import Algorithm, Recv, Send, Step
from impi.protocol.collectives.tags import NEIGHBOR_TAG


@record
class Edges:
    """The edges of one process; a rank below 0 is not a process."""

    sources: Sequence[int]
    destinations: Sequence[int]
    source_labels: Sequence[int] | None = None
    """Labels that tell the incoming edges apart; None if their order does."""
    destination_labels: Sequence[int] | None = None
    """The label of each outgoing edge at its other end."""


def exchange(rank: int, edges: Edges, pieces: Sequence[Any]) -> Algorithm[list[Any]]:
    """Send a piece along every outgoing edge; return one from each incoming edge, None at a rim."""

    steps: list[Step] = []
    own: dict[int, deque[Any]] = {}
    slots: list[int] = []

    result: list[Any] = [None] * len(edges.sources)
    for piece, dest, label in zip(
        pieces, edges.destinations, _labels(edges.destination_labels), strict=False
    ):
        # Messages to oneself do not travel: they are set aside, for the incoming edges below.
        if dest == rank:
            own.setdefault(label, deque()).append(piece)

    for slot, (source, label) in enumerate(
        zip(edges.sources, _labels(edges.source_labels), strict=False)
    ):
        if source == rank:
            result[slot] = own[label].popleft()
        # All receives stand before all sends, so that no neighbour waits for this process's order.
        elif source >= 0:
            slots.append(slot)
            steps.append(Recv(source, NEIGHBOR_TAG + label))

    for piece, dest, label in zip(
        pieces, edges.destinations, _labels(edges.destination_labels), strict=False
    ):
        if dest >= 0 and dest != rank:
            steps.append(Send(dest, piece, NEIGHBOR_TAG + label))

    if steps:
        for slot, value in zip(slots, (yield steps), strict=True):
            result[slot] = value

    return result


def _labels(labels: Sequence[int] | None) -> Iterable[int]:
    return repeat(0) if labels is None else labels
