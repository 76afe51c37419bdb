"""The messages between clients in collectives on which our clients agree, beyond chapter 4.

Written from docs/decisions/tuned-algorithms.md alone, as :mod:`.group_messages` is from the
clauses: no judged code is imported.

n masters stand on a circle, by their numbers. In a round of distance d = 1, 2, 4, ... below n each
sends to the one d places before it: in a barrier nothing, in an allgather the pieces of its own
client and of the next ones behind it, as many as the receiver lacks and the sender has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import Combine, Group, Messages


def barrier(g: Group) -> Messages:
    """Yield the messages of a barrier: every master to others, without data."""
    n = len(g.masters)
    for distance in _distances(n):
        for number, master in enumerate(g.masters):
            yield from g.say(
                master, g.masters[(number - distance) % n], Tag.BARRIER, b""
            )


def allgather(g: Group, parts: Sequence[bytes]) -> Messages:
    """Yield an allgather: every master sends pieces of some clients, each client's by rank."""
    n = len(g.masters)

    blocks = [
        b"".join(parts[rank] for rank in range(g.size) if g.number[rank] == number)
        for number in range(n)
    ]
    for distance in _distances(n):
        for number, master in enumerate(g.masters):
            sent = [
                blocks[(number + i) % n] for i in range(min(distance, n - distance))
            ]
            yield from g.say(
                master, g.masters[(number - distance) % n], Tag.GATHER, b"".join(sent)
            )


def allreduce(g: Group, parts: Sequence[bytes], combine: Combine) -> Messages:
    """Yield an allreduce of two clients: each master sends its client's reduction to the other."""
    for number, master in enumerate(g.masters):
        first, *others = (
            parts[rank] for rank in range(g.size) if g.number[rank] == number
        )
        for part in others:
            first = combine(first, part)

        yield from g.say(master, g.masters[1 - number], Tag.REDUCE, first)


def _distances(n: int) -> Iterator[int]:
    distance = 1
    while distance < n:
        yield distance
        distance *= 2
