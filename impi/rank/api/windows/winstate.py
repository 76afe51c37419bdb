"""The object behind the handles of a window: its memory and targets in it (MPI 4.1, 12.2).

How it works: :class:`WindowState` is a window of one proc. Its accesses are copies in its own
memory, and its synchronization waits for no one. Windows of several procs derive from it and
replace :meth:`WindowState.segment` and the section on agreement: by memory that the procs share
(:mod:`.shared`), or by messages (:mod:`.spread`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, Final

from impi.base.records import record
from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.datatype import TypeMap
from impi.protocol.semantics.values.places import Place
from impi.rank.api.constants import WIN_FLAVOR_DYNAMIC
from impi.rank.api.handles import Errhandler, Info, State, initial
from impi.rank.api.types.memory import address_of, octets_of
from impi.rank.api.windows.accesses import Aim, Direct, outside
from impi.rank.api.windows.epochs import Epochs

HINTS: Final = {
    "accumulate_ordering": "rar,raw,war,waw",
    "accumulate_ops": "same_op_no_op",
    "mpi_accumulate_granularity": "0",
    "no_locks": "false",
    "same_size": "false",
    "same_disp_unit": "false",
    "alloc_shared_noncontig": "false",
}
"""Hints of a window that MPI knows, with their defaults (12.2 of MPI); others are ignored."""


class WindowState(State, Direct):
    """A window of one process; :class:`impi.rank.api.windows.shared.SharedState` is one of several.

    Args:
        members: world ranks of the procs.
        rank: position of this proc among them.
        memory: the memory that this proc exposes.
        disp_unit: octets of one displacement in it.
        flavor: the constructor that made it.
    """

    __slots__ = (
        "attributes", "base", "disp_unit", "epochs", "errhandler", "flavor", "freed", "info", "members", "memory",
        "name", "ordering", "rank", "regions", "view",
    )  # fmt: skip

    def __init__(
        self,
        members: Sequence[int],
        rank: int,
        memory: Any,
        disp_unit: int,
        flavor: int,
    ) -> None:
        super().__init__()
        check_disp_unit(disp_unit)
        self.members, self.rank = tuple(members), rank
        self.memory = memory
        self.view = (
            memoryview(bytearray())
            if memory is None
            else octets_of(memory, readonly=False)[0]
        )
        self.base = address_of(self.view)
        self.disp_unit = disp_unit
        self.flavor = flavor
        # Address to region, for a dynamic window
        self.regions: dict[int, memoryview] = {}
        self.epochs = Epochs(rank)
        self.attributes: dict[int, Any] = {}
        self.errhandler: Errhandler = initial()
        self.info = Info.Create(HINTS)
        self.name = ""
        # Taking and leaving a lock is a fence for the memory of the processor
        self.ordering = Lock()
        self.freed = False

    def hint(self, info: Info) -> None:
        self.info.update([(key, value) for key, value in info.items() if key in HINTS])

    # ---- memory of a dynamic window --------------------------------------------------------------

    def attach(self, memory: Any) -> None:
        """Attach a region.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is not dynamic; ``ERR_RMA_ATTACH``: overlap.
        """

        self._check_dynamic()
        view = octets_of(memory, readonly=False)[0]

        address = address_of(view)
        for other, region in self.regions.items():
            # Two regions of no octets at one address count as an overlap: MPI_Win_detach could not
            # tell them apart.
            if address == other or (
                address < other + region.nbytes and other < address + view.nbytes
            ):
                raise error(
                    "ERR_RMA_ATTACH",
                    f"{view.nbytes} octets at {address:#x} overlap an attached region",
                )

        self.regions[address] = view

    def detach(self, memory: Any) -> None:
        """Detach a region.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is not dynamic; ``ERR_RMA_ATTACH``: unknown.
        """

        self._check_dynamic()

        address = address_of(octets_of(memory, readonly=False)[0])
        if address not in self.regions:
            raise error("ERR_RMA_ATTACH", f"no region at {address:#x} is attached")

        del self.regions[address]

    def _check_dynamic(self) -> None:
        if self.flavor != WIN_FLAVOR_DYNAMIC:
            raise error(
                "ERR_RMA_FLAVOR",
                "only the regions of a window from Create_dynamic can be attached",
            )

    # ---- targets ---------------------------------------------------------------------------------

    def check_rank(self, rank: int) -> None:
        """Check that a rank is in the window, or PROC_NULL (MPI 4.1, 12.3).

        Raises:
            Exception: ``ERR_RANK``.
        """
        if rank != PROC_NULL and not 0 <= rank < len(self.members):
            raise error(
                "ERR_RANK",
                f"rank {rank} is not in 0..{len(self.members) - 1}, the ranks of the window",
            )

    def ranks_of(self, worlds: Sequence[int]) -> list[int]:
        """Return the ranks of procs in the window.

        Raises:
            Exception: ``ERR_GROUP``: one is not in the window.
        """
        if set(worlds) - set(self.members):
            raise error("ERR_GROUP", "the group has procs that are not in the window")

        return [self.members.index(world) for world in worlds]

    def segment(self, rank: int) -> tuple[memoryview, int]:
        """Return memory and displacement unit of a rank; PROC_NULL: the first rank with memory."""
        return self.view, self.disp_unit

    def check_aim(self, aim: Aim) -> None:
        """Check that the target's elements are in its memory, as far as this proc can know.

        Raises:
            Exception: ``ERR_RMA_RANGE``.
        """
        self.place(aim)

    def place(self, aim: Aim) -> Place:
        memory, disp_unit = self.segment(aim.rank)
        aim.span(
            disp_unit, None if self.flavor == WIN_FLAVOR_DYNAMIC else memory.nbytes
        )
        return self.found(memory, aim.disp * disp_unit, aim.count, aim.typemap)

    def found(
        self, memory: memoryview, offset: int, count: int, typemap: TypeMap
    ) -> Place:
        """Return elements at an octet of ``memory``, or at an address in a dynamic window.

        Raises:
            Exception: ``ERR_RMA_RANGE``: not all of them are there.
        """

        # No elements are in no region, so none is looked for.
        first, last = typemap.span(offset, count)
        if first == last:
            return Place(memoryview(bytearray()), 0, 0, typemap)

        # One region must hold all elements, because a Place is in one memoryview: neighbours that
        # were attached apart are two objects in Python.
        regions = self.regions if self.flavor == WIN_FLAVOR_DYNAMIC else {0: memory}
        for begin, view in regions.items():
            if begin <= first and last <= begin + view.nbytes:
                return Place(view, offset - begin, count, typemap)

        where = (
            "attached regions"
            if self.flavor == WIN_FLAVOR_DYNAMIC
            else f"window of {memory.nbytes} octets"
        )
        raise outside(count, first, last, where)

    # ---- agreement with the other procs; here there are none -------------------------------------

    def exclusively(self, rank: int) -> AbstractContextManager[object]:
        return nullcontext()

    def fence(self, *, begins: bool) -> None:
        """Wait until all procs call it; ``begins``: no access can have come before it."""

    def post(self, ranks: Collection[int], *, checked: bool) -> None:
        """Let ranks access this proc's memory; ``checked``: they know of it without a message."""

    def start(self, ranks: Collection[int], *, checked: bool) -> None:
        """Wait until ranks have posted, at once or in a later call; ``checked``: they have."""

    def complete(self, ranks: Collection[int]) -> None:
        """Let ranks know that their memory is not accessed any more."""

    def await_accesses(self) -> None:
        """Wait until the ranks of :meth:`post` have completed."""

    def accesses_done(self) -> bool:
        """Return whether :meth:`await_accesses` would not wait."""
        return True

    def lock(self, rank: int | None, *, exclusive: bool) -> None:
        """Wait until no other proc has a lock that excludes this one, now or later.

        The lock is that of a rank, or with None those of all.
        """

    def unlock(self, rank: int | None) -> None:
        """Give the lock of a rank back, or those of all."""

    def flush(self, rank: int | None) -> None:
        """Wait until all accesses of a rank, or of all, are complete there."""

    def flush_local(self, rank: int | None) -> None:
        """Wait until the buffers of all accesses of a rank, or of all, are free."""

    def send_now(self, rank: int) -> None:
        """Send the accesses of a rank that wait."""

    def sync(self) -> None:
        """Order loads and stores of this proc."""
        with self.ordering:
            pass

    def release(self) -> None:
        """Wait until all procs free the window; give back its resources."""


@record
class Wish:
    """The arguments of one proc, and its mistake in them: a class of errors and a sentence."""

    size: int
    disp_unit: int
    hint: bool  # of the hint that the kind of window knows, whether it is "true"
    mistake: tuple[str, str] | None


def others(ranks: Collection[int], me: int) -> list[int]:
    """Return the ranks that need messages about an epoch: all but ``me``.

    The order of calls alone decides about accesses to oneself (:class:`.epochs.Epochs`).
    """
    return [rank for rank in ranks if rank != me]


def check_disp_unit(disp_unit: int) -> None:
    """Check a displacement unit; Exception ``ERR_DISP`` unless it is positive."""
    if disp_unit <= 0:
        raise error(
            "ERR_DISP", f"the displacement unit must be positive, not {disp_unit}"
        )


def check_size(size: int) -> None:
    """Check the octets of a window; Exception ``ERR_SIZE`` if negative."""
    if size < 0:
        raise error("ERR_SIZE", f"a window cannot have {size} octets")


def raise_first(mistakes: Sequence[tuple[str, str] | None], me: int) -> None:
    """Raise the first mistake of all procs, at each of them."""
    for rank, mistake in enumerate(mistakes):
        if mistake is not None:
            # A window exists at all procs or at none, so the failure is everybody's. ``told`` keeps
            # the others from blaming their own call.
            failure = error(
                mistake[0], mistake[1] if rank == me else f"rank {rank}: {mistake[1]}"
            )
            failure.told = rank != me
            raise failure
