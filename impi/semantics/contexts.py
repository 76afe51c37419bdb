"""Context identifiers of communicators (IMPI 4.3.1)."""

from __future__ import annotations

from typing import Final

from impi.semantics.errors import error

__all__ = ["COMM_SELF_CID", "COMM_WORLD_CID", "MAX_CID", "ContextIds", "copy_cid"]

COMM_WORLD_CID: Final = 0
"""IMPI 3.3; its collectives use the next, odd one, as those of every communicator do."""
COMM_SELF_CID: Final = 2
"""Never on the wire. Spending it raises the first maximum to 3, which 4.3 allows."""
MAX_CID: Final = 2**64 - 16
"""IMPI_MAX_CID."""


_PARENT_BITS: Final = 40
_COPY_BITS: Final = 22


def copy_cid(parent: int, number: int) -> int | None:
    """The id of the ``number``-th (from 0) non-blocking duplicate of a communicator, without asking anybody.

    Several of them may be under way at once, begun in different orders, where agreeing on a maximum would give one id
    twice. All members know the parent's id and the number, so these make the id: in the upper half of the ids, which
    the maximum never reaches. IMPI 0.0 has no such operation. None: there is no room, so that ids must be agreed on.
    """
    if parent >> 1 >= 2**_PARENT_BITS - 1 or number >= 2**_COPY_BITS:
        return None
    return 2**63 | parent >> 1 << _COPY_BITS + 1 | number << 1


class ContextIds:
    """IMPI_max_cid of one process: the largest context id in use by it, as far as it knows.

    A new communicator's id is agreed so: every process involved offers :meth:`contribution`, the maximum of all is
    computed, and every one of them calls :meth:`take` with it, also those that end up outside.
    """

    def __init__(self) -> None:
        self._maximum = COMM_SELF_CID + 1

    @property
    def maximum(self) -> int:
        """The largest id in use."""
        return self._maximum

    def contribution(self) -> int:
        """What this process offers: made odd, so that point-to-point ids are even and collective ids odd (IMPI 4.7)."""
        if self._maximum % 2 == 0:
            self._maximum += 1
        return self._maximum

    def take(self, maximum: int) -> int:
        """The point-to-point id of the new communicator; its collective id is the next one.

        Raises:
            MPIException: ``ERR_OTHER``, no ids are left.
        """
        if maximum >= MAX_CID - 1:
            raise error(
                "ERR_OTHER", f"out of contexts: {maximum} is in use and {MAX_CID} is the largest id (IMPI 4.3.1)"
            )
        self._maximum = maximum + 2
        return maximum + 1
