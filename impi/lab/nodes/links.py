"""Links between nodes that are slower or worse than the lab's own, and what happened on them.

A link is given as the name of a profile (``wan``) or as settings joined by ``+``:
``delay:20ms+jitter:5ms+loss:1%+reorder:1%+rate:10mbit``. It holds for each direction, so that a
round trip takes twice the delay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from impi.base.errors import UsageError
from impi.base.units import SECOND, parse_bit_rate, parse_share, parse_time, show_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What a link does to packets of one direction; 0: nothing."""

    delay: float = 0.0  # seconds
    jitter: float = 0.0  # the delay is evenly spread by so many seconds more or less; packets stay in order
    loss: float = 0.0  # this share of the packets does not arrive
    reorder: float = 0.0  # this share of the packets overtakes those that are delayed
    rate: float = 0.0  # octets a second


PROFILES: Final[Mapping[str, LinkSettings]] = {
    "lan": LinkSettings(delay=0.0002, jitter=0.0001),
    "wan": LinkSettings(delay=0.02, jitter=0.005, rate=12_500_000.0),
    "lossy": LinkSettings(delay=0.002, loss=0.01, reorder=0.01),
    "slow": LinkSettings(delay=0.005, rate=1_250_000.0),
}
"""Links by name."""
_PARTY: Final = re.compile(r"server|c[0-9]+")
FORM: Final = "delay:20ms+jitter:5ms+loss:1%+reorder:1%+rate:10mbit"
LINK_KEYS: Final = ("delay", "jitter", "loss", "reorder", "rate")


def parse_link(text: str) -> LinkSettings:
    """The settings of a profile's name, or of a list of settings.

    Raises:
        UsageError: it is neither.
    """
    if text in PROFILES:
        return PROFILES[text]
    given: dict[str, str] = {}
    for part in text.split("+"):
        key, colon, value = part.partition(":")
        if not colon or key not in LINK_KEYS or key in given:
            raise UsageError(f"{text!r} is no link; write {', '.join(PROFILES)}, or settings such as {FORM}")
        given[key] = value
    return link_of(given)


def parse_links(text: str, nodes: Sequence[str] | None = None) -> dict[Direction, LinkSettings]:
    """The links of ``wan``, or of ``c0-c1@delay:20ms~c1-server@wan``: of two parties each.

    ``nodes``: all of the lab; None: only whether the text is one.

    Raises:
        UsageError: it is none, or the lab has no such party.
    """
    if "@" not in text:
        return dict.fromkeys(between_parties(nodes or ()), parse_link(text))
    found: dict[Direction, LinkSettings] = {}
    for part in text.split("~"):
        pair, at, settings = part.partition("@")
        parties = pair.split("-")
        if not at or len(set(parties)) != 2 or not all(map(_PARTY.fullmatch, parties)):
            raise UsageError(f"{part!r} is no link of two parties; write such as c0-c1@delay:20ms or c1-server@wan")
        link = parse_link(settings)
        if nodes is not None:
            groups = [[node for node in nodes if party_of(node) == party] for party in parties]
            if not all(groups):
                raise UsageError(f"{part!r}: the lab has no {parties[0] if not groups[0] else parties[1]}")
            found.update(dict.fromkeys(both_ways(*groups), link))
    return found


def link_of(given: Mapping[str, str]) -> LinkSettings:
    """The settings of such words by key; UsageError: one is wrong, or two contradict."""
    link = LinkSettings(
        delay=parse_time(given.get("delay", "0")) / SECOND,
        jitter=parse_time(given.get("jitter", "0")) / SECOND,
        loss=parse_share(given.get("loss", "0%")),
        reorder=parse_share(given.get("reorder", "0%")),
        rate=float(parse_bit_rate(given["rate"])) if "rate" in given else 0.0,
    )
    if link.jitter > link.delay:
        raise UsageError(f"a jitter of {given['jitter']} needs a delay as long at least")
    if link.reorder and not link.delay:
        raise UsageError("reorder needs a delay: nothing can be overtaken without one")
    if link.loss == 1.0:
        raise UsageError("a loss of 100% is a partition; write fault=partition@PHASE")
    return link


def show_link(link: LinkSettings) -> str:
    """The settings in words."""
    parts = [f"delay {link.delay * 1e3:g} ms"] if link.delay else []
    parts += [f"jitter {link.jitter * 1e3:g} ms"] if link.jitter else []
    parts += [f"{name} {share:.3g} %" for name in ("loss", "reorder") if (share := 100 * getattr(link, name))]
    parts += [f"rate {show_rate(round(link.rate))}"] if link.rate else []
    return ", ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSeen:
    """One direction of a link: what was asked for, and what happened by the counters of both."""

    source: str
    target: str
    asked: LinkSettings
    matched: int = 0  # packets that the kernel gave to the queue
    arrived: int = 0  # packets that the queue got
    passed: int = 0
    lost: int = 0  # packets dropped for the loss
    overflowed: int = 0  # packets dropped because the rate left no room
    overtook: int = 0  # packets that overtook others
    mean: float = 0.0  # seconds that a packet was held
    shortest: float = 0.0
    longest: float = 0.0

    def __str__(self) -> str:
        share = f" ({100 * self.lost / self.arrived:.2f} %)" if self.lost else ""
        return (
            f"{self.source} -> {self.target}: {show_link(self.asked)}; {self.arrived} packets,"
            f" held {self.mean * 1e3:.2f} ms ({self.shortest * 1e3:.2f} to {self.longest * 1e3:.2f}),"
            f" {self.lost} lost{share}, {self.overtook} overtook, {self.overflowed} found no room"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSeen:
    """One direction that is cut: packets that the kernel has refused, by its own count."""

    source: str
    target: str
    how: str  # ``drop`` or ``reset``
    refused: int

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}: {self.how}, {self.refused} packets refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSeen:
    """A node behind a gateway: packets that the gateway has forwarded, by the kernel's count."""

    node: str
    gateway: str
    out: int
    back: int  # those for the node
    translated: int = 0  # connections for which the gateway's address took the place of the node's

    def __str__(self) -> str:
        more = f", {self.translated} connections by its own address" if self.translated else ""
        return f"{self.node} by {self.gateway}: {self.out} packets out, {self.back} back{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSeen:
    """All that was done to packets since the last :meth:`Network.clear`."""

    links: tuple[LinkSeen, ...] = ()
    cuts: tuple[CutSeen, ...] = ()
    routes: tuple[RouteSeen, ...] = ()
    second: tuple[str, ...] = ()  # nodes that have a second address
    overrun: int = 0  # packets that the kernel dropped because our queue was too slow: nobody asked for that


Direction = tuple[str, str]
"""(from, to): names of nodes."""


class Network(Protocol):
    """The network of a lab; LabError: the lab cannot do it."""

    def set_links(self, links: Mapping[Direction, LinkSettings]) -> None:
        """From now on these directions are so; others stay as they are."""

    def prepare(self, nodes: Sequence[str]) -> None:
        """Make ready what takes time, for changes of what these nodes receive."""

    def cut(self, directions: Sequence[Direction], how: str) -> None:
        """``drop`` packets of these directions, ``reset`` connections, or refuse only ``syn``.

        ``direct``: what has come by no gateway.
        """

    def route(self, via: Mapping[Direction, str], behind: Mapping[str, Sequence[str]], translated: bool) -> None:
        """From now on, what goes in these directions goes through a gateway each.

        ``behind``: the nodes behind each gateway; ``translated``: by its own address.
        """

    def add_second(self, nodes: Sequence[str], known_to: Sequence[str] = ()) -> None:
        """Give each a second address, on a network that leads nowhere.

        ``known_to``: nodes that reach it all the same, by the first address.
        """

    def heal(self, directions: Sequence[Direction], how: str) -> None:
        """The contrary of :meth:`cut`."""

    def seen(self) -> NetworkSeen:
        """What has happened so far."""

    def clear(self) -> None:
        """All is as in the beginning, and the counters are gone."""

    def kill(self, node: str) -> bool:
        """End a node and all its processes for good; whether it is gone. The lab lacks it then."""

    def freeze(self, node: str) -> None:
        """Stop all processes of a node; its kernel goes on, and answers at TCP."""

    def thaw(self, node: str) -> bool:
        """Let them go on; whether they were stopped until now."""


def both_ways(ones: Sequence[str], others: Sequence[str]) -> list[Direction]:
    """All directions between two groups of nodes."""
    return [pair for one in ones for other in others for pair in ((one, other), (other, one))]


def between_parties(nodes: Sequence[str]) -> list[Direction]:
    """All directions between nodes of different clients, and those from and to the server."""
    return [(a, b) for a in nodes for b in nodes if party_of(a) != party_of(b)]


def party_of(node: str) -> str:
    """``c1`` of ``c1n0``; the server is one of its own."""
    return node.partition("n")[0] if node != "server" else node
