"""From the captures of several nodes to the conversations of one job."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from impi.lab.dissect.decode.host_channel import Channel, Crossed, channels_of, messages
from impi.lab.dissect.decode.participants import Layout
from impi.lab.dissect.decode.startup import Conversation, decode_startup, learn_layout
from impi.lab.dissect.streams.pcap import Endpoint, Segment, read_pcap
from impi.lab.dissect.streams.tcp import Connection, reassemble


@dataclass(slots=True)
class Dissection:
    """The content of the captures of one job."""

    conversations: list[Conversation] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    layout: Layout | None = None
    # All connections, in the order in which they were opened
    connections: list[Connection] = field(default_factory=list)
    # Connections that do not belong to the job: remote shells, the vendors' own.
    rest: list[Connection] = field(default_factory=list)
    # Parts of the job's connections that the captures lack
    gaps: list[str] = field(default_factory=list)
    # Breaches of the protocol, over all conversations and channels that were captured whole.
    problems: list[str] = field(default_factory=list)

    def messages(self) -> list[Crossed]:
        """All messages that crossed between clients, in order of time."""
        return messages(self.channels, self.layout) if self.layout is not None else []


def dissect(
    captures: Iterable[bytes],
    server_port: int | None = None,
    hidden: Collection[bytes] = (),
    server: bytes = b"",
) -> Dissection:
    """Decode the pcap files of a job's nodes.

    Of two captures of a connection, the more complete one counts. With ``server_port``, connections
    to it belong to the job even if their beginning is missing. Connections of ``hidden`` addresses,
    in network order, are left out: those by another address stand for them, which a gateway gives.
    With ``server``, the address of the job's, clients of other servers are those of other jobs.

    Raises:
        LabError: a file cannot be read.
    """
    every = (
        (s for s in read_pcap(octets) if isinstance(s, Segment)) for octets in captures
    )
    segments = (
        (s for s in each if s.src[0] not in hidden and s.dst[0] not in hidden)
        for each in every
    )

    return interpret(
        merge_views(reassemble(found) for found in segments), server_port, server
    )


def merge_views(captures: Iterable[Iterable[Connection]]) -> list[Connection]:
    """Return the connections of several captures, as opened; of two views the more complete one."""
    views: dict[tuple[object, ...], Connection] = {}
    for capture in captures:
        for connection in capture:
            # Two views of one connection have different clocks, so its first octets identify it.
            key: tuple[object, ...] = (connection.opener, connection.accepter)
            # A number keeps apart several connections of the same two ends, one
            # after another.
            index = sum(1 for k in views if k[:2] == key)

            match = next(
                (
                    k
                    for k in views
                    if k[:2] == key and _same_connection(views[k], connection)
                ),
                None,
            )
            if match is None:
                views[(*key, index)] = connection
            # The view with fewer holes replaces the other, whichever node it
            # comes from.
            elif len(connection.problems) < len(views[match].problems):
                views[match] = connection

    return sorted(views.values(), key=lambda c: c.opened)


def _same_connection(one: Connection, other: Connection) -> bool:
    """Whether two captures show one connection: the octets of one begin with the other's."""
    short, long = sorted((one.forth.data, other.forth.data), key=len)
    # A hole leaves no common beginning to compare. Then the times
    # decide, within a second, for the clocks of two nodes differ.
    if one.forth.problems or other.forth.problems:
        return abs(one.opened - other.opened) < 1.0

    return long.startswith(short)


def _begins(connection: Connection) -> bool:
    """Whether the connection begins with AUTH, as a client's with the server does (2.3.3)."""
    return connection.forth.data[:4] == b"AUTH"


def interpret(
    connections: Iterable[Connection],
    server_port: int | None = None,
    server: bytes = b"",
) -> Dissection:
    """Tell start-up conversations, host channels and the rest apart, and decode them.

    The arguments are as for :func:`dissect`.
    """

    result = Dissection()
    rest: list[Connection] = []
    connections = result.connections = list(connections)

    # First the server: its port may also be that of a host on another node.
    servers = _servers(connections, server_port, server)
    for connection in connections:
        stray = _begins(connection) or (
            not servers and connection.accepter[1] == server_port
        )
        if connection.accepter in servers or (stray and not server):
            result.conversations.append(decode_startup(connection))
        else:
            rest.append(connection)

    # Channels are recognised by the hosts that listen, which only start-up tells.
    result.layout = learn_layout(result.conversations)
    for connection in rest:
        host = (
            result.layout.host_at(*connection.accepter)
            if result.layout is not None
            else None
        )
        if host is None:
            result.rest.append(connection)
        else:
            result.channels += channels_of(connection, host.index, result.layout)

    # Problems of whole streams are breaches, those of others are gaps of the capture.
    for conversation in result.conversations:
        who = "?" if conversation.client is None else conversation.client
        _sort_out(result, f"client {who} and the server", conversation)

    for channel in result.channels:
        _sort_out(result, f"hosts {channel.opener} and {channel.accepter}", channel)

    return result


def _servers(
    connections: Iterable[Connection], server_port: int | None, server: bytes
) -> set[Endpoint]:
    """Return where the job's server listens: a host on another node may have the same port."""
    if server and server_port is not None:
        return {(server, server_port)}

    return {
        c.accepter for c in connections if _begins(c) and c.accepter[1] == server_port
    }


def _sort_out(result: Dissection, who: str, decoded: Conversation | Channel) -> None:
    """Sort problems: a hole distorts the rest of a stream, so only whole streams accuse."""
    if decoded.connection.problems:
        result.gaps.extend(
            f"{who}: {problem}" for problem in decoded.connection.problems
        )
    else:
        result.problems.extend(f"{who}: {problem}" for problem in decoded.problems)
