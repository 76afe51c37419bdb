"""Blocking collectives of a communicator inside one client: calls of its library on user memory.

How it works: the first call of each collective binds the library's method, watched by the progress
thread (:mod:`impi.rank.engine.job.progress_thread`), which serves channels and local messages while
a call lasts. Each call translates the program's arguments into the library's
(:class:`.native_specs.NativeSpecs`). docs/decisions/client-local-collectives.md has the measured
alternatives: polled non-blocking calls took up to 4 times as long (Reduce of 64 KiB, Open MPI).

The choice depends only on the communicator, the operation, and arguments that are equal at all
members (the reduction and its datatype). So all members make the same call.

Erroneous programs (unequal roots or lengths) get the checks of the library. A member that cannot
take part tells the others; if one of these is in the library already, the job ends with the reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from impi.base.errors import ImpiError
from impi.protocol.job import REPRODUCIBLE
from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.collective.blocking import BY_MESSAGES
from impi.rank.api.collective.native_specs import NativeSpecs
from impi.rank.api.collective.operation_table import (
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BARRIER,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    SCATTER,
    SCATTERV,
    Blocking,
    Collective,
    Strategy,
)
from impi.rank.api.collective.reduction_plan import library_names
from impi.rank.api.constants import IN_PLACE
from impi.rank.api.handles.failing import Owner, failed
from impi.rank.api.handles.integers import fitting
from impi.rank.api.types.ops import Op
from impi.rank.api.types.typestate import TypeState
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.job.progress_thread import ProgressThread
from impi.rank.vendors.base import NativeComm

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


# Error classes that a library finds before it sends anything.
_NOTHING_BEGUN: Final = frozenset(
    ERROR_CLASSES[name][0]
    for name in ("ERR_ARG", "ERR_BUFFER", "ERR_COUNT", "ERR_OP", "ERR_ROOT", "ERR_TYPE")
)


_NO_REDUCTION: Final = (None, None)

# Translates the program's arguments to the library's; None: no such reduction there.
_Translate = Callable[..., tuple[object, ...] | None]


class ClientLocal(Strategy):
    """The blocking collectives of one communicator.

    Args:
        engine: of this proc.
        context: of the communicator.
        native: the library's communicator of the same members.
        thread: serves the engine while a call lasts.
    """

    def __init__(
        self,
        engine: Engine,
        context: Context,
        native: NativeComm,
        thread: ProgressThread,
    ) -> None:
        self._engine = engine
        self._context = context
        self._faults = context.faults
        self._native = native
        self._rank, self._size = context.rank, len(context.members)
        self._thread = thread
        self._reductions: dict[tuple[object, object], tuple[Any, Any]] = {}
        self._reduces = REPRODUCIBLE not in engine.job.collectives

    def __missing__(self, operation: Collective) -> Blocking:
        """Make a collective at its first call: most communicators have few of them called."""
        call = self[operation] = self._bound(operation, _TRANSLATIONS[operation])
        return call

    @cached_property
    def _specs(self) -> NativeSpecs:
        return NativeSpecs(self._native, self._size)

    def _bound(self, operation: Collective, translate: _Translate) -> Blocking:
        """Return a collective of the library; it raises errors of the library and of buffers."""

        name = operation.name
        call = self._thread.around(self._context, getattr(self._native.comm, name))
        faults, collectives = self._context.faults, self._context.under_way.collectives
        counter, unpacking = self._native.counter, self._specs.unpacking

        def run(comm: Any, *args: object) -> None:
            begun = False
            try:
                # Two tests of plain attributes: a program without errors and non-blocking
                # collectives pays nothing more here.
                if collectives or not faults.calm:
                    self._settle()

                translated = translate(self, *args)
                if not faults.calm:
                    faults.expect()

                # None: the library lacks this reduction. All members find that alike, since MPI
                # makes operation and datatype equal, so all go by messages.
                if translated is not None:
                    begun = True
                    # Numbered like a collective by messages, as the others may refuse this number.
                    faults.begun += 1
                    counter.messages += 1
                    call(*translated)
            except Exception as failure:
                raise self._failed(name, failure, comm._owner, begun) from None

            if translated is None:
                BY_MESSAGES[operation](comm, *args)
            elif unpacking:
                self._unpack(name, comm._owner)

        return run

    def _settle(self) -> None:
        """Wait for earlier non-blocking collectives: all procs make calls in one order."""
        context, faults = self._context, self._faults

        context.count_waiting(1)  # a local message may report a refusal
        try:
            self._engine.turns.wait(
                lambda: (
                    faults.broken
                    or (faults.settled and not context.under_way.collectives)
                )
            )
        finally:
            context.count_waiting(-1)

    def _refuse(self, name: str, failure: Exception, owner: Owner | None) -> None:
        """Tell the others of this proc's failure, unless the job ends here or they know."""

        # A fatal handler ends the job, and a failure that was told has reached the others already.
        known = failure if isinstance(failure, MPIException) else None

        fatal = known is not None and owner is not None and owner.errhandler._is_fatal()
        if (
            not isinstance(failure, ImpiError)
            and not fatal
            and not (known and known.told)
        ):
            self._faults.refuse(name, failure)

        if isinstance(failure, ImpiError | MPIException):
            failed(failure, owner, name)

    def _failed(
        self, name: str, failure: Exception, owner: Owner | None, begun: bool
    ) -> Exception:
        """Return the exception for the program; ``begun``: the library or its mpi4py raised it."""

        # Else the next call would unpack what this one has not received.
        self._specs.unpacking.clear()
        if not begun:
            self._refuse(name, failure, owner)
            return failure

        # The class tells whether the library has sent anything. If not, the call is refused like
        # one of ours; otherwise the others are inside, and only the end of the job frees them.
        ours = (
            self._native.translated(failure)
            if isinstance(failure, self._native.failure)
            else None
        )
        if ours is None or ours.error_class in _NOTHING_BEGUN:
            # refuse() counts the call itself.
            self._faults.begun -= 1
            self._refuse(name, ours or failure, owner)
        else:
            self._faults.abandon(name, ours)  # the others are in it
            failed(ours, owner, name)

        return ours or failure

    def _unpack(self, name: str, owner: Owner | None) -> None:
        try:
            self._specs.unpack()
        except MPIException as failure:
            failed(failure, owner, name)
            raise

    # ---- the program's arguments as the library's ------------------------------------------------

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self._size:
            fitting(root)
            raise error("ERR_ROOT", f"root {root} is not in 0..{self._size - 1}")

    def _barrier(self) -> tuple[object, ...]:
        return ()

    def _bcast(self, buf: BufferSpec, root: int) -> tuple[object, ...]:
        self._check_root(root)
        return self._specs.one(buf, root != self._rank), root

    def _gather(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int
    ) -> tuple[object, ...]:
        self._check_root(root)
        into = self._specs.each(recvbuf, True) if root == self._rank else None
        return self._specs.one(sendbuf, False), into, root

    def _gatherv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int
    ) -> tuple[object, ...]:
        self._check_root(root)
        into = self._specs.several(recvbuf, True) if root == self._rank else None
        return self._specs.one(sendbuf, False), into, root

    def _scatter(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int
    ) -> tuple[object, ...]:
        self._check_root(root)
        pieces = self._specs.each(sendbuf, False) if root == self._rank else None
        return pieces, self._specs.one(recvbuf, True), root

    def _scatterv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int
    ) -> tuple[object, ...]:
        self._check_root(root)
        pieces = self._specs.several(sendbuf, False) if root == self._rank else None
        return pieces, self._specs.one(recvbuf, True), root

    def _allgather(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec
    ) -> tuple[object, ...]:
        return self._specs.one(sendbuf, False), self._specs.each(recvbuf, True)

    def _allgatherv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec
    ) -> tuple[object, ...]:
        return self._specs.one(sendbuf, False), self._specs.several(recvbuf, True)

    def _alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> tuple[object, ...]:
        return self._specs.each(sendbuf, False), self._specs.each(recvbuf, True)

    def _alltoallv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec
    ) -> tuple[object, ...]:
        return self._specs.several(sendbuf, False), self._specs.several(recvbuf, True)

    def _alltoallw(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec
    ) -> tuple[object, ...]:
        specs = self._specs
        return specs.several(sendbuf, False, True), specs.several(recvbuf, True, True)

    def _reduce(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op, root: int
    ) -> tuple[object, ...] | None:
        self._check_root(root)

        function, element = self._reduction(sendbuf, recvbuf, op)
        if function is None:
            return None

        into = self._specs.one(recvbuf, True, element) if root == self._rank else None

        return self._specs.one(sendbuf, False, element), into, function, root

    def _reduce_all(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
    ) -> tuple[object, ...] | None:
        function, element = self._reduction(sendbuf, recvbuf, op)
        if function is None:
            return None

        specs = self._specs

        return (
            specs.one(sendbuf, False, element),
            specs.one(recvbuf, True, element),
            function,
        )

    def _reduce_blocks(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
    ) -> tuple[object, ...] | None:
        function, element = self._reduction(sendbuf, recvbuf, op)
        if function is None:
            return None

        # In place, the receive buffer has the blocks of all procs.
        specs, in_place = self._specs, sendbuf is None or sendbuf is IN_PLACE
        into = specs.one(recvbuf, True, element, self._size if in_place else 1)

        return specs.one(sendbuf, False, element, self._size), into, function

    def _reduce_scatter(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        recvcounts: Sequence[int] | None,
        op: Op,
    ) -> tuple[object, ...] | None:
        function, element = self._reduction(sendbuf, recvbuf, op)
        if function is None:
            return None

        specs = self._specs
        # Checked here: the library begins
        counts = None if recvcounts is None else array("i", recvcounts)

        return (
            specs.one(sendbuf, False, element),
            specs.one(recvbuf, True, element),
            counts,
            function,
        )

    def _reduction(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
    ) -> tuple[object, object]:
        """Return the library's operation and datatype of the elements; None: not defined there.

        Raises:
            Exception: ERR_OP, the operation is not defined for the datatype.
        """

        # The option reduce=reproducible: no library's order of combination may show in the bits.
        if not self._reduces:
            return _NO_REDUCTION

        in_place = sendbuf is None or sendbuf is IN_PLACE
        state = self._specs.datatype_of(recvbuf if in_place else sendbuf)

        key = (op._state, state)
        if key not in self._reductions:
            names = (
                None if not isinstance(state, TypeState) else library_names(op, state)
            )
            self._reductions[key] = (
                _NO_REDUCTION if names is None else self._native.reduction(*names)
            )

        return self._reductions[key]


# The method that translates the arguments of each collective.
_TRANSLATIONS: Final[dict[Collective, _Translate]] = {
    BARRIER: ClientLocal._barrier,
    BCAST: ClientLocal._bcast,
    GATHER: ClientLocal._gather,
    GATHERV: ClientLocal._gatherv,
    SCATTER: ClientLocal._scatter,
    SCATTERV: ClientLocal._scatterv,
    ALLGATHER: ClientLocal._allgather,
    ALLGATHERV: ClientLocal._allgatherv,
    ALLTOALL: ClientLocal._alltoall,
    ALLTOALLV: ClientLocal._alltoallv,
    ALLTOALLW: ClientLocal._alltoallw,
    REDUCE: ClientLocal._reduce,
    ALLREDUCE: ClientLocal._reduce_all,
    REDUCE_SCATTER_BLOCK: ClientLocal._reduce_blocks,
    REDUCE_SCATTER: ClientLocal._reduce_scatter,
    SCAN: ClientLocal._reduce_all,
    EXSCAN: ClientLocal._reduce_all,
}
