"""Evidence that links were as bad as the variant says.

Private functions return what speaks against that in one respect; empty: nothing does.
"""

from __future__ import annotations

from typing import Final

from impi.lab.judge.cell_facts import Facts, Failed, failing
from impi.lab.nodes.links import LinkSeen, NetworkSeen, show_link

_NEAR: Final = 0.9  # a packet that waited for so much of the least delay was delayed: one clock is read twice


def links(facts: Facts) -> Failed:
    """Each link carried packets, and delay, loss and reordering happened, by two counts."""
    seen = facts.seen.lab.network
    if seen is None:
        return
    settings = facts.settings
    actual = _unchanged(seen.links) if "net" in settings else ""
    if settings.get("ip") == "two":
        actual = actual or _alone(facts, seen)
    if "reach" in settings:
        actual = actual or _opened(seen) or _unrouted(settings["reach"], seen)
    if actual:
        yield failing("links as asked for", actual, "down", "lab")


def _unchanged(seen: tuple[LinkSeen, ...]) -> str:
    if not any(link.arrived for link in seen):
        return "nothing came over them" if seen else "no link was changed"
    return next(filter(None, map(_untouched, seen)), "") or _nothing_lost(seen)


def _alone(facts: Facts, seen: NetworkSeen) -> str:
    alone = [name for name in facts.seen.nodes.addresses if name not in seen.second]
    return f"{alone[0]} has no second address" if alone else ""


def _untouched(link: LinkSeen) -> str:
    where = f"{link.source} -> {link.target} ({show_link(link.asked)})"
    if link.matched > link.arrived + link.overflowed and link.matched - link.arrived > link.matched // 10:
        return f"{where}: of {link.matched} packets {link.arrived} came to the queue"
    least = _NEAR * (link.asked.delay - link.asked.jitter)
    if link.passed > link.overtook and not link.asked.reorder and link.shortest < least:
        return f"{where}: a packet was held for {link.shortest * 1e3:.2f} ms only"
    if link.passed and link.mean < _NEAR * link.asked.delay * (1 - 2 * link.asked.reorder) - link.asked.jitter:
        return f"{where}: packets were held for {link.mean * 1e3:.2f} ms only"
    return ""


def _opened(seen: NetworkSeen) -> str:
    opened = next((cut for cut in seen.cuts if not cut.refused), None)
    if opened is not None:
        return f"{opened.source} reached {opened.target}"
    return "" if seen.cuts else "no way was closed"


def _unrouted(reach: str, seen: NetworkSeen) -> str:
    if reach not in ("routed", "nat"):
        return ""
    idle = next((route for route in seen.routes if not (route.out and route.back)), None)
    idle = idle or next((route for route in seen.routes if reach == "nat" and not route.translated), None)
    return str(idle) if idle else "" if seen.routes else "no node was put behind another"


def _nothing_lost(seen: tuple[LinkSeen, ...]) -> str:
    arrived = sum(link.arrived for link in seen)
    if any(link.asked.loss for link in seen) and not any(link.lost for link in seen):
        return f"none of {arrived} packets was lost"
    if any(link.asked.reorder for link in seen) and not any(link.overtook for link in seen):
        return f"none of {arrived} packets overtook another"
    return ""
