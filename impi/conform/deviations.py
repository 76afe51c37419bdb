"""Habits of implementations that cost nothing alone, but are not as the specification has it.

:mod:`impi.dissect` tells of breaches that a peer would suffer from. These here a tolerant peer
bears: unused fields that are not zero, and Reduce in the context of point-to-point messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from impi.dissect import Channel, Layout, Packet

UNUSED_FIELDS: Final = "3.5 unused"
"""The rule about fields that a packet type does not use."""
CONTEXT: Final = "4.3 context"
"""The rule about the context id of collectives."""
_REDUCE: Final = 190
"""IMPI_REDUCE_TAG (4.25). A program may send with this tag, too; those of recordings do not."""
_CARRIERS: Final = ("DATA", "DATASYNC")

Habit = tuple[str, str, int]
"""The rule, a sentence, and the client."""


def habits(channels: Iterable[Channel], layout: Layout | None) -> Iterator[Habit]:
    """Yield the habits that packets show, one for each packet."""
    for channel in channels:
        for packet in channel.packets:
            client = layout.hosts[packet.from_host].client if _known(layout, packet) and layout is not None else -1
            for rule, text in of_packet(packet):
                yield rule, f"{text}: {packet.describe(layout)}", client


def _known(layout: Layout | None, packet: Packet) -> bool:
    return layout is not None and 0 <= packet.from_host < len(layout.hosts)


def of_packet(packet: Packet) -> Iterator[tuple[str, str]]:
    """Yield rule and sentence of each habit of one packet."""
    if packet.kind not in _CARRIERS:
        fields = {"pk_len": packet.length, "pk_msglen": packet.msglen, "pk_cid": packet.cid, "pk_tag": packet.tag}
        told = [f"{name} {value}" for name, value in fields.items() if value]
        if told:
            yield UNUSED_FIELDS, f"{packet.kind} has {', '.join(told)}"
    elif packet.tag == _REDUCE and packet.cid == 0:
        yield CONTEXT, "a message of Reduce (tag 190) has context id 0, not 1"
