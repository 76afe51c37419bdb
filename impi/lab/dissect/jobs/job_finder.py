"""Tells the jobs of a capture apart, their start-up conversations and their host channels."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from impi.lab.dissect.decode.host_channel import (
    PACKET_TYPES,
    Channel,
    channels_of,
    decode_channel,
)
from impi.lab.dissect.decode.participants import Layout, WireHost
from impi.lab.dissect.decode.startup import Conversation, decode_startup, learn_layout
from impi.lab.dissect.streams.tcp import Connection

_UNKNOWN_HOST: Final = -1
_MOST_HOSTS: Final = 1 << 20
_HEADER: Final = struct.Struct(">II16s8x16s8xQQQii")
_NO_ADDRESS: Final = bytes(16)
_NO_BEGINNING: Final = "the beginning is not in the capture"


@dataclass(slots=True)
class ObservedJob:
    """The observations of one job."""

    # The participants; None if no client was seen to hear all labels
    layout: Layout | None = None
    conversations: list[Conversation] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    # Whether times are seconds; otherwise they are steps of a possible order
    clocked: bool = True

    def host_at(self, connection: Connection) -> WireHost | None:
        """The host of this job that accepted the connection, or None."""
        return (
            self.layout.host_at(*connection.accepter)
            if self.layout is not None
            else None
        )


@dataclass(slots=True)
class Observation:
    """The jobs in some captures and streams."""

    jobs: list[ObservedJob] = field(default_factory=list)
    others: int = 0  # connections that are not IMPI


def observe(connections: Iterable[Connection]) -> Observation:
    """Sort captured connections, in order of opening, into jobs.

    The first command marks a start-up conversation (IMPI 2.3.3), the accepting host a channel. If
    the start-up was not captured, the first octets decide, and all such channels form one job.
    """

    seen = Observation()

    rest: list[Connection] = []
    for connection in connections:
        # AUTH comes first on every connection to a server (IMPI 2.3.3),
        # whatever its port.
        if connection.forth.data[:4] == b"AUTH":
            _join(seen.jobs, decode_startup(connection))
        else:
            rest.append(connection)

    # The labels name the hosts' addresses and ports, so channels can be
    # placed only after this.
    for job in seen.jobs:
        job.layout = learn_layout(job.conversations)

    seen.jobs = _merge(seen.jobs)

    orphans = ObservedJob()
    for connection in rest:
        _place(seen, orphans, connection)

    if orphans.channels:
        seen.jobs.append(orphans)

    return seen


def _join(jobs: list[ObservedJob], conversation: Conversation) -> None:
    """Add a conversation to the job that its server still gathers, or begin one.

    After DONE no client can join the job (IMPI 2.3.6): later clients speak to a later server.
    """
    connection = conversation.connection
    # The latest server at an address is looked at first: a port may
    # serve one job after another.
    for job in reversed(jobs):
        known = job.conversations[0].connection
        if known.accepter == connection.accepter:
            ready = [
                n.time
                for c in job.conversations
                for n in c.notes
                if n.kind == "DONE" and not n.by_client
            ]
            if not ready or connection.opened < min(ready):
                job.conversations.append(conversation)
                return

            # That server's job was complete, so earlier ones of this address
            # are complete, too.
            break

    jobs.append(ObservedJob(conversations=[conversation]))


def _merge(jobs: list[ObservedJob]) -> list[ObservedJob]:
    """Merge jobs with the same labels: clients may reach one server by several addresses."""
    merged: list[ObservedJob] = []
    for job in jobs:
        twin = next(
            (m for m in merged if job.layout is not None and m.layout == job.layout),
            None,
        )
        if twin is None:
            merged.append(job)
        else:
            twin.conversations.extend(job.conversations)

    return merged


def _place(seen: Observation, orphans: ObservedJob, connection: Connection) -> None:
    # A port may be reused: the latest job that had begun by then
    for job in reversed(seen.jobs):
        host = job.host_at(connection)
        if (
            host is not None
            and job.conversations[0].connection.opened <= connection.opened
        ):
            job.channels += channels_of(connection, host.index, job.layout)
            return

    # A stream without its beginning has no host rank in front, so
    # nothing in it can be trusted.
    if _NO_BEGINNING not in connection.forth.problems and seems_channel(
        connection.forth.data, connection.back.data
    ):
        orphans.channels.append(decode_channel(connection, _UNKNOWN_HOST))
    else:
        seen.others += 1


def seems_channel(forth: bytes, back: bytes) -> bool:
    """Whether the streams can be a host channel: a host rank, then headers (IMPI 2.3.8, 3.5)."""
    if len(forth) < 4 or not 0 < int.from_bytes(forth[:4], "big") < _MOST_HOSTS:
        return False  # the higher host connects (IMPI 2.3.8), so its rank is not 0

    # Either direction will do: a job may have spoken one way only.
    heads = [
        data[at : at + _HEADER.size]
        for data, at in ((forth, 4), (back, 0))
        if len(data) >= at + 128
    ]

    # the other side may break the protocol: that is to be shown, not dropped
    return bool(heads) and _seems_header(heads[0])


def _seems_header(octets: bytes) -> bool:
    kind, length, src, dest, _, _, msglen, _, tag = _HEADER.unpack(octets)
    if kind >= len(PACKET_TYPES):
        return False

    if PACKET_TYPES[kind] == "FINI":
        return True

    # A proc without an address is none of IMPI's: some other protocol speaks here.
    named = _NO_ADDRESS not in (src, dest)
    carries = PACKET_TYPES[kind] in ("DATA", "DATASYNC")

    return bool(named and (not carries or (length <= msglen and tag >= 0)))
