"""The items of evidence, each examined separately: identity, placement, start-up, traffic, end.

An item without support is *not* fulfilled: an event without evidence did not happen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from impi.lab.judge import items_end, items_fault, items_identity, items_network, items_start
from impi.lab.judge.cell_facts import Examiner, Facts, Item

_FULFILLED: Final = Item(name="", ok=True)
ITEMS: Final[dict[str, Examiner]] = {
    "start.server": items_start.server,
    "start.refused": items_end.refused,
    "fault.happened": items_fault.happened,
    "fault.ended": items_fault.ended,
    "fault.named": items_fault.named,
    "start.protocol": items_start.protocol,
    "identity.library": items_start.library,
    "identity.source": items_start.source,
    "identity.launcher": items_identity.launcher,
    "identity.transport": items_identity.transport,
    "identity.world": items_start.world,
    "placement": items_start.placement,
    "start.reach": items_start.reach,
    "start.auth": items_start.auth,
    "start.mesh": items_start.mesh,
    "start.address": items_identity.address,
    "start.ranks": items_start.ranks,
    "identity.pid": items_start.pid,
    "traffic.protocol": items_end.protocol,
    "traffic.payload": items_end.payload,
    "traffic.header": items_end.header,
    "traffic.extra": items_end.extra,
    "end.checks": items_end.checks,
    "identity.counter": items_end.counter,
    "traffic.crossing": items_end.crossing,
    "end.silence": items_end.silence,
    "end.loss": items_end.told,
    "end.status": items_end.status,
    "end.fini": items_end.fini,
    "end.leftovers": items_end.leftovers,
    "end.secret": items_end.secret,
    "traffic.capture": items_end.capture,
    "network.links": items_network.links,
}
"""Every item in the order of causes: the first that is not fulfilled says why the job failed.

What is wrong on the wire comes before the ranks' own checks: the sender made it so. What is right
there and wrong at a rank is that rank's.
"""

FROM_WIRE: Final = frozenset(
    {
        "start.protocol",
        "start.reach",
        "start.address",
        "start.auth",
        "start.mesh",
        "identity.pid",
        "traffic.crossing",
        "traffic.extra",
        "traffic.header",
        "traffic.payload",
        "traffic.protocol",
        "end.silence",
        "end.loss",
        "end.fini",
        "traffic.capture",
    }
)
"""Items that rest on captures alone."""

OF_THE_LAB: Final = frozenset({"network.links", "fault.happened"})
"""Items of what the lab itself has to do to the job: without them a cell shows nothing."""

AFTER_A_FAULT: Final = frozenset(
    {
        *("start.server", "fault.happened", "identity.library", "identity.source", "identity.world", "placement"),
        *("end.status", "end.leftovers", "traffic.capture", "network.links"),
    }
)
"""Items of a cell whose fault must end the job: how far it came before is a matter of time."""


OF_A_HIT: Final = frozenset({"start.server", "fault.happened", "fault.ended", "fault.named", "end.leftovers"})
"""Items of a cell of the fault matrix whose job must end."""

OF_A_HARMLESS_HIT: Final = frozenset(
    {
        *("start.server", "fault.happened", "identity.library", "identity.source", "identity.world", "placement"),
        *("traffic.protocol", "end.checks", "end.status", "end.leftovers", "traffic.capture"),
    }
)
"""Items of a cell of the fault matrix whose job must go on unharmed."""

OF_A_REFUSAL: Final = OF_THE_LAB | {"start.server", "start.refused", "end.leftovers", "end.secret", "traffic.capture"}
"""Items of a job that must not begin."""


def examine_items(facts: Facts) -> list[Item]:
    """All items; without those that rest on captures where the backend has none."""
    return [
        replace(next(ITEMS[name](facts), _FULFILLED), name=name)
        for name in ITEMS
        if _is_asked(facts, name) and (facts.seen.captures or name not in FROM_WIRE)
    ]


def _is_asked(facts: Facts, name: str) -> bool:
    """Whether a job of such an end is asked for this item."""
    if facts.ends.refused is not None:
        return name in OF_A_REFUSAL
    fault = facts.fault
    if fault is not None and fault.in_matrix:
        return name in (OF_A_HARMLESS_HIT if fault.what.harmless else OF_A_HIT)
    if fault is not None and not fault.what.harmless:
        return name in AFTER_A_FAULT
    return name not in ("start.refused", "fault.ended", "fault.named")
