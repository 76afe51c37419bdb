"""Examines a cell's captures: credibility, progress of each client, demanded messages."""

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
from impi.lab.evidence.demands import Demands, compare, missed
from impi.lab.evidence.gathered import Answered, HostTold, StartUp, Wire
from impi.lab.nodes import Capture, Roster, deviations


def examine(
    captures: Sequence[Capture],
    demands: Demands,
    server_port: int,
    looked_at: float | None = None,
    hidden: Collection[str] = (),
    server: str = "",
) -> tuple[Wire, list[Event]]:
    """The facts of one cell's captures, for the verdict, and all that happened on the wire.

    ``looked_at``: when a cell that hung was looked at, before it was ended. ``hidden``: addresses
    in whose place that of a gateway is seen. ``server``: the server's address, where nodes may have
    other jobs, too.
    """
    roster = demands.roster
    untrusted = _untrusted(captures, roster)
    try:
        gone, home = [ip_address(each).packed for each in hidden], ip_address(server).packed if server else b""
        seen = dissect((c.pcap for c in captures), server_port, gone, home)
    except LabError as error:
        return Wire(untrusted=(*untrusted, str(error))), []
    crossed, happened = seen.messages(), events(seen)
    compared = compare(crossed, demands)
    wire = Wire(
        untrusted=(*untrusted, *seen.gaps),
        breaches=tuple(_held_against(breaches(seen), roster)),
        startup=StartUp(
            reached={c.client: _reached(c) for c in seen.conversations if c.client is not None},
            methods=_methods(seen),
            offers=_offers(seen),
            pids={p.rank: p.pid for p in seen.layout.procs} if seen.layout else {},
            clients=_sizes(seen.layout) if seen.layout else (),
            hosts=tuple(_hosts(seen)),
            losses=_losses(seen),
        ),
        compared=replace(compared, missing=(*compared.missing, *missed(meetings(seen), demands))),
        no_channel=tuple(_no_channel(seen)),
        unfinished=tuple(_unfinished(seen)),
        left_first=_left_first(seen),
        closed_early=tuple(_closed_early(seen)),
        answered=tuple(_answered(crossed)),
        last_sent=_last_sent(seen),
        timeline=tuple(timeline(happened)),
        messages=len(crossed),
        standing=standing(seen, looked_at) if looked_at is not None else None,
    )
    return wire, happened


def apart(captures: Sequence[Capture]) -> float:
    """Return how far the clocks of two captured nodes may be apart, in seconds."""
    ahead = [capture.ahead_s for capture in captures]
    return max((most for _, most in ahead), default=0.0) - min((least for least, _ in ahead), default=0.0)


def _held_against(found: Iterable[Breach], roster: Roster) -> Iterable[Breach]:
    """Leave out what the sender's vendor is known to do otherwise than IMPI 0.0 says."""
    for breach in found:
        known: Collection[str] = ()
        if breach.client in range(roster.nclients):  # not of the server, nor of an unknown client
            known = deviations(roster.vendor(breach.client or 0))
        if breach.rule not in known:
            yield breach


def _distrust(capture: Capture) -> list[str]:
    """Why this capture proves nothing; empty when it does."""
    if capture.dropped:
        return [f"the capture of node {capture.node} lost {capture.dropped} packets"]
    try:
        payloads = [item.payload for item in read_pcap(capture.pcap) if isinstance(item, Datagram)]
    except LabError as error:
        return [f"the capture of node {capture.node}: {error}"]
    first, last = capture.canaries
    # The canaries frame the cell: the capture covers all from before its start to after its end.
    if first not in payloads or last not in payloads or payloads.index(first) > payloads.index(last):
        return [f"the capture of node {capture.node} lacks the canary at its beginning or its end"]
    return []


def _reached(conversation: Conversation) -> str:
    """The last step of start-up that a client and the server took (IMPI 2.3.3 to 2.3.7)."""
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
            if note.kind == "METHOD" and conversation.client is not None and isinstance(note.values[0], int):
                found[conversation.client] = note.values[0]
    return found


def _hosts(seen: Dissection) -> Iterable[HostTold]:
    for host in seen.layout.hosts if seen.layout is not None else ():
        came_from = {show_address(c.connection.opener[0]) for c in seen.channels if c.opener == host.index}
        yield HostTold(
            client=host.client,
            address=show_address(host.ipv6),
            port=host.port,
            ranks=tuple(p.rank for p in seen.layout.procs if p.host == host.index) if seen.layout is not None else (),
            came_from=tuple(sorted(came_from)),
        )


def _offers(seen: Dissection) -> dict[int, tuple[int, ...]]:
    """The bits of each client's mask, 32 in each word (IMPI 2.3.3)."""
    found: dict[int, tuple[int, ...]] = {}
    for conversation in seen.conversations:
        for note in conversation.notes:
            if note.kind == "AUTH" and conversation.client is not None:
                words = [word for word in note.values if isinstance(word, int)]
                bits = (32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1)
                found[conversation.client] = tuple(bits)
    return found


def _no_channel(seen: Dissection) -> Iterable[str]:
    """IMPI 2.3.8: every two hosts of different clients have one; the higher connects."""
    if seen.layout is None or seen.layout.is_lazy:
        return
    there = {(c.opener, c.accepter) for c in seen.channels}
    for low in seen.layout.hosts:
        for high in seen.layout.hosts[low.index + 1 :]:
            if low.client != high.client and (high.index, low.index) not in there:
                yield f"host {high.index} (client {high.client}) to host {low.index} (client {low.client})"


def _losses(seen: Dissection) -> dict[int, tuple[int, ...]]:
    told = {c.client: tuple(losses_told(c)) for c in seen.conversations if c.client is not None}
    return {client: losses for client, losses in told.items() if losses}


def _unfinished(seen: Dissection) -> Iterable[str]:
    for channel in seen.channels:
        for host, other in ((channel.opener, channel.accepter), (channel.accepter, channel.opener)):
            if not channel.finished(host):
                yield f"host {host} to host {other}"


def _left_first(seen: Dissection) -> tuple[int, ...]:
    """Return the ranks of the host or client that was the first to leave without a FINI."""
    if seen.layout is None:
        return ()
    left: list[tuple[float, list[int]]] = []
    for channel in seen.channels:
        for (host, closed), _ in _sides(channel):
            if closed < float("inf") and not channel.finished(host):
                left.append((closed, [proc.rank for proc in seen.layout.procs if proc.host == host]))
    for conversation in seen.conversations:
        closed = _closed(conversation.connection.forth)
        if closed < _closed(conversation.connection.back) and not conversation.said("FINI", by_client=True):
            left.append((closed, [proc.rank for proc in seen.layout.procs if proc.client == conversation.client]))
    return tuple(min(left)[1]) if left else ()


def _closed_early(seen: Dissection) -> Iterable[str]:
    for channel in seen.channels:
        for (host, closed), (other, others) in _sides(channel):
            if closed < others and channel.finished(host) and not channel.finished(other):
                yield f"host {host} to host {other}"


def _sides(channel: Channel) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    """Return the hosts of a channel, each with its end, and each beside the other."""
    one = channel.opener, _closed(channel.connection.forth)
    other = channel.accepter, _closed(channel.connection.back)
    return [(one, other), (other, one)]


def _closed(stream: Stream) -> float:
    return min(time for time in (stream.fin_time, stream.reset_time, float("inf")) if time is not None)


def _answered(crossed: Iterable[Crossed]) -> Iterable[Answered]:
    found: dict[tuple[int, int, int], Answered] = {}
    for message in crossed:
        if message.cid == WORLD and message.acknowledged:
            at = min(packet.time for packet in message.packets if packet.kind == "SYNCACK")
            key = message.src, message.dest, message.tag
            if key not in found or at < found[key].time:
                found[key] = Answered(src=message.src, dest=message.dest, tag=message.tag, time=at)
    return found.values()


def _last_sent(seen: Dissection) -> dict[int, float]:
    found: dict[int, float] = {}
    for channel in seen.channels:
        for packet in channel.packets:
            rank = seen.layout.rank_of(*packet.src) if seen.layout is not None else None
            if rank is not None and packet.kind in ("DATA", "DATASYNC"):
                found[rank] = max(found.get(rank, 0.0), packet.time)
    return found


def _untrusted(captures: Sequence[Capture], roster: Roster) -> list[str]:
    """Return the reasons not to trust the captures as a whole."""
    found = [problem for capture in captures for problem in _distrust(capture)]
    wanted = {planned.node for planned in roster.near} | {"server"}
    missing = sorted(wanted - {capture.node for capture in captures})
    return found + [f"there is no capture of node {node}" for node in missing]


def _sizes(layout: Layout) -> tuple[int, ...]:
    return tuple(sum(proc.client == client for proc in layout.procs) for client in range(layout.nclients))
