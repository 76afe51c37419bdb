"""Examines a cell's captures: credibility, progress of each client, demanded messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from impi.dissect import (
    Conversation,
    Crossed,
    Datagram,
    Dissection,
    Event,
    Layout,
    dissect,
    events,
    read_pcap,
    standing,
    timeline,
)
from impi.errors import LabError
from impi.testbed.cases import Crossing
from impi.testbed.evidence.evidence import Owed, Wire
from impi.testbed.lab.interface import Capture
from impi.testbed.lab.roster import Roster

_SHOWN = 24


def examine(
    captures: Sequence[Capture],
    roster: Roster,
    crossings: Iterable[Crossing],
    server_port: int,
    looked_at: float | None = None,
) -> tuple[Wire, list[Event]]:
    """The facts of one cell's captures, for the verdict, and all that happened on the wire.

    ``looked_at``: when a cell that hung was looked at, before it was ended.
    """
    untrusted = _untrusted(captures, roster)
    try:
        seen = dissect((c.pcap for c in captures), server_port)
    except LabError as error:
        return Wire(untrusted=(*untrusted, str(error))), []
    crossed, happened = seen.messages(), events(seen)
    owed, wrong = _demands(crossed, crossings)
    wire = Wire(
        untrusted=(*untrusted, *seen.gaps),
        violations=tuple(seen.problems),
        reached={c.client: _reached(c) for c in seen.conversations if c.client is not None},
        methods=_methods(seen),
        pids={p.rank: p.pid for p in seen.layout.procs} if seen.layout else {},
        clients=_sizes(seen.layout) if seen.layout else (),
        no_channel=tuple(_no_channel(seen)),
        unfinished=tuple(_unfinished(seen)),
        missing=tuple(f"{crossing}; seen: {count}" for crossing, count in owed),
        owed=tuple(_owed(crossing, count) for crossing, count in owed),
        wrong=tuple(wrong),
        last_sent=_last_sent(seen),
        timeline=tuple(timeline(happened)),
        messages=len(crossed),
        standing=standing(seen, looked_at) if looked_at is not None else None,
    )
    return wire, happened


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


def _no_channel(seen: Dissection) -> Iterable[str]:
    """IMPI 2.3.8: every two hosts of different clients have one; the higher connects."""
    if seen.layout is None:
        return
    there = {(c.opener, c.accepter) for c in seen.channels}
    for low in seen.layout.hosts:
        for high in seen.layout.hosts[low.index + 1 :]:
            if low.client != high.client and (high.index, low.index) not in there:
                yield f"host {high.index} (client {high.client}) to host {low.index} (client {low.client})"


def _unfinished(seen: Dissection) -> Iterable[str]:
    for channel in seen.channels:
        for host, other in ((channel.opener, channel.accepter), (channel.accepter, channel.opener)):
            if not channel.finished(host):
                yield f"host {host} to host {other}"


def _last_sent(seen: Dissection) -> dict[int, float]:
    found: dict[int, float] = {}
    for channel in seen.channels:
        for packet in channel.packets:
            rank = seen.layout.rank_of(*packet.src) if seen.layout is not None else None
            if rank is not None and packet.kind in ("DATA", "DATASYNC"):
                found[rank] = max(found.get(rank, 0.0), packet.time)
    return found


def _owed(crossing: Crossing, count: int) -> Owed:
    ends = {"src": crossing.src, "dest": crossing.dest, "cid": crossing.cid, "tag": crossing.tag}
    return Owed(**ends, wanted=crossing.count, seen=count)


def _untrusted(captures: Sequence[Capture], roster: Roster) -> list[str]:
    """Return the reasons not to trust the captures as a whole."""
    found = [problem for capture in captures for problem in _distrust(capture)]
    wanted = {planned.node for planned in roster.ranks} | {"server"}
    missing = sorted(wanted - {capture.node for capture in captures})
    return found + [f"there is no capture of node {node}" for node in missing]


def _sizes(layout: Layout) -> tuple[int, ...]:
    """Return the number of procs of each client."""
    return tuple(sum(proc.client == client for proc in layout.procs) for client in range(layout.nclients))


def _demands(crossed: list[Crossed], crossings: Iterable[Crossing]) -> tuple[list[tuple[Crossing, int]], list[str]]:
    """(messages that did not all cross, and how many did; messages with other octets).

    The counts of equal demands are the larger one's.
    """
    index: dict[tuple[int, int, int], list[Crossed]] = {}
    for message in crossed:
        if message.complete:
            index.setdefault((message.src, message.dest, message.tag), []).append(message)
    missing: list[tuple[Crossing, int]] = []
    wrong: list[str] = []
    for crossing in crossings:
        there = index.get((crossing.src, crossing.dest, crossing.tag), [])
        candidates = [message for message in there if _meets(message, crossing)]
        if len(candidates) < crossing.count:
            missing.append((crossing, len(candidates)))
        elif not any(_carries(m.payload, crossing) for m in candidates):
            expected = crossing.payload or crossing.contains or b""
            best = candidates[0].payload
            wrong.append(f"{crossing}: expected {_show(expected)}, seen {_show(best)}")
    return missing, wrong


def _meets(message: Crossed, crossing: Crossing) -> bool:
    if not crossing.fits(message.cid) or crossing.nbytes not in (None, message.nbytes):
        return False
    return not crossing.sync or (message.sync and message.acknowledged)


def _carries(payload: bytes, crossing: Crossing) -> bool:
    if crossing.payload is not None and payload != crossing.payload:
        return False
    return crossing.contains is None or crossing.contains in payload


def _show(octets: bytes) -> str:
    return octets[:_SHOWN].hex() + ("..." if len(octets) > _SHOWN else "")
