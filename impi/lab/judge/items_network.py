"""Evidence that links were as bad as the variant says.

:func:`links` holds the counts of the kernel against those of the link's own queue. Private
functions return what speaks against one setting; empty: nothing does.
"""

from __future__ import annotations

from typing import Final

from impi.lab.judge.cell_facts import Facts, Failed, failing
from impi.lab.nodes.links import LinkSeen, NetworkSeen, show_link

# a packet held for this share of the least delay counts as delayed: the clock is read twice
_NEAR: Final = 0.9


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
    # A variant of the network proves nothing if its queue carried no packet.
    if not any(link.arrived for link in seen):
        return "nothing came over them" if seen else "no link was changed"

    return next(filter(None, map(_untouched, seen)), "") or _nothing_lost(seen)


def _alone(facts: Facts, seen: NetworkSeen) -> str:
    alone = [name for name in facts.seen.nodes.addresses if name not in seen.second]
    return f"{alone[0]} has no second address" if alone else ""


def _untouched(link: LinkSeen) -> str:
    where = f"{link.source} -> {link.target} ({show_link(link.asked)})"
    # Packets that the kernel handed over must come to the queue. A
    # tenth may be missing, as the two counts need not be of one moment.
    if (
        link.matched > link.arrived + link.overflowed
        and link.matched - link.arrived > link.matched // 10
    ):
        return f"{where}: of {link.matched} packets {link.arrived} came to the queue"

    least = _NEAR * (link.asked.delay - link.asked.jitter)
    # A packet that overtakes others goes on at once, so with reordering
    # the shortest time says nothing.
    if link.passed > link.overtook and not link.asked.reorder and link.shortest < least:
        return f"{where}: a packet was held for {link.shortest * 1e3:.2f} ms only"

    if (
        # The mean catches what the minimum cannot: with reordering some packets
        # pass at once. Jitter may lower the mean by its whole width at most.
        link.passed
        and link.mean
        < _NEAR * link.asked.delay * (1 - 2 * link.asked.reorder) - link.asked.jitter
    ):
        return f"{where}: packets were held for {link.mean * 1e3:.2f} ms only"

    return ""


def _opened(seen: NetworkSeen) -> str:
    # A closed way must have refused a connection, or no process tried it and
    # the cell shows nothing.
    opened = next((cut for cut in seen.cuts if not cut.refused), None)
    if opened is not None:
        return f"{opened.source} reached {opened.target}"

    return "" if seen.cuts else "no connection was closed"


def _unrouted(reach: str, seen: NetworkSeen) -> str:
    if reach not in ("routed", "nat"):
        return ""

    # A route counts once packets went out and came back over it.
    idle = next(
        (route for route in seen.routes if not (route.out and route.back)), None
    )
    idle = idle or next(
        (route for route in seen.routes if reach == "nat" and not route.translated),
        None,
    )

    return (
        str(idle) if idle else "" if seen.routes else "no node was put behind another"
    )


def _nothing_lost(seen: tuple[LinkSeen, ...]) -> str:
    arrived = sum(link.arrived for link in seen)
    # A link that carries few packets may lose none. All links together
    # must have lost some.
    if any(link.asked.loss for link in seen) and not any(link.lost for link in seen):
        return f"none of {arrived} packets was lost"

    if any(link.asked.reorder for link in seen) and not any(
        link.overtook for link in seen
    ):
        return f"none of {arrived} packets overtook another"

    return ""
