"""The packets between procs with LCOs: a header of fixed size, then perhaps the user's octets.

A send slot *attaches* itself once, with the key of its receive slot, under a number of its proc's
own. Later packets name it by that number. The sender is known from the channel, so that no other
proc can use the number.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from impi.base.records import record

# Kinds of packets.
ATTACH: Final = 1
"""A send slot refers to receive slot ``slot`` of LCO ``lco``, and proves ``key``."""
STATE: Final = 2
"""State of the receive slot of ``number``; ``tag`` counts messages that were received."""
DATA: Final = 3
"""A message; ``serial`` is not 0 if the sender waits for a REPLY."""
REPLY: Final = 4
"""State of message ``serial``."""
DETACH: Final = 5
"""The send slot is gone."""

# Codes of STATE and REPLY.
OPEN: Final = 1
"""STATE: the receive slot exists."""
ABSENT: Final = 2
"""STATE: the receive slot does not exist yet; REPLY asked for each message."""
FREED: Final = 3
"""The LCO was freed."""
UNKNOWN: Final = 4
"""There was never such an LCO."""
FORGED: Final = 5
"""The key is not that of the receive slot."""
FULL: Final = 6
"""REPLY: the slot does not exist, and no more is kept for it."""
HELD: Final = 7
"""REPLY: the message is at the receiver; the sender's buffer is free."""
MATCHED: Final = 8
"""REPLY: a receive has the message."""
CLEAR: Final = 9
"""REPLY: a receive waits for the octets, which the sender still has."""

# Flags of DATA, its code.
SYNCHRONOUS: Final = 1
APART: Final = 2
"""The octets follow on their own, after CLEAR."""

_HEADER: Final = Struct(">BBHIQQQQ16s")
_NO_KEY: Final = bytes(16)


@record
class Packet:
    """A packet; fields that a kind does not need are 0."""

    kind: int
    code: int = 0
    slot: int = 0
    number: int = 0
    serial: int = 0
    tag: int = 0
    """For DATA: twice MPI's tag, plus 1 for a collective's."""
    nbytes: int = 0
    """For DATA: octets of the message; for ATTACH: the number of the LCO."""
    key: bytes = _NO_KEY
    data: bytes = b""

    def octets(self) -> bytes:
        head = _HEADER.pack(
            self.kind,
            self.code,
            0,
            self.slot,
            self.number,
            self.serial,
            self.tag,
            self.nbytes,
            self.key,
        )
        return head + self.data


def parse_packet(octets: bytes | bytearray) -> Packet:
    """Return the packet in some octets.

    Raises:
        ValueError: there are too few.
    """
    if len(octets) < _HEADER.size:
        raise ValueError(
            f"{len(octets)} octets are too few for a packet between LCOs, which has {_HEADER.size}"
        )

    kind, code, _, slot, number, serial, tag, nbytes, key = _HEADER.unpack_from(octets)

    return Packet(
        kind,
        code,
        slot,
        number,
        serial,
        tag,
        nbytes,
        key,
        bytes(octets[_HEADER.size :]),
    )
