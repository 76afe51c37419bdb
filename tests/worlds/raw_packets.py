"""A job of two hosts, and packets for one of them by their offsets."""

import struct

from impi.protocol.job import Host, Job, Proc
from impi.protocol.transfer import Event, Transfer
from impi.protocol.wire import addresses


def job(maxdatalen: int = 16) -> Job:
    ipv6 = [addresses.from_text("10.0.0.1"), addresses.from_text("10.0.0.2")]
    return Job(
        version=(0, 0),
        nclients=2,
        hosts=tuple(
            Host(index=i, client=i, ipv6=ipv6[i], port=5000 + i, procs=(i,))
            for i in (0, 1)
        ),
        procs=tuple(
            Proc(rank=i, client=i, host=i, ipv6=ipv6[i], pid=1000 + i) for i in (0, 1)
        ),
        maxdatalen=maxdatalen,
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        ackmark=2,
        hiwater=8,
    )


def packet(
    kind: int,
    pk_len: int = 0,
    *,
    msglen: int | None = None,
    srqid: int = 0,
    drqid: int = 0,
    **other: int,
) -> bytes:
    """A header of 3.5, from the peer to us; its fields by their offsets."""
    octets = bytearray(128)
    struct.pack_into(">II", octets, 0, kind, pk_len)
    struct.pack_into(
        ">16sq", octets, 8, addresses.from_text("10.0.0.2"), other.get("src_pid", 1001)
    )
    struct.pack_into(
        ">16sq",
        octets,
        32,
        addresses.from_text("10.0.0.1"),
        other.get("dest_pid", 1000),
    )
    struct.pack_into(
        ">QQQ", octets, 56, srqid, drqid, pk_len if msglen is None else msglen
    )
    return bytes(octets)


def feed(machine: Transfer, octets: bytes) -> list[Event]:
    events: list[Event] = []
    while octets:
        room = machine.get_buffer(1)
        piece, octets = octets[: len(room)], octets[len(room) :]
        room[: len(piece)] = piece
        events += machine.received(1, len(piece))
    return events
