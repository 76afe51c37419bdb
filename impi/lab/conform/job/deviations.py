"""Habits of implementations that do no harm by themselves, but differ from the specification.

:mod:`impi.lab.dissect` finds breaches from which a peer would suffer. A tolerant peer bears these
here: unused fields that are not zero, and Reduce in the context of point-to-point messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from impi.lab.dissect import Channel, Layout, Packet
from impi.lab.dissect.chapter4.collective_tags import Tag

UNUSED_FIELDS: Final = "3.5 unused"
"""The rule about fields that a packet type leaves unused."""
CONTEXT: Final = "4.3 context"
"""The rule about the context id of collectives."""
_CARRIERS: Final = ("DATA", "DATASYNC")

# Fields that some type of packet does not use; those of quality of service may have any value.
_FIELDS: Final[Mapping[str, Callable[[Packet], int]]] = {
    "pk_len": lambda p: p.length,
    "pk_msglen": lambda p: p.msglen,
    "pk_srqid": lambda p: p.srqid,
    "pk_drqid": lambda p: p.drqid,
    "pk_lsrank": lambda p: p.lsrank,
    "pk_tag": lambda p: p.tag,
    "pk_cid": lambda p: p.cid,
    "pk_src_pid": lambda p: p.src[1],
    "pk_dest_pid": lambda p: p.dest[1],
}
_ENDS: Final = ("pk_src_pid", "pk_dest_pid")
# Fields of each type besides ``pk_type`` (table 3.1).
_USED: Final[Mapping[str, tuple[str, ...]]] = {
    "PROTOACK": _ENDS,
    "SYNCACK": (*_ENDS, "pk_srqid", "pk_drqid"),
    "CANCEL": (*_ENDS, "pk_srqid"),
    "CANCELYES": (*_ENDS, "pk_srqid"),
    "CANCELNO": (*_ENDS, "pk_srqid"),
    "FINI": (),
}

Habit = tuple[str, str, int]
"""The rule, a sentence, and the client."""


def habits(channels: Iterable[Channel], layout: Layout | None) -> Iterator[Habit]:
    """Yield the habits that packets show, one for each packet."""
    for channel in channels:
        for packet in channel.packets:
            client = (
                layout.hosts[packet.from_host].client
                if _known(layout, packet) and layout is not None
                else -1
            )
            for rule, text in of_packet(packet):
                yield rule, f"{text}: {packet.describe(layout)}", client


def _known(layout: Layout | None, packet: Packet) -> bool:
    return layout is not None and 0 <= packet.from_host < len(layout.hosts)


def of_packet(packet: Packet) -> Iterator[tuple[str, str]]:
    """Yield rule and sentence of each habit of one packet."""
    if packet.kind not in _CARRIERS:
        values = {
            name: value(packet)
            for name, value in _FIELDS.items()
            if name not in _USED[packet.kind]
        }

        told = [f"{name} {value}" for name, value in values.items() if value]
        if told:
            yield UNUSED_FIELDS, f"{packet.kind} has {', '.join(told)}"
    elif packet.tag == Tag.REDUCE and packet.cid == 0:
        # A program may send with this tag, too, but those of recordings do not.
        yield CONTEXT, "a message of Reduce (tag 190) has context id 0, not 1"
