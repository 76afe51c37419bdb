"""Epochs of a window (MPI 4.1, 12.5): the order in which one process may make its calls.

How it works: a small state machine without communication, asked before each call of a window. The
state is that of access epochs (fence, Start, locks) and of the exposure epoch (Post). A call that
would wait for this process itself, and so for ever, is an error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.constants import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
)

_FENCE: Final = MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED
_POST: Final = MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT


class Epochs:
    """The open epochs of rank ``me``.

    All methods raise Exception: ``ERR_RMA_SYNC``: call out of order; ``ERR_ASSERT``: assertion.
    """

    def __init__(self, me: int = 0) -> None:
        self._me = me
        self.fenced = False  # whether a fence has begun an epoch
        self._locked: set[int] = set()  # locked ranks; PROC_NULL may be one
        self._all_locked = False
        # Between Start and Complete: the targets; else None
        self._started: Collection[int] | None = None
        # Between Post and Wait: whether the process itself may access; else None
        self._posted: bool | None = None
        self._completed = False  # whether a Complete has answered the Post

    def is_locked(self, rank: int) -> bool:
        return self._all_locked or rank in self._locked

    # ---- active target ---------------------------------------------------------------------------

    def fence(self, assertion: int) -> None:
        _check_assertion("Fence", assertion, _FENCE)
        # A fence ends an epoch and begins one, unless it promises that no access follows. So no
        # call says that fences have ended: the flag stays until a fence with NOSUCCEED.
        self._refuse("Fence", started=True, posted=True, locked=True)
        self.fenced = not assertion & MODE_NOSUCCEED

    def start(self, assertion: int, ranks: Collection[int]) -> None:
        _check_assertion("Start", assertion, MODE_NOCHECK)
        # Not ``posted``: a process may be origin and target at once, as long as nothing is locked.
        self._refuse("Start", started=True, locked=True)
        self._started = ranks

    def complete(self) -> Collection[int]:
        """End the access epoch of :meth:`start`; return its ranks."""

        if self._started is None:
            raise _sync("Complete has no Start before it")

        # To itself a process is origin and target: its Complete would wait for a Post that it can
        # only make after this call.
        if self._me in self._started:
            if not self._posted or self._completed:
                raise _sync(
                    "Complete would wait for ever: this process is its own target and has not called Post"
                )

            self._completed = True

        ranks, self._started = self._started, None

        return ranks

    def post(self, assertion: int, ranks: Collection[int]) -> None:
        _check_assertion("Post", assertion, _POST)
        self._refuse("Post", posted=True, locked=True)
        self._posted, self._completed = self._me in ranks, False

    def wait(self) -> None:
        if not self.test():
            raise _sync(
                "Wait would wait for ever: this process has not called Start and Complete"
            )

    def test(self) -> bool:
        """Return whether all accesses are complete; end the epoch of :meth:`post` if so."""

        if self._posted is None:
            raise _sync("Wait and Test need a Post before them")

        if self._posted and not self._completed:
            return False

        self._posted, self._completed = None, False

        return True

    # ---- passive target --------------------------------------------------------------------------

    def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        """Begin to access one rank.

        Raises:
            Exception: ``ERR_LOCKTYPE``: neither LOCK_EXCLUSIVE nor LOCK_SHARED.
        """

        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise error(
                "ERR_LOCKTYPE",
                f"lock type {lock_type} is neither LOCK_EXCLUSIVE nor LOCK_SHARED",
            )

        _check_assertion("Lock", assertion, MODE_NOCHECK)

        self._refuse("Lock", started=True, posted=True)
        if self._all_locked or rank in self._locked:
            raise _sync(f"rank {rank} is locked already: call Unlock first")

        self._locked.add(rank)

    def unlock(self, rank: int) -> None:
        if rank not in self._locked:
            raise _sync(f"rank {rank} is not locked: Unlock needs a Lock before it")

        self._locked.remove(rank)

    def lock_all(self, assertion: int) -> None:
        _check_assertion("Lock_all", assertion, MODE_NOCHECK)
        self._refuse("Lock_all", started=True, posted=True, locked=True)
        self._all_locked = True

    def unlock_all(self) -> None:
        if not self._all_locked:
            raise _sync("Unlock_all has no Lock_all before it")

        self._all_locked = False

    # ---- checks ----------------------------------------------------------------------------------

    def check_access(self, rank: int) -> None:
        if not (
            self.fenced
            or self._all_locked
            or rank in (self._started or ())
            or rank in self._locked
        ):
            # An epoch with an empty group is one for PROC_NULL, too.
            if rank < 0 and (self._started is not None or self._locked):
                return

            raise _sync("there is no epoch: call Fence, Start, Lock or Lock_all first")

    def check_passive(self, rank: int | None = None) -> None:
        # Below 0 is PROC_NULL: a call with it does nothing, in any epoch of locks.
        locked = (
            bool(self._locked) if rank is None or rank < 0 else rank in self._locked
        )
        if not (locked or self._all_locked):
            raise _sync("the call needs a locked target: call Lock or Lock_all first")

    def check_closed(self) -> None:
        """Check that the window can be freed; an epoch between fences may be open."""
        self._refuse("Free", started=True, posted=True, locked=True)

    def _refuse(
        self,
        call: str,
        *,
        started: bool = False,
        posted: bool = False,
        locked: bool = False,
    ) -> None:
        if started and self._started is not None:
            raise _sync(f"{call} must not come between Start and Complete")

        if posted and self._posted is not None:
            raise _sync(f"{call} must not come between Post and Wait")

        if locked and (self._locked or self._all_locked):
            raise _sync(
                f"{call} must not come while the window is locked: call Unlock or Unlock_all first"
            )


def _sync(detail: str) -> MPIException:
    return error("ERR_RMA_SYNC", detail)


def _check_assertion(call: str, assertion: int, allowed: int) -> None:
    if assertion & ~allowed:
        raise error(
            "ERR_ASSERT", f"{call} does not have the assertion {assertion & ~allowed}"
        )
