"""Windows of procs that share no memory: every access is a message.

How it works: a window has a communicator of its own, and :mod:`impi.rank.engine.windows` has both
sides of an access. An access of this proc's own memory needs no message, but runs inside the engine
as well, so that it is atomic with those of others. A fence is a reduction that tells each proc how
many others access its memory; a helper thread serves the window while the program computes.
"""

from __future__ import annotations

import contextlib
import operator
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Final, cast

from impi.protocol.collectives import Reduction
from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import LackingError, MPIException
from impi.protocol.semantics.values.places import check_accumulation, check_comparable
from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.constants import WIN_FLAVOR_DYNAMIC
from impi.rank.api.handles.info import Info
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import UserBuffer
from impi.rank.api.windows.accesses import Aim, octets_of
from impi.rank.api.windows.helper import Helper
from impi.rank.api.windows.winstate import (
    WindowState,
    Wish,
    check_disp_unit,
    others,
    raise_first,
)
from impi.rank.engine.channels.payload import BufferSource
from impi.rank.engine.collective import CollectiveOperation, OctetCodec
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import Operation
from impi.rank.engine.windows import access_header as wire
from impi.rank.engine.windows.origin import Access, Origin
from impi.rank.engine.windows.target import Inbox, WindowTarget

_NO_LOCKS: Final = "no_locks"
_NOTHING: Final = memoryview(bytearray())
# For each rank: the number of procs that access its memory before a fence
_COUNT: Final = struct.Struct(">I")


def _added(one: bytes, other: bytes) -> bytes:
    # No count is more than the procs, so none runs over into its neighbour.
    return (int.from_bytes(one, "big") + int.from_bytes(other, "big")).to_bytes(
        len(one), "big"
    )


_COUNTS: Final[Reduction[bytes]] = Reduction(_added)


def create(
    call: str,
    memory: Callable[[], object],
    disp_unit: int,
    flavor: int,
    info: Info,
    comm: Intracomm,
) -> SpreadState:
    """Return a window of several procs; collective.

    Args:
        call: the function of MPI, for errors.
        memory: returns the memory that this proc exposes, or None; may raise Exception.
        disp_unit: octets of a displacement.
        flavor: the constructor.
        info: hints; ``no_locks`` true on all procs: no helper thread.
        comm: the procs.

    Raises:
        Exception: the same class at all procs: a mistake of one in its arguments.
        LackingError: a client of the job does not have windows.
    """

    check_clients(call, comm)
    # Calls on the window and on the communicator may come in any order, and it may be freed first.
    team = Intracomm._wrap(communicator.duplicate(comm._alive()))

    state = None
    try:
        # A proc with a mistake goes on to the allgather, where the others wait for it.
        exposed, mistake = _attempted(memory, disp_unit)
        state = SpreadState(team, exposed, disp_unit if mistake is None else 1, flavor)
        size = state.view.nbytes
        no_locks = bool(info) and info.Get(_NO_LOCKS) == "true"
        wishes: list[Wish] = team.allgather(Wish(size, disp_unit, no_locks, mistake))
        raise_first([wish.mistake for wish in wishes], team.rank)
    except BaseException:
        if state is not None:
            state.close()

        team.Free()
        raise

    state.begin(wishes)

    return state


def check_clients(call: str, comm: Intracomm) -> None:
    """Raise LackingError if not all procs are of this client, or of a version of our own."""
    job, client = runtime.engine().job, runtime.engine().client

    strangers = sorted(
        {job.procs[world].client for world in comm._live().members} - {client}
    )
    if strangers and not job.is_ours:
        raise LackingError(
            f"{call} is not supported with procs of client {strangers[0]}: IMPI 0.0 has no one-sided communication, "
            "and a client of this job offers no version of our own; use messages, or a communicator of one client"
        )


def _attempted(
    memory: Callable[[], object], disp_unit: int
) -> tuple[object, tuple[str, str] | None]:
    try:
        check_disp_unit(operator.index(disp_unit))
        return memory(), None
    except MPIException as failure:
        return None, ("ERR_DISP" if disp_unit <= 0 else "ERR_SIZE", failure.detail)


_helper: Helper | None = None


def _the_helper(engine: Engine) -> Helper:
    global _helper
    if _helper is None:
        _helper = Helper(engine, runtime._failed_in_helper)

    return _helper


class SpreadState(WindowState):
    """A window of several procs.

    Args:
        team: a communicator of its procs, for this window alone.
        memory: the memory that this proc exposes.
        disp_unit: octets of one displacement in it.
        flavor: the constructor that made it.
    """

    __slots__ = (
        "_engine",
        "_origin",
        "_posted",
        "_served",
        "_sizes",
        "_started",
        "_target",
        "_team",
        "_units",
    )

    def __init__(
        self, team: Intracomm, memory: object, disp_unit: int, flavor: int
    ) -> None:
        context = team._live()
        super().__init__(context.members, context.rank, memory, disp_unit, flavor)
        self._team, self._engine = team, runtime.engine()
        self._target = WindowTarget(
            self._engine, context, lambda *where: self.found(self.view, *where)
        )
        self._origin = Origin(self._engine, context, self._target)
        # From here on headers of this window need no receive.
        self._engine.matching.hand_over(context, Inbox(self._target, context))
        # Before the procs agree: another one may access this memory as soon as it has heard all.
        self._engine.turns.start_serving(context)
        self._sizes: list[int] = []
        self._units: list[int] = []
        self._posted: list[int] = []  # between Post and Wait: the ranks
        self._started = True  # whether Complete has to wait for Posts
        self._served = False  # whether the helper thread serves this window

    def begin(self, wishes: Sequence[Wish]) -> None:
        """Store the arguments of all procs; accesses may come from now on."""

        self._sizes = [wish.size for wish in wishes]
        self._units = [wish.disp_unit for wish in wishes]

        self._served = not all(wish.hint for wish in wishes)
        if self._served:
            _the_helper(self._engine).enter()

    def close(self) -> None:
        self._engine.turns.stop_serving(self._team._live())
        if self._served:
            _the_helper(self._engine).leave()

    def segment(self, rank: int) -> tuple[memoryview, int]:
        """Return this proc's memory and displacement unit; of other ranks no memory."""
        if rank == PROC_NULL:
            return _NOTHING, 1

        return (self.view if rank == self.rank else _NOTHING), self._units[rank]

    def check_aim(self, aim: Aim) -> None:
        """Check an access of this proc's memory, or of a window whose sizes all procs know."""
        if aim.rank == self.rank:
            self.place(aim)
        else:
            # Attached regions are known to the target alone: it answers with an error.
            dynamic = self.flavor == WIN_FLAVOR_DYNAMIC
            aim.span(self._units[aim.rank], None if dynamic else self._sizes[aim.rank])

    # ---- accesses --------------------------------------------------------------------------------

    def put(self, message: UserBuffer, aim: Aim) -> Operation | None:
        if aim.rank == self.rank:
            return self._origin.here(lambda: super(SpreadState, self).put(message, aim))

        return self._issue(wire.PUT, "NO_OP", aim, marshalling.source(message), None)

    def get(self, message: UserBuffer, aim: Aim) -> Operation | None:
        if aim.rank == self.rank:
            return self._origin.here(lambda: super(SpreadState, self).get(message, aim))

        return self._issue(wire.GET, "NO_OP", aim, None, message)

    def accumulate(self, name: str, message: UserBuffer, aim: Aim) -> Operation | None:
        if aim.rank == self.rank:
            return self._origin.here(
                lambda: super(SpreadState, self).accumulate(name, message, aim)
            )

        if aim.nbytes:
            check_accumulation(name, message.datatype.typemap, aim.typemap)

        return self._issue(
            wire.ACCUMULATE, name, aim, marshalling.source(message), None
        )

    def get_accumulate(
        self, name: str, message: UserBuffer, answer: UserBuffer, aim: Aim
    ) -> Operation | None:
        if aim.rank == self.rank:
            return self._origin.here(
                lambda: super(SpreadState, self).get_accumulate(
                    name, message, answer, aim
                )
            )

        if aim.nbytes and name != "NO_OP":
            check_accumulation(name, message.datatype.typemap, aim.typemap)

        source = None if name == "NO_OP" else marshalling.source(message)

        return self._issue(wire.FETCH, name, aim, source, answer)

    def swap(
        self, message: UserBuffer, expected: UserBuffer, answer: UserBuffer, aim: Aim
    ) -> Operation | None:
        if aim.rank == self.rank:
            return self._origin.here(
                lambda: super(SpreadState, self).swap(message, expected, answer, aim)
            )

        check_comparable(aim.typemap)
        element = aim.typemap

        # Both operands travel as one array: the value to compare with, then the new one.
        memory = memoryview(bytearray(2 * element.extent))
        for index, each in enumerate((expected, message)):
            element.unpack(
                octets_of(each), memory, index * element.extent, 1, external=False
            )

        return self._issue(
            wire.SWAP,
            "NO_OP",
            aim,
            BufferSource(element, memory, 0, 2, marshalling.long_size()),
            answer,
        )

    def _issue(
        self,
        kind: int,
        op: str,
        aim: Aim,
        source: BufferSource | None,
        result: UserBuffer | None,
    ) -> Operation | None:
        if not aim.nbytes:
            return None

        unit = self._units[aim.rank]
        place = None if result is None else marshalling.target(result)
        access = Access(
            kind, op, (aim.typemap, aim.disp * unit, aim.count), source, place
        )
        self._origin.issue(aim.rank, access, passive=self.epochs.is_locked(aim.rank))

        return cast("Operation", access)  # its ``done`` is a property

    def send_now(self, rank: int) -> None:
        self._origin.send_now(rank)

    # ---- active target ---------------------------------------------------------------------------

    def fence(self, *, begins: bool) -> None:
        """End an epoch: all accesses of it are complete here and at this proc's memory."""

        # Thakur et al., EuroPVM/MPI 2004: a reduction in place of a barrier. It tells each target
        # how many origins to wait for, and a fence without accesses sends nothing more.
        if begins:
            return

        engine, context = self._engine, self._team._live()
        busy = b"".join(map(_COUNT.pack, self._origin.targets()))
        algorithm = self._team._alive().algorithms.allreduce(busy, _COUNTS)
        operation = CollectiveOperation(engine, context, algorithm, OctetCodec())

        engine.turns.wait_for(operation)
        if operation.failure is not None:
            raise operation.failure

        self._origin.fence(
            _COUNT.unpack_from(operation.result, self.rank * _COUNT.size)[0]
        )

    def post(self, ranks: Collection[int], *, checked: bool) -> None:
        self._posted = others(ranks, self.rank)
        if not checked:
            self._origin.post(self._posted)

    def start(self, ranks: Collection[int], *, checked: bool) -> None:
        """Store whether Complete has to wait for Posts."""
        self._started = not checked

    def complete(self, ranks: Collection[int]) -> None:
        """Wait until ranks have posted; send the accesses, and that they are complete."""
        self._origin.complete(others(ranks, self.rank), posted=self._started)

    def await_accesses(self) -> None:
        self._origin.await_completed(self._posted)
        self.accesses_done()

    def accesses_done(self) -> bool:
        done = self._origin.completed(self._posted)
        if done:
            self._origin.forget_completed(self._posted)
            self._posted = []

        return done

    # ---- passive target --------------------------------------------------------------------------

    def lock(self, rank: int | None, *, exclusive: bool) -> None:
        """Lock this proc's memory now, that of others with the first access."""
        self._origin.lock(self._ranks(rank), exclusive=exclusive)

    def unlock(self, rank: int | None) -> None:
        self._origin.unlock(self._ranks(rank))

    def flush(self, rank: int | None) -> None:
        self._origin.flush(self._ranks(rank))

    def flush_local(self, rank: int | None) -> None:
        self._origin.flush_local(self._ranks(rank))

    def _ranks(self, rank: int | None) -> Sequence[int]:
        return range(len(self.members)) if rank is None else [rank]

    def sync(self) -> None:
        """Serve the accesses that have arrived: a program may wait for them by loads."""
        self._origin.progress()
        super().sync()

    # ---- end -------------------------------------------------------------------------------------

    def release(self) -> None:
        # Served until the barrier: only then have all procs completed their accesses here.
        with contextlib.ExitStack() as stack:
            stack.callback(self._team.Free)
            stack.callback(self.close)
            self._origin.flush(self._ranks(None))
            self._team.Barrier()
