"""Links between nodes that are slower or worse than the lab's own, and what happened on them.

A link is given as the name of a profile (``wan``) or as settings joined by ``+``:
``delay:20ms+jitter:5ms+loss:1%+reorder:1%+rate:10mbit``. It holds for each direction, so that a
round trip takes twice the delay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from impi.base.errors import UsageError
from impi.base.units import SECOND, parse_bit_rate, parse_share, parse_time, show_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The settings of a link in one direction; 0: no change."""

    delay: float = 0.0  # seconds
    # the delay is evenly spread by up to this many seconds more or less, in order
    jitter: float = 0.0
    loss: float = 0.0  # this share of the packets is lost
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
    """Return the settings of a profile's name, or of a list of settings.

    Raises:
        UsageError: it is neither.
    """

    if text in PROFILES:
        return PROFILES[text]

    given: dict[str, str] = {}
    for part in text.split("+"):
        key, colon, value = part.partition(":")
        if not colon or key not in LINK_KEYS or key in given:
            raise UsageError(
                f"{text!r} is not a link; write {', '.join(PROFILES)}, or settings such as {FORM}"
            )

        given[key] = value

    return link_of(given)


def parse_links(
    text: str, nodes: Sequence[str] | None = None
) -> dict[Direction, LinkSettings]:
    """Return the links of ``wan``, or of ``c0-c1@delay:20ms~c1-server@wan``, each of two parties.

    ``nodes``: all nodes of the lab; None: only the form of the text is checked.

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
            raise UsageError(
                f"{part!r} is not a link of two parties; write such as c0-c1@delay:20ms or c1-server@wan"
            )

        link = parse_link(settings)
        if nodes is not None:
            groups = [
                [node for node in nodes if party_of(node) == party] for party in parties
            ]
            if not all(groups):
                raise UsageError(
                    f"{part!r}: the lab has no {parties[0] if not groups[0] else parties[1]}"
                )

            found.update(dict.fromkeys(both_ways(*groups), link))

    return found


_PARSERS: Final[Mapping[str, Callable[[str], float]]] = {
    "delay": lambda text: parse_time(text) / SECOND,
    "jitter": lambda text: parse_time(text) / SECOND,
    "loss": parse_share,
    "reorder": parse_share,
    "rate": lambda text: float(parse_bit_rate(text)),
}


def link_of(given: Mapping[str, str]) -> LinkSettings:
    """Return the settings of words by key. UsageError: one is wrong, or two contradict."""

    values = {}
    for key, text in given.items():
        try:
            values[key] = _PARSERS[key](text)
        except UsageError as error:
            raise UsageError(f"{key} {text}: {error.message}") from None

    link = LinkSettings(**values)
    if link.jitter > link.delay:
        raise UsageError(
            f"a jitter of {given['jitter']} needs a delay as long at least"
        )

    if link.reorder and not link.delay:
        raise UsageError("reorder needs a delay: nothing can be overtaken without one")

    if link.loss == 1.0:
        raise UsageError("a loss of 100% is a partition; write fault=partition@PHASE")

    return link


def show_link(link: LinkSettings) -> str:
    """Return the settings in words."""

    parts = [f"delay {link.delay * 1e3:g} ms"] if link.delay else []
    parts += [f"jitter {link.jitter * 1e3:g} ms"] if link.jitter else []
    parts += [
        f"{name} {share:.3g} %"
        for name in ("loss", "reorder")
        if (share := 100 * getattr(link, name))
    ]
    parts += [f"rate {show_rate(round(link.rate))}"] if link.rate else []

    return ", ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSeen:
    """One direction of a link: its settings, and counts of the kernel and of the queue."""

    source: str
    target: str
    asked: LinkSettings
    matched: int = 0  # packets that the kernel gave to the queue
    arrived: int = 0  # packets that the queue got
    passed: int = 0
    lost: int = 0  # packets dropped for the loss
    overflowed: int = 0  # packets dropped because the rate left no room
    overtook: int = 0  # packets that overtook others
    mean: float = 0.0  # seconds that packets were held
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
    """One direction that is cut, with the kernel's own count of refused packets."""

    source: str
    target: str
    how: str  # ``drop`` or ``reset``
    refused: int

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}: {self.how}, {self.refused} packets refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSeen:
    """A node behind a gateway, with the kernel's count of packets that the gateway forwarded."""

    node: str
    gateway: str
    out: int
    back: int  # packets for the node
    # Connections in which the gateway's address stood for the node's
    translated: int = 0

    def __str__(self) -> str:
        more = (
            f", {self.translated} connections by its own address"
            if self.translated
            else ""
        )
        return f"{self.node} by {self.gateway}: {self.out} packets out, {self.back} back{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSeen:
    """All that was done to packets since the last :meth:`Network.clear`."""

    links: tuple[LinkSeen, ...] = ()
    cuts: tuple[CutSeen, ...] = ()
    routes: tuple[RouteSeen, ...] = ()
    second: tuple[str, ...] = ()  # nodes that have a second address
    # packets that the kernel dropped because our queue was too slow, which no setting asked for
    overrun: int = 0


Direction = tuple[str, str]
"""(from, to): names of nodes."""


class Network(Protocol):
    """The network of a lab. All methods raise LabError if the lab cannot do it."""

    def set_links(self, links: Mapping[Direction, LinkSettings]) -> None:
        """Give these directions their settings from now on; leave others as they are."""

    def prepare(self, nodes: Sequence[str]) -> None:
        """Prepare slow parts of later changes to what these nodes receive."""

    def cut(self, directions: Sequence[Direction], how: str) -> None:
        """Refuse packets: ``drop`` all, ``reset`` connections, or refuse ``syn`` (new ones).

        ``direct``: packets that no gateway has forwarded.
        """

    def route(
        self,
        via: Mapping[Direction, str],
        behind: Mapping[str, Sequence[str]],
        translated: bool,
    ) -> None:
        """Send these directions through a gateway each, from now on.

        ``behind``: the nodes behind each gateway; ``translated``: by the gateway's address.
        """

    def add_second(self, nodes: Sequence[str], known_to: Sequence[str] = ()) -> None:
        """Give each node a second address, on a network that leads nowhere.

        ``known_to``: nodes that reach the second address all the same, by the first one.
        """

    def heal(self, directions: Sequence[Direction], how: str) -> None:
        """Undo :meth:`cut`."""

    def seen(self) -> NetworkSeen:
        """Return what has happened until now."""

    def clear(self) -> None:
        """Undo all changes, and drop the counts."""

    def kill(self, node: str) -> bool:
        """End a node and all its processes for good; return whether it is gone."""

    def freeze(self, node: str) -> None:
        """Stop all processes of a node; its kernel still answers at TCP."""

    def thaw(self, node: str) -> bool:
        """Let a node go on; return whether it was stopped until now."""


def both_ways(ones: Sequence[str], others: Sequence[str]) -> list[Direction]:
    """Return all directions between two groups of nodes."""
    return [
        pair
        for one in ones
        for other in others
        for pair in ((one, other), (other, one))
    ]


def between_parties(nodes: Sequence[str]) -> list[Direction]:
    """Return all directions between nodes of different clients, and from and to the server."""
    return [(a, b) for a in nodes for b in nodes if party_of(a) != party_of(b)]


def party_of(node: str) -> str:
    """Return ``c1`` of ``c1n0``; the server is a party of its own."""
    return node.partition("n")[0] if node != "server" else node
