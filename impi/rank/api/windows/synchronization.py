"""The calls that synchronize the procs of a window (MPI 4.1, 12.5); its object does the work."""

from __future__ import annotations

from typing import Literal

from impi.protocol.semantics.constants import PROC_NULL
from impi.rank.api.comms.groups import Group
from impi.rank.api.constants import LOCK_EXCLUSIVE, MODE_NOCHECK, MODE_NOPRECEDE
from impi.rank.api.handles.failing import guarded
from impi.rank.api.windows.winstate import WindowState


@guarded
class Synchronization:
    """The epochs of a window; :class:`impi.rank.api.windows.window.Win` inherits them.

    Exception of all: ``ERR_RMA_SYNC``: out of order; ``ERR_RANK``; ``ERR_GROUP``; ``ERR_ASSERT``.
    """

    def _live(self) -> WindowState:
        raise NotImplementedError

    def Fence(self, assertion: int = 0) -> None:
        state = self._live()
        # The first fence ends no epoch, nor does one that promises that no access came before
        # (MODE_NOPRECEDE). If one proc gives that assertion, all must (MPI 4.1, 12.5.5).
        begins = not state.epochs.fenced or bool(assertion & MODE_NOPRECEDE)
        state.epochs.fence(assertion)
        state.fence(begins=begins)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the procs of a group, once they have called :meth:`Post`."""
        state, ranks = self._procs(group)
        state.epochs.start(assertion, ranks)
        state.start(ranks, checked=bool(assertion & MODE_NOCHECK))

    def Complete(self) -> None:
        state = self._live()
        state.complete(state.epochs.complete())

    def Post(self, group: Group, assertion: int = 0) -> None:
        state, ranks = self._procs(group)
        state.epochs.post(assertion, ranks)
        state.post(ranks, checked=bool(assertion & MODE_NOCHECK))

    def Wait(self) -> Literal[True]:
        """End the exposure epoch of :meth:`Post`; raise if only this process could end the wait."""

        state = self._live()
        state.await_accesses()
        state.epochs.wait()

        return True

    def Test(self) -> bool:
        """Return whether the epoch of :meth:`Post` can end; end it if so."""
        state = self._live()
        return state.accesses_done() and state.epochs.test()

    def Lock(
        self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0
    ) -> None:
        """Begin to access a rank; MODE_NOCHECK promises that no other lock excludes this one."""
        state = self._checked(rank)

        state.epochs.lock(rank, lock_type, assertion)
        if rank != PROC_NULL and not assertion & MODE_NOCHECK:
            state.lock(rank, exclusive=lock_type == LOCK_EXCLUSIVE)

    def Unlock(self, rank: int) -> None:
        state = self._checked(rank)

        state.epochs.unlock(rank)
        if rank != PROC_NULL:
            state.unlock(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        state = self._live()

        state.epochs.lock_all(assertion)
        if not assertion & MODE_NOCHECK:
            state.lock(None, exclusive=False)

    def Unlock_all(self) -> None:
        state = self._live()
        state.epochs.unlock_all()
        state.unlock(None)

    def Flush(self, rank: int) -> None:
        state = self._passive(rank)
        if rank != PROC_NULL:
            state.flush(rank)

    def Flush_all(self) -> None:
        self._passive().flush(None)

    def Flush_local(self, rank: int) -> None:
        state = self._passive(rank)
        if rank != PROC_NULL:
            state.flush_local(rank)

    def Flush_local_all(self) -> None:
        self._passive().flush_local(None)

    def Sync(self) -> None:
        """Order loads and stores of this proc before the call and those after it."""
        self._live().sync()

    # ---- inside ----------------------------------------------------------------------------------

    def _procs(self, group: Group) -> tuple[WindowState, list[int]]:
        state = self._live()
        return state, state.ranks_of(group._ranks)

    def _checked(self, rank: int) -> WindowState:
        state = self._live()
        state.check_rank(rank)
        return state

    def _passive(self, rank: int | None = None) -> WindowState:
        state = self._live() if rank is None else self._checked(rank)
        state.epochs.check_passive(rank)
        return state
