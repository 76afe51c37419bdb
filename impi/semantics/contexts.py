"""Context identifiers of communicators (IMPI 4.3.1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Self

from impi.semantics.errors import error

COMM_WORLD_CID: Final = 0
"""IMPI 3.3; its collectives use the next, odd one, as those of every communicator do."""
COMM_SELF_CID: Final = 2
"""Never on the wire. Spending it raises the first maximum to 3, which 4.3 allows."""
MAX_CID: Final = 2**64 - 16
"""IMPI_MAX_CID."""
_DRAWN: Final = 1 << 61
_DRAWN_BITS: Final = 60
"""Ids from 2^61 to 2^62 are drawn by lot."""

_COPY: Final = 1 << 63
_COPY_BITS: Final = 22
_LAST_PARENT: Final = 2**39
_PATH_BITS: Final = 61


def copy_cid(parent: int, number: int) -> int | None:
    """Return the id of a communicator's ``number``-th (from 0) non-blocking duplicate, unasked.

    Several duplicates may be under way at once, begun in different orders; agreement on a maximum
    would then give one id twice. All members know the parent's id and the number, so these make the
    id, in the upper half that the maximum never reaches. IMPI 0.0 has no such operation. None:
    there is no room, so ids must be agreed on.

    A copy of a parent with an agreed id has that id and the number side by side. A copy of a copy
    has the path that leads to it: the first parent and all numbers in Elias' delta code in
    sequence, a 1, and zeros. A field above any agreed id marks this form.
    """
    if number >= 2**_COPY_BITS:
        return None
    if parent < _COPY:
        if parent >> 1 > _LAST_PARENT:
            return None
        return _COPY | (parent >> 1 << _COPY_BITS | number) << 1
    path = _path(parent) + _delta(number)
    code = f"{path}1".ljust(_PATH_BITS, "0")
    if len(code) > _PATH_BITS or "0" not in code[:39]:
        return None
    return _COPY | (1 << _PATH_BITS | int(code, 2)) << 1


def _path(cid: int) -> str:
    """Return the numbers by which a copy came to be, as bits."""
    value = (cid ^ _COPY) >> 1
    parent, number = value >> _COPY_BITS, value % (1 << _COPY_BITS)
    if parent <= _LAST_PARENT:
        return _delta(parent) + _delta(number)
    return f"{value ^ 1 << _PATH_BITS:0{_PATH_BITS}b}".rstrip("0")[:-1]


def _delta(number: int) -> str:
    """Return a self-delimiting code of ``number`` (P. Elias, IEEE Trans. Inform. Theory 21)."""
    digits = f"{number + 1:b}"
    length = f"{len(digits):b}"
    return "0" * (len(length) - 1) + length + digits[1:]


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
        """Returns a random number of so many bits; None: offers of all agreements are alike."""
        self._maximum = COMM_SELF_CID + 1
        self._lock = lock or nullcontext()
        self._asking: Asking | None = None
        """The creation that has this process's offer."""

    @property
    def maximum(self) -> int:
        """The largest id in use that is no drawn one."""
        return self._maximum

    def contribution(self) -> int:
        """Return the offer of this process, odd: point-to-point ids are even, collective ids odd
        (IMPI 4.7)."""
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
        """Return the offer of this process."""
        ids = self._ids
        with ids._lock:
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
        """Give the offer of this process to others."""
        ids = self._ids
        with ids._lock:
            if ids._asking is self:
                ids._asking = None
