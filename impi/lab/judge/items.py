"""The items of evidence, each examined separately: identity, placement, start-up, traffic, end.

An item without support is *not* fulfilled: an event without evidence did not happen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from impi.lab.judge import (
    items_end,
    items_fault,
    items_identity,
    items_network,
    items_own,
    items_start,
)
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
    "end.code": items_own.code,
    "end.status": items_end.status,
    "end.labels": items_own.labels,
    "end.output": items_own.output,
    "end.fini": items_end.fini,
    "end.leftovers": items_end.leftovers,
    "end.secret": items_end.secret,
    "traffic.sealed": items_end.sealed,
    "traffic.capture": items_end.capture,
    "network.links": items_network.links,
}
"""Every item in the order of causes: the first unfulfilled one says why the job failed.

Faults on the wire come before the ranks' own checks: their sender made them. If the wire is right
and a rank's check is not, the rank is to blame.
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
        "traffic.sealed",
        "traffic.capture",
    }
)
"""Items that rest on captures only."""

OF_TLS: Final = frozenset({"traffic.sealed", "traffic.capture"})
"""Items of a job in TLS that rest on captures: no other can read them."""

OF_THE_LAB: Final = frozenset({"network.links", "fault.happened"})
"""Items of the lab's own acts on the job: without them a cell shows nothing."""

AFTER_A_FAULT: Final = frozenset(
    {
        *(
            "start.server",
            "fault.happened",
            "identity.library",
            "identity.source",
            "identity.world",
            "placement",
        ),
        *("end.status", "end.leftovers", "traffic.capture", "network.links"),
    }
)
"""Items of a cell whose fault must end the job: how far it came before is a matter of time."""


OF_A_HIT: Final = frozenset(
    {"start.server", "fault.happened", "fault.ended", "fault.named", "end.leftovers"}
)
"""Items of a cell of the fault matrix whose job must end."""

OF_A_HARMLESS_HIT: Final = frozenset(
    {
        *(
            "start.server",
            "fault.happened",
            "identity.library",
            "identity.source",
            "identity.world",
            "placement",
        ),
        *(
            "traffic.protocol",
            "end.checks",
            "end.status",
            "end.leftovers",
            "traffic.capture",
        ),
    }
)
"""Items of a cell of the fault matrix whose job must go on unharmed."""

OF_A_CODE: Final = frozenset(
    {
        *(
            "start.server",
            "identity.library",
            "identity.source",
            "identity.world",
            "placement",
            "end.code",
        ),
        *(
            "end.output",
            "end.leftovers",
            "end.secret",
            "traffic.capture",
            "network.links",
        ),
    }
)
"""Items of a user's program that ends with another exit code than 0, wherever it leaves the job."""

OF_A_REFUSAL: Final = OF_THE_LAB | {
    "start.server",
    "start.refused",
    "end.leftovers",
    "end.secret",
    "traffic.capture",
}
"""Items of a job that must not begin."""

_OF_A_FAULT: Final = ("start.refused", "fault.ended", "fault.named")


def examine_items(facts: Facts) -> list[Item]:
    """Yield all items; without captures only those that need none."""
    return [
        replace(next(ITEMS[name](facts), _FULFILLED), name=name)
        for name in ITEMS
        if _is_asked(facts, name) and (facts.seen.captures or name not in FROM_WIRE)
    ]


def _is_asked(facts: Facts, name: str) -> bool:
    """Whether a job with such an end is asked for this item."""

    sealed = facts.settings.get("auth") == "tls"
    if name in FROM_WIRE and sealed != (name in OF_TLS) and name != "traffic.capture":
        return False

    if facts.ends.refused is not None:
        return name in OF_A_REFUSAL

    if facts.case.own is not None:
        return (
            name in OF_A_CODE
            if facts.conditions.exit_code
            else name not in (*_OF_A_FAULT, "end.code")
        )

    fault = facts.fault
    if fault is not None and fault.in_matrix:
        return name in (OF_A_HARMLESS_HIT if fault.what.harmless else OF_A_HIT)

    if fault is not None and not fault.what.harmless:
        return name in AFTER_A_FAULT

    return name not in (*_OF_A_FAULT, "end.code", "end.output")
