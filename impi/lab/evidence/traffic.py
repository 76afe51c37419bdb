"""Examines a cell's captures: credibility, progress of each client, demanded messages.

How it works: :func:`examine` decodes the captures of all nodes once (:mod:`impi.lab.dissect`), and
puts all that the judge may ask into one :class:`~.gathered.Wire`. It accuses no party. Reasons not
to trust the captures are kept beside the facts: dropped packets, missing canaries or nodes, holes
in streams. The judge then blames no party for what such captures lack.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from ipaddress import ip_address

from impi.base.errors import LabError
from impi.lab.cases.case import WORLD
from impi.lab.dissect import (
    Breach,
    Channel,
    Conversation,
    Crossed,
    Datagram,
    Dissection,
    Event,
    Layout,
    Stream,
    breaches,
    dissect,
    events,
    losses_told,
    meetings,
    read_pcap,
    show_address,
    standing,
    timeline,
)
from impi.lab.dissect.streams.sealed import between_nodes, in_clear
from impi.lab.evidence.demands import Demands, compare, missed
from impi.lab.evidence.gathered import (
    Answered,
    HostTold,
    Sealing,
    StartUp,
    TlsSeen,
    Unsealed,
    Wire,
)
from impi.lab.nodes import Capture, Roster, deviations


def examine(
    captures: Sequence[Capture],
    demands: Demands,
    server_port: int,
    looked_at: float | None = None,
    hidden: Collection[str] = (),
    server: str = "",
    sealing: Sealing | None = None,
) -> tuple[Wire, list[Event]]:
    """Return the facts of one cell's captures, for the verdict, and all that happened on the wire.

    ``looked_at``: when a cell that hung was looked at, before it was ended. ``hidden``: addresses
    of nodes behind a gateway, which the wire shows by the gateway's. ``server``: the server's
    address, if its nodes may have other jobs. ``sealing``: what must be in TLS.
    """

    roster = demands.roster

    untrusted = _untrusted(captures, roster)
    try:
        # Compare addresses as octets: one address has several forms as a text.
        gone, home = (
            [ip_address(each).packed for each in hidden],
            ip_address(server).packed if server else b"",
        )
        seen = dissect((c.pcap for c in captures), server_port, gone, home)
    # A damaged file proves nothing, and is not a fault of the job.
    except LabError as error:
        return Wire(untrusted=(*untrusted, str(error))), []

    # Messages are what programs send, events are all that happened on the
    # wire: the first are compared with the plan, the second are shown.
    crossed, happened = seen.messages(), events(seen)
    compared = compare(crossed, demands)
    # Everything that an item may ask, computed once: no item reads a capture again.
    wire = Wire(
        untrusted=(*untrusted, *seen.gaps),
        breaches=tuple(_held_against(breaches(seen), roster)),
        startup=StartUp(
            reached={
                c.client: _reached(c)
                for c in seen.conversations
                if c.client is not None
            },
            methods=_methods(seen),
            offers=_offers(seen),
            pids={p.rank: p.pid for p in seen.layout.procs} if seen.layout else {},
            clients=_sizes(seen.layout) if seen.layout else (),
            hosts=tuple(_hosts(seen)),
            losses=_losses(seen),
        ),
        compared=replace(
            compared, missing=(*compared.missing, *missed(meetings(seen), demands))
        ),
        no_channel=tuple(_no_channel(seen)),
        needless=tuple(_needless(seen)),
        unfinished=tuple(_unfinished(seen)),
        # Ends of connections decide who left first. FINIs decide who left
        # in good order.
        left_first=_left_first(seen),
        closed_early=tuple(_closed_early(seen)),
        answered=tuple(_answered(crossed)),
        last_sent=_last_sent(seen),
        timeline=tuple(timeline(happened)),
        messages=len(crossed),
        # Open items on the wire explain a hang only at the moment of the
        # look: the end closes it.
        standing=standing(seen, looked_at) if looked_at is not None else None,
    )

    if sealing is not None:
        wire = _sealed(wire, seen, sealing)

    return wire, happened


def _sealed(wire: Wire, seen: Dissection, sealing: Sealing) -> Wire:
    """Return the facts with those of TLS."""
    nodes = [ip_address(each).packed for each in sealing.addresses]
    found = between_nodes(seen.connections, nodes)
    clear = in_clear(found, sealing.secret.encode())

    return replace(
        wire,
        tls=TlsSeen(
            len(found),
            tuple(
                Unsealed(str(ip_address(each.sender[0])), each.text) for each in clear
            ),
        ),
    )


def apart(captures: Sequence[Capture]) -> float:
    """Return how far the clocks of two captured nodes may be apart, in seconds.

    Each canary bounds how far a node is ahead of us: the extremes of two nodes bound the rest.
    """
    ahead = [capture.ahead_s for capture in captures]
    return max((most for _, most in ahead), default=0.0) - min(
        (least for least, _ in ahead), default=0.0
    )


def _held_against(found: Iterable[Breach], roster: Roster) -> Iterable[Breach]:
    """Leave out breaches that the sender's vendor is known for: its manifest declares them."""
    for breach in found:
        known: Collection[str] = ()
        # The server and unknown clients have no vendor
        if breach.client in range(roster.nclients):
            known = deviations(roster.vendor(breach.client or 0))

        if breach.rule not in known:
            yield breach


def _distrust(capture: Capture) -> list[str]:
    """Return why this capture proves nothing; empty if it does prove something."""

    # A capture that lost packets may still have both canaries, so the
    # count of drops comes first.
    if capture.dropped:
        return [f"the capture of node {capture.node} lost {capture.dropped} packets"]

    try:
        payloads = [
            item.payload
            for item in read_pcap(capture.pcap)
            if isinstance(item, Datagram)
        ]
    except LabError as error:
        return [f"the capture of node {capture.node}: {error}"]

    first, last = capture.canaries
    # The canaries frame the cell: the capture covers all from before its start to after its end.
    if (
        first not in payloads
        or last not in payloads
        or payloads.index(first) > payloads.index(last)
    ):
        return [
            f"the capture of node {capture.node} lacks the canary at its beginning or its end"
        ]

    return []


def _reached(conversation: Conversation) -> str:
    """Return the last step of start-up that a client and the server took (IMPI 2.3.3 to 2.3.7)."""

    # The server's messages count, for they answer the client's; but FINI is the client's own.
    reached = "connect"

    steps = (
        ("auth", "METHOD", False),
        ("impi", "IMPI", False),
        ("done", "DONE", False),
        ("fini", "FINI", True),
    )
    for name, kind, by_client in steps:
        if conversation.said(kind, by_client=by_client):
            reached = name

    return reached


def _methods(seen: Dissection) -> dict[int, int]:
    found: dict[int, int] = {}
    for conversation in seen.conversations:
        for note in conversation.notes:
            # The server answers AUTH without a command word, by the method that
            # it chose (IMPI 2.3.3). That choice counts, not the offer.
            if (
                note.kind == "METHOD"
                and conversation.client is not None
                and isinstance(note.values[0], int)
            ):
                found[conversation.client] = note.values[0]

    return found


def _hosts(seen: Dissection) -> Iterable[HostTold]:
    # All addresses from which it opened channels are kept, and each of
    # them is examined.
    for host in seen.layout.hosts if seen.layout is not None else ():
        came_from = {
            show_address(c.connection.opener[0])
            for c in seen.channels
            if c.opener == host.index
        }
        yield HostTold(
            client=host.client,
            address=show_address(host.ipv6),
            port=host.port,
            ranks=tuple(p.rank for p in seen.layout.procs if p.host == host.index)
            if seen.layout is not None
            else (),
            came_from=tuple(sorted(came_from)),
        )


def _offers(seen: Dissection) -> dict[int, tuple[int, ...]]:
    """The bits of each client's mask, 32 in each word (IMPI 2.3.3)."""
    found: dict[int, tuple[int, ...]] = {}
    for conversation in seen.conversations:
        for note in conversation.notes:
            if note.kind == "AUTH" and conversation.client is not None:
                words = [word for word in note.values if isinstance(word, int)]
                bits = (
                    32 * i + bit
                    for i, word in enumerate(words)
                    for bit in range(32)
                    if word >> bit & 1
                )
                found[conversation.client] = tuple(bits)

    return found


def _no_channel(seen: Dissection) -> Iterable[str]:
    """Yield hosts of two clients that lack their channel (IMPI 2.3.8): the higher one connects."""
    # Lazy hosts, an extension of ours, connect at their first message: no channel need be there.
    if seen.layout is None or seen.layout.is_lazy:
        return

    there = {(c.opener, c.accepter) for c in seen.channels}
    for low in seen.layout.hosts:
        # The host of higher rank connects (IMPI 2.3.8), so a channel the other way does not count.
        for high in seen.layout.hosts[low.index + 1 :]:
            if low.client != high.client and (high.index, low.index) not in there:
                yield f"host {high.index} (client {high.client}) to host {low.index} (client {low.client})"


def _needless(seen: Dissection) -> Iterable[str]:
    """Yield hosts of a lazy job that have connected and sent each other nothing."""
    if seen.layout is None or not seen.layout.is_lazy:
        return

    for channel in seen.channels:
        if not any(packet.kind in ("DATA", "DATASYNC") for packet in channel.packets):
            client = _client_of(seen.layout, channel.opener)
            yield f"host {channel.opener} (client {client}) to host {channel.accepter}"


def _client_of(layout: Layout, host: int) -> int:
    return next((each.client for each in layout.hosts if each.index == host), -1)


def _losses(seen: Dissection) -> dict[int, tuple[int, ...]]:
    told = {
        c.client: tuple(losses_told(c))
        for c in seen.conversations
        if c.client is not None
    }
    return {client: losses for client, losses in told.items() if losses}


def _unfinished(seen: Dissection) -> Iterable[str]:
    for channel in seen.channels:
        for host, other in (
            (channel.opener, channel.accepter),
            (channel.accepter, channel.opener),
        ):
            if not channel.finished(host):
                yield f"host {host} to host {other}"


def _left_first(seen: Dissection) -> tuple[int, ...]:
    """Return the ranks of the host or client that was the first to leave without a FINI."""

    # Both kinds of connections count: a host leaves its channels, a
    # client leaves the server.
    if seen.layout is None:
        return ()

    left: list[tuple[float, list[int]]] = []
    for channel in seen.channels:
        for (host, closed), _ in _sides(channel):
            # A side that never closed has left at infinity, so it is never the first.
            if closed < float("inf") and not channel.finished(host):
                left.append(
                    (
                        closed,
                        [proc.rank for proc in seen.layout.procs if proc.host == host],
                    )
                )

    # Before the dance (IMPI 2.3.8) a job has no channels. Then the
    # client's connection to the server tells.
    for conversation in seen.conversations:
        closed = _closed(conversation.connection.forth)
        # A client whose connection the server closed first was cut off, and did not leave.
        if closed < _closed(conversation.connection.back) and not conversation.said(
            "FINI", by_client=True
        ):
            left.append(
                (
                    closed,
                    [
                        proc.rank
                        for proc in seen.layout.procs
                        if proc.client == conversation.client
                    ],
                )
            )

    return tuple(min(left)[1]) if left else ()


def _closed_early(seen: Dissection) -> Iterable[str]:
    for channel in seen.channels:
        # Each side is looked at as the one that closed, with the other one beside it.
        for (host, closed), (other, others) in _sides(channel):
            # Not a host without a FINI of its own: it was lost, and left nothing in good order.
            if (
                closed < others
                and channel.finished(host)
                and not channel.finished(other)
            ):
                yield f"host {host} to host {other}"


def _sides(channel: Channel) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    """Return the hosts of a channel, each with its end, and each beside the other."""
    one = channel.opener, _closed(channel.connection.forth)
    other = channel.accepter, _closed(channel.connection.back)

    return [(one, other), (other, one)]


def _closed(stream: Stream) -> float:
    return min(
        time
        for time in (stream.fin_time, stream.reset_time, float("inf"))
        if time is not None
    )


def _answered(crossed: Iterable[Crossed]) -> Iterable[Answered]:
    found: dict[tuple[int, int, int], Answered] = {}
    # The earliest answer of each key is enough: it is held against the
    # earliest receive.
    for message in crossed:
        # For other communicators the ranks' logs have a name, and no context id.
        if message.cid == WORLD and message.acknowledged:
            at = min(
                packet.time for packet in message.packets if packet.kind == "SYNCACK"
            )

            key = message.src, message.dest, message.tag
            if key not in found or at < found[key].time:
                found[key] = Answered(
                    src=message.src, dest=message.dest, tag=message.tag, time=at
                )

    return found.values()


def _last_sent(seen: Dissection) -> dict[int, float]:
    found: dict[int, float] = {}
    for channel in seen.channels:
        for packet in channel.packets:
            rank = seen.layout.rank_of(*packet.src) if seen.layout is not None else None
            # SYNCACKs and PROTOACKs come from the engine: only DATA shows that the program went on.
            if rank is not None and packet.kind in ("DATA", "DATASYNC"):
                found[rank] = max(found.get(rank, 0.0), packet.time)

    return found


def _untrusted(captures: Sequence[Capture], roster: Roster) -> list[str]:
    """Return the reasons not to trust the captures as a whole."""

    found = [problem for capture in captures for problem in _distrust(capture)]
    # A node without a capture could hide any message, so it spoils the whole cell.
    wanted = {planned.node for planned in roster.near} | {"server"}
    missing = sorted(wanted - {capture.node for capture in captures})

    return found + [f"there is no capture of node {node}" for node in missing]


def _sizes(layout: Layout) -> tuple[int, ...]:
    return tuple(
        sum(proc.client == client for proc in layout.procs)
        for client in range(layout.nclients)
    )
