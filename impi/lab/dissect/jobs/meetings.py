"""Channels between the procs of a job and those of another one, which has come later.

Ports, Join and Spawn make two jobs meet: an extension of impi. Each proc of one group connects to
each of the other, and names itself by a number behind the hosts of its own job. No label tells of
the others, so the first packet of each says who it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from impi.lab.dissect.decode.host_channel import (
    Channel,
    Crossed,
    decode_channel,
    messages,
)
from impi.lab.dissect.decode.participants import Layout, WireProc
from impi.lab.dissect.jobs.capture import Dissection
from impi.lab.dissect.jobs.job_finder import seems_channel
from impi.lab.dissect.streams.tcp import Connection


def meetings(seen: Dissection) -> list[Crossed]:
    """Return messages between procs of the job and others; the ranks of these follow the job's."""

    if seen.layout is None:
        return []

    channels = [decode_channel(each, -1) for each in seen.rest if _is_meeting(each)]
    others = tuple(_unlabelled_procs(channels, seen.layout))

    return messages(channels, replace(seen.layout, procs=(*seen.layout.procs, *others)))


def _is_meeting(connection: Connection) -> bool:
    # Packets or a proof come right behind the number that the connecting proc gives.
    return connection.forth.data[4:8] == b"IMPI" or seems_channel(
        connection.forth.data, connection.back.data
    )


def _unlabelled_procs(channels: list[Channel], layout: Layout) -> Iterator[WireProc]:
    """Yield procs that no label names, by the numbers that they gave when they connected."""
    found: dict[int, tuple[bytes, int]] = {}
    for channel in channels:
        for packet in channel.packets:
            if (
                packet.forth
                and packet.kind != "FINI"
                and layout.rank_of(*packet.src) is None
            ):
                found.setdefault(channel.opener, packet.src)

    # They get ranks behind the job's own, in the order of the numbers that they gave.
    for rank, number in enumerate(sorted(found), len(layout.procs)):
        ipv6, pid = found[number]
        yield WireProc(
            rank=rank, client=layout.nclients, host=number, ipv6=ipv6, pid=pid
        )
