"""A dissection as lines of text, merged by time."""

from __future__ import annotations

from impi.dissect.capture import Dissection
from impi.dissect.channel import Channel
from impi.dissect.layout import show_address
from impi.dissect.startup import Conversation
from impi.dissect.tcp import Connection

__all__ = ["timeline"]

_Line = tuple[float, str]


def timeline(dissection: Dissection) -> list[str]:
    """One line an event: seconds since the first one, who to whom, what. The key is never shown."""
    lines: list[_Line] = []
    for conversation in dissection.conversations:
        lines.extend(_conversation(conversation))
    for channel in dissection.channels:
        lines.extend(_channel(channel, dissection))
    lines.sort(key=lambda line: line[0])
    start = lines[0][0] if lines else 0.0
    return [f"{time - start:10.6f} {text}" for time, text in lines]


def _conversation(conversation: Conversation) -> list[_Line]:
    client = "client ?" if conversation.client is None else f"client {conversation.client}"
    lines = [_opening(conversation.connection, client, "server")]
    for note in conversation.notes:
        way = f"{client} -> server" if note.by_client else f"server -> {client}"
        lines.append((note.time, f"{way}: {note}"))
    return lines + _endings(conversation.connection, client, "server")


def _channel(channel: Channel, dissection: Dissection) -> list[_Line]:
    opener, accepter = f"host {channel.opener}", f"host {channel.accepter}"
    connection = channel.connection
    lines = [_opening(connection, opener, accepter)]
    if channel.opener >= 0:
        lines.append((connection.forth.time_at(3), f"{opener} -> {accepter}: host rank {channel.opener}"))
    for packet in channel.packets:
        way = f"host {packet.from_host} -> host {packet.to_host}"
        lines.append((packet.time, f"{way}: {packet.describe(dissection.layout)}"))
    return lines + _endings(connection, opener, accepter)


def _opening(connection: Connection, opener: str, accepter: str) -> _Line:
    ends = [f"{show_address(address)}:{port}" for address, port in (connection.opener, connection.accepter)]
    return connection.opened, f"{opener} connects to {accepter} ({ends[0]} -> {ends[1]})"


def _endings(connection: Connection, opener: str, accepter: str) -> list[_Line]:
    lines: list[_Line] = []
    for who, stream in ((opener, connection.forth), (accepter, connection.back)):
        if stream.fin_time is not None:
            lines.append((stream.fin_time, f"{opener}, {accepter}: {who} closes"))
        if stream.reset_time is not None:
            lines.append((stream.reset_time, f"{opener}, {accepter}: {who} resets the connection"))
    return lines
