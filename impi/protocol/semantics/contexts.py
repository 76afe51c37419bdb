"""Context identifiers of communicators (IMPI 4.3.1).

How it works: an id is agreed on as the maximum of the offers of all procs, so it is above every id
that any of them uses. The range of 64 bits is divided, so that ids made in other ways never meet:

======================= =============================================================
below 2^61              agreed on by the maximum, as IMPI 4.3.1 says
2^61 to 2^62            drawn by lot, for threads that create communicators at once
2^62 to 2^63            ports of LCOs (:mod:`impi.rank.engine.lcos.lco_ports`)
2^63 upwards            copies, made of the parent's id without messages
======================= =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Self

from impi.protocol.semantics.errors import error

COMM_WORLD_CID: Final = 0
"""IMPI 3.3. Collectives use the next, odd id, in every communicator."""
COMM_SELF_CID: Final = 2
"""Never on the wire. Spending it raises the first maximum to 3, which 4.3 allows."""
MAX_CID: Final = 2**64 - 16
"""IMPI_MAX_CID."""
_DRAWN: Final = 1 << 61
_DRAWN_BITS: Final = 60  # Ids from 2^61 to 2^62 are drawn by lot

_COPY: Final = 1 << 63
_COPY_BITS: Final = 22
_PARENTS: Final = 2**40
_HASHED: Final = _COPY | 1 << 62


def copy_cid(parent: int, number: int) -> int:
    """Return the id of a communicator's ``number``-th (from 0) non-blocking duplicate, unasked.

    Several duplicates may be under way at once, begun in different orders; agreement on a maximum
    would then give one id twice. All members know the parent's id and the number, so these make the
    id, in the upper half that the maximum never reaches. IMPI 0.0 has no such operation.

    A copy of a parent with a small id has that id and the number side by side. Any other one, such
    as the copy of a copy, has 60 bits of their hash.
    """

    # Both fit side by side: bit 63, 39 bits of parent, 22 of number, and a last bit of 0, since a
    # point-to-point id is even (4.7).
    if parent < _PARENTS and number < 2**_COPY_BITS:
        return _COPY | (parent >> 1 << _COPY_BITS | number) << 1

    from hashlib import blake2b  # few programs have copies of copies

    digest = blake2b(f"{parent}/{number}".encode(), digest_size=8).digest()

    return _HASHED | int.from_bytes(digest) >> 4 << 1


class ContextIds:
    """IMPI_max_cid of one process: the largest context id in use by it, as far as it knows.

    A new communicator's id is agreed on thus: every process involved offers :meth:`Asking.offer`,
    the maximum of all is computed, and all call :meth:`Asking.take` with it, even processes that
    end up outside.

    Threads of a process may create communicators at the same time, and two agreements with equal
    offers could end with one id for both. So while one has the offer of this process, others offer
    a number drawn by lot, above all that are counted. Two numbers of 59 bits are hardly ever equal.

    Args:
        lock: held while the state changes.
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self.draw: Callable[[int], int] | None = None
        """Returns a random number of the given bits; None: offers of all agreements are alike."""
        self._maximum = COMM_SELF_CID + 1
        self._lock = lock or nullcontext()
        self._asking: Asking | None = None  # The creation that has this process's offer

    @property
    def maximum(self) -> int:
        """The largest id in use that is not a drawn one."""
        return self._maximum

    def contribution(self) -> int:
        """Return the offer of this process, odd: point-to-point ids are even, collective ids odd
        (IMPI 4.7)."""
        # 4.7: the new id is the maximum plus 1, and must be even. Another implementation's maximum
        # may have left ours even.
        if self._maximum % 2 == 0:
            self._maximum += 1

        return self._maximum

    def take(self, maximum: int) -> int:
        """The point-to-point id of the new communicator; its collective id is the next one.

        Raises:
            MPIException: ``ERR_OTHER``, no ids are left.
        """
        # Two ids are needed, and 4.3.1 has none behind IMPI_MAX_CID.
        if maximum >= MAX_CID - 1:
            raise error(
                "ERR_OTHER",
                f"out of contexts: {maximum} is in use and {MAX_CID} is the largest id (IMPI 4.3.1)",
            )

        # A drawn id leaves the maximum alone: else all later ids would lie in the range of drawn
        # ones and could meet them. Procs that stay outside raise theirs as well (4.4).
        if self.draw is None or not _DRAWN <= maximum < 2 * _DRAWN:
            self._maximum = maximum + 2

        return maximum + 1


class Asking:
    """The creation of one communicator, by one thread of this process; also a context manager."""

    def __init__(self, ids: ContextIds) -> None:
        self._ids = ids

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def offer(self) -> int:
        # Not one creation at a time with the others waiting: a creation lasts until the last proc
        # begins it, which may wait for another creation (MPICH's test comm_dup_deadlock).
        ids = self._ids
        with ids._lock:
            # Odd like every offer (4.7), and above all agreed ones, so a drawn
            # number wins the maximum.
            if ids._asking is not None and ids.draw is not None:
                return _DRAWN | ids.draw(_DRAWN_BITS - 1) << 1 | 1

            ids._asking = self
            return ids.contribution()

    def take(self, maximum: int) -> int:
        """Return the id for the maximum of all offers; see :meth:`ContextIds.take`."""
        ids = self._ids
        with ids._lock:
            return ids.take(maximum)

    def end(self) -> None:
        ids = self._ids
        with ids._lock:
            if ids._asking is self:
                ids._asking = None
