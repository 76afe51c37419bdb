"""The items of evidence, each examined separately: identity, placement, start-up, traffic, end.

An item without support is *not* fulfilled: an event without evidence did not happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.testbed.judge import items_end, items_start
from impi.testbed.judge.cell_facts import Facts, Failed, Item

_Examiner = Callable[[Facts, str], Failed]

ITEMS: Final[dict[str, _Examiner]] = {
    "start.server": items_start.server,
    "identity.library": items_start.library,
    "identity.source": items_start.source,
    "identity.world": items_start.world,
    "placement": items_start.placement,
    "start.reach": items_start.reach,
    "start.auth": items_start.auth,
    "start.mesh": items_start.mesh,
    "start.ranks": items_start.ranks,
    "identity.pid": items_start.pid,
    "end.checks": items_end.checks,
    "identity.counter": items_end.counter,
    "traffic.crossing": items_end.crossing,
    "traffic.payload": items_end.payload,
    "traffic.protocol": items_end.protocol,
    "end.status": items_end.status,
    "end.fini": items_end.fini,
    "end.leftovers": items_end.leftovers,
    "traffic.capture": items_end.capture,
}
"""Every item in the order of causes: the first that is not fulfilled says why the job failed."""

FROM_WIRE: Final = frozenset(
    {
        "start.reach",
        "start.auth",
        "start.mesh",
        "identity.pid",
        "traffic.crossing",
        "traffic.payload",
        "traffic.protocol",
        "end.fini",
        "traffic.capture",
    }
)
"""Items that rest on captures alone."""


def examine_items(facts: Facts) -> list[Item]:
    """All items; without those that rest on captures where the backend has none."""
    items = []
    for name, examiner in ITEMS.items():
        if facts.seen.captures or name not in FROM_WIRE:
            items.append(next(examiner(facts, name), None) or Item(name=name, ok=True))
    return items
