"""Processes that come later: a spawned job, and the channels between it and its parents.

IMPI 0.0 knows one job. What crosses to another one is judged apart (``impi.dissect.meetings``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import FIRST_CREATED, Case, Crossing
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

_CHILDREN: Final = 2
_OTHERS: Final = (110, 120, 130, 190)
"""Tags of the collectives by which the parents agree on what they have met."""


def _met(roster: Roster, nonce: str) -> Iterator[Crossing]:
    """The children are on the node of rank 0, the root, so what crosses are messages of others."""
    for parent in (p.rank for p in roster.ranks if p.node != roster.ranks[0].node):
        for number in range(_CHILDREN):
            child = roster.size + number
            asked = octets(nonce, f"parent/{parent}/{number}", 64)
            answer = asked + octets(nonce, f"child/{number}/{parent}", 64)
            yield Crossing(src=parent, dest=child, cid=FIRST_CREATED, tag=7, nbytes=64, payload=asked)
            yield Crossing(src=child, dest=parent, cid=FIRST_CREATED, tag=8, nbytes=128, payload=answer)


LATER_CASES: Final = (
    Case(
        "later.spawn",
        (),
        ("later",),
        2 + _CHILDREN,
        lambda _roster, _nonce: (),
        meetings=_met,
        params={"children": _CHILDREN},
        communicators=1,
        others=_OTHERS,
        options=(),  # a spawned job has none of them, and both must have one form of data
        once=True,
    ),
)
