"""A dissection as events and as lines of text, merged by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from impi.lab.dissect.decode.host_channel import Channel
from impi.lab.dissect.decode.participants import Layout, show_address
from impi.lab.dissect.decode.startup import Conversation
from impi.lab.dissect.jobs.capture import Dissection
from impi.lab.dissect.jobs.pending import numbers
from impi.lab.dissect.streams.tcp import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened on the wire."""

    time: float  # seconds since the epoch
    source: str  # ``client 1``, ``server`` or ``host 2``
    dest: str
    text: str
    kind: str  # a packet's or a command's name, or ``TCP``
    src_rank: int | None = None
    # ranks of MPI_COMM_WORLD; if hosts talk, the lowest rank of each host
    dest_rank: int | None = None
    # The number of the message that it belongs to (:class:`impi.lab.dissect.jobs.pending.Sent`).
    message: int | None = None


def timeline(found: Sequence[Event]) -> list[str]:
    """Return one line an event: seconds since the first, ends, content. The key is never shown."""
    start = found[0].time if found else 0.0
    return [f"{event.time - start:10.6f} {event.text}" for event in found]


def events(dissection: Dissection) -> list[Event]:
    """Return all events in the captures, in order of time."""

    found: list[Event] = []
    for conversation in dissection.conversations:
        found.extend(_conversation(conversation))

    # The numbers are those of the hang report, so a reader finds a message in both.
    known = numbers(dissection.messages())
    for channel in dissection.channels:
        found.extend(_channel(channel, dissection.layout, known))

    return sorted(found, key=lambda event: event.time)


def _conversation(conversation: Conversation) -> list[Event]:
    client = (
        "client ?" if conversation.client is None else f"client {conversation.client}"
    )

    found = [_opening(conversation.connection, client, "server")]
    for note in conversation.notes:
        ends = (client, "server") if note.by_client else ("server", client)
        found.append(
            Event(
                time=note.time,
                source=ends[0],
                dest=ends[1],
                text=f"{ends[0]} -> {ends[1]}: {note}",
                kind=note.kind,
            )
        )

    return found + _endings(conversation.connection, client, "server")


def _channel(
    channel: Channel, layout: Layout | None, known: dict[tuple[int, int, int], int]
) -> list[Event]:
    opener, accepter = f"host {channel.opener}", f"host {channel.accepter}"
    connection = channel.connection

    found = [_opening(connection, opener, accepter)]
    if channel.opener >= 0:
        found.append(
            Event(
                time=connection.forth.time_at(3),
                source=opener,
                dest=accepter,
                text=f"{opener} -> {accepter}: host rank {channel.opener}",
                kind="HOSTRANK",
            )
        )

    for packet in channel.packets:
        source, dest = f"host {packet.from_host}", f"host {packet.to_host}"
        number = known.get((packet.from_host, packet.to_host, packet.offset))
        of = f"message {number}: " if number is not None else ""

        event = Event(
            time=packet.time,
            source=source,
            dest=dest,
            text=f"{source} -> {dest}: {of}{packet.describe(layout)}",
            kind=packet.kind,
            message=number,
        )
        # FINI has no procs: only its type counts (IMPI 3.8).
        if packet.kind != "FINI" and layout is not None:
            event = replace(
                event,
                src_rank=layout.rank_of(*packet.src),
                dest_rank=layout.rank_of(*packet.dest),
            )

        found.append(event)

    found += _endings(connection, opener, accepter)

    return [_placed(event, layout) for event in found]


def _placed(event: Event, layout: Layout | None) -> Event:
    """Give events without procs the lowest procs of their hosts."""
    if event.src_rank is not None or layout is None:
        return event

    lowest = {f"host {proc.host}": proc.rank for proc in reversed(layout.procs)}

    return replace(
        event, src_rank=lowest.get(event.source), dest_rank=lowest.get(event.dest)
    )


def _opening(connection: Connection, opener: str, accepter: str) -> Event:
    ends = [
        f"{show_address(address)}:{port}"
        for address, port in (connection.opener, connection.accepter)
    ]
    return Event(
        time=connection.opened,
        source=opener,
        dest=accepter,
        text=f"{opener} connects to {accepter} ({ends[0]} -> {ends[1]})",
        kind="TCP",
    )


def _endings(connection: Connection, opener: str, accepter: str) -> list[Event]:
    found: list[Event] = []
    for who, other, stream in (
        (opener, accepter, connection.forth),
        (accepter, opener, connection.back),
    ):
        for time, does in (
            (stream.fin_time, "closes"),
            (stream.reset_time, "resets the connection"),
        ):
            if time is not None:
                found.append(
                    Event(
                        time=time,
                        source=who,
                        dest=other,
                        text=f"{opener}, {accepter}: {who} {does}",
                        kind="TCP",
                    )
                )

    return found
