"""Names of LCOs and of receive slots: octets that travel, and give the right to send there.

A name has the proc ``(address, pid)``, as IMPI 3.2 names it, the LCO's number there, and a key. The
key of an LCO is random. The key of a slot is a one-way function of it, so that the owner of one
slot's name cannot make that of another (section 4.1 of the paper). Messages prove the slot's key.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

from impi.base.records import record

KEY_SIZE: Final = 16
"""Octets of a key."""
_LCO: Final = Struct(">4s16sQQ16s")
_SLOT: Final = Struct(">4s16sQQ16sI")
_LCO_MARK: Final = b"LCO1"
_SLOT_MARK: Final = b"LCS1"
NAME_SIZE: Final = _LCO.size
"""Octets of the name of an LCO."""
SLOT_NAME_SIZE: Final = _SLOT.size
"""Octets of the name of a receive slot."""
MOST_SLOTS: Final = 2**32
"""Receive slots of an LCO are numbered below this."""


@record
class Name:
    """The meaning of the octets of a name; ``slot`` is None for a whole LCO."""

    address: bytes
    pid: int
    lco: int
    key: bytes
    slot: int | None = None

    def octets(self) -> bytes:
        """Return the name as :data:`NAME_SIZE` or :data:`SLOT_NAME_SIZE` octets."""
        if self.slot is None:
            return _LCO.pack(_LCO_MARK, self.address, self.pid, self.lco, self.key)

        return _SLOT.pack(
            _SLOT_MARK, self.address, self.pid, self.lco, self.key, self.slot
        )

    def of_slot(self, slot: int) -> Name:
        return Name(self.address, self.pid, self.lco, slot_key(self.key, slot), slot)


def parse(octets: bytes) -> Name:
    """Return the meaning of a name.

    Raises:
        ValueError: the octets are not a name.
    """
    # Names come from the user's hands: length and mark tell a name from octets that are none.
    if len(octets) == NAME_SIZE and octets[:4] == _LCO_MARK:
        _, address, pid, lco, key = _LCO.unpack(octets)
        return Name(address, pid, lco, key)

    if len(octets) == SLOT_NAME_SIZE and octets[:4] == _SLOT_MARK:
        _, address, pid, lco, key, slot = _SLOT.unpack(octets)
        return Name(address, pid, lco, key, slot)

    raise ValueError(
        f"{len(octets)} octets that begin with {octets[:4]!r} are not a name of an LCO or of a slot"
    )


def slot_key(key: bytes, slot: int) -> bytes:
    """Return the key of a receive slot from the key of its LCO."""
    return blake2b(slot.to_bytes(8, "big"), key=key, digest_size=KEY_SIZE).digest()
