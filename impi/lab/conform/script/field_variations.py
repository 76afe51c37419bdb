"""Values that fields of packets may have, generated from the table of fields (3.5).

In a test's ``[each]`` these words stand for lists:

========================= =======================================================================
``values of srqid``       the smallest and largest values of that field, and those about 32 bits
``free fields of DATA``   words such as ``count=-1``: each field that the receiver of this type
                          must not look at, with each of its values
``all free fields of X``  the same words, in as few steps as each needs one value at a time
========================= =======================================================================
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from impi.base.errors import UsageError
from impi.lab.dissect import USED_FIELDS


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the header: its size, and whether it is a signed number (3.5)."""

    bits: int
    signed: bool = False

    @property
    def values(self) -> tuple[int, ...]:
        """The values at which a field of another size or sign would differ."""
        if self.signed:
            return (0, -1, 2 ** (self.bits - 1) - 1, -(2 ** (self.bits - 1)))

        wide = (2**32 - 1, 2**32) if self.bits > 32 else ()

        return (
            0,
            1,
            *wide,
            2 ** (self.bits - 1) - 1,
            2 ** (self.bits - 1),
            2**self.bits - 1,
        )


FIELDS: Final[Mapping[str, Field]] = {
    "len": Field(32),
    "srqid": Field(64),
    "drqid": Field(64),
    "msglen": Field(64),
    "lsrank": Field(32, signed=True),
    "tag": Field(32, signed=True),
    "cid": Field(64),
    "seqnum": Field(64),
    "count": Field(64, signed=True),
    "dtype": Field(64),
    "reserved": Field(64),
}
"""The numbers in a header besides type and procs, by their names in steps."""
# Fields that the receiver of each type looks at (table 3.1). The first packet of a message names no
# request of the receiver, and a short one without an answer only its own.
_USED: Final[Mapping[str, tuple[str, ...]]] = {
    "DATA": ("len", "msglen", "lsrank", "tag", "cid"),
    "DATASYNC": ("len", "srqid", "msglen", "lsrank", "tag", "cid"),
    **USED_FIELDS,
}


def _free(kind: str) -> list[tuple[str, Field]]:
    if kind not in _USED:
        raise UsageError(
            f"there is no packet type {kind!r}; there are {', '.join(_USED)}"
        )

    return [(name, field) for name, field in FIELDS.items() if name not in _USED[kind]]


def variations(text: str) -> tuple[int | str, ...] | None:
    """Return the list for which a word of ``[each]`` stands; None: it stands for itself.

    Raises:
        UsageError: there is no such field or type.
    """

    match = re.fullmatch(r"(values|free fields|all free fields) of (\w+)", text)
    if match is None:
        return None

    what, name = match.groups()
    if what == "values":
        if name not in FIELDS:
            raise UsageError(
                f"there is no field {name!r}; there are {', '.join(FIELDS)}"
            )

        return FIELDS[name].values

    words = [
        [f"{name}={value}" for value in field.values if value]
        for name, field in _free(name)
    ]
    if what == "free fields":
        return tuple(itertools.chain.from_iterable(words))

    # A field with fewer values than others repeats its last one.
    most = max(len(row) for row in words)

    return tuple(
        " ".join(row[min(at, len(row) - 1)] for row in words) for at in range(most)
    )
