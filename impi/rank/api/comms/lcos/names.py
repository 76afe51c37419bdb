"""Names of LCOs and of receive slots as values of the program, and MPI_CNAME."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self, TypeAlias

from impi.protocol.semantics.errors import error
from impi.protocol.slots.names import NAME_SIZE, SLOT_NAME_SIZE, Name, parse
from impi.rank.api.types.datatypes import BYTE, Datatype

Octets: TypeAlias = bytes | bytearray | memoryview
"""The forms in which a name may be given."""


class _OctetName(bytes):
    """Octets with a meaning; whoever has them can send, so they are not shown."""

    _size: ClassVar[int]
    _of_what: ClassVar[str]

    def __new__(cls, octets: Octets) -> Self:
        """Return a name from its octets.

        Raises:
            Exception: ERR_PORT: they are none.
        """
        self = super().__new__(cls, octets)
        try:
            if len(self) != cls._size:
                raise ValueError(
                    f"{len(self)} octets are not a name of {cls._of_what}, which has {cls._size}"
                )

            self.meaning()
        except ValueError as failure:
            raise error("ERR_PORT", str(failure)) from None

        return self

    def meaning(self) -> Name:
        return parse(bytes(self))

    def __repr__(self) -> str:
        name = self.meaning()
        slot = "" if name.slot is None else f", receive slot {name.slot}"
        return f"<{type(self).__name__} of LCO {name.lco} of process {name.pid}{slot}>"

    __str__ = __repr__


class LcoName(_OctetName):
    """The name of an LCO: :data:`CNAME` of it, or its pickle, can be sent to any process."""

    _size = NAME_SIZE
    _of_what = "an LCO"


class SlotName(_OctetName):
    """The name of one receive slot: it opens that slot, and no other one of its LCO."""

    _size = SLOT_NAME_SIZE
    _of_what = "a receive slot"


def _cname() -> Datatype:
    datatype = BYTE.Create_contiguous(NAME_SIZE).Commit()
    datatype.Set_name("MPI_CNAME")
    return datatype


CNAME: Final = _cname()
"""Datatype of the name of an LCO: ``comm.Send([name, 1, MPI.CNAME], dest)``."""


def names_of_lcos(names: Octets | Sequence[Octets]) -> list[Name]:
    """Return the meanings of names of LCOs: a sequence of names, or one buffer with several.

    Raises:
        Exception: ERR_PORT: one is not a name of an LCO.
    """
    if isinstance(names, bytes | bytearray | memoryview):
        octets = bytes(names)

        whole, rest = divmod(len(octets), NAME_SIZE)
        if rest:
            raise error(
                "ERR_PORT",
                f"{len(octets)} octets are not names of LCOs, each of which has {NAME_SIZE}",
            )

        names = [octets[i * NAME_SIZE : (i + 1) * NAME_SIZE] for i in range(whole)]

    return [LcoName(name).meaning() for name in names]
