"""One-sided communication (MPI 4.1, 12.3): the calls; the window's object has the accesses.

How it works: a call reads its buffers, makes an :class:`.accesses.Aim` (target, place, datatype,
count), checks it against the window and the epoch, and hands both to the window's object. That
object is local memory, shared memory or messages (:mod:`.winstate` and its subclasses), and the
calls do not know which. Everything is checked at the origin, where the mistake was made: a target
can only answer later, and to another call.

An access to PROC_NULL does nothing, but rank and epoch are checked all the same. Calls with a
request are for passive targets only (MPI 4.1, 12.3.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import error
from impi.rank.api.handles.failing import guarded
from impi.rank.api.p2p.request import Request, null_send
from impi.rank.api.types.buffers import UserBuffer, kept_buffer
from impi.rank.api.types.datatypes import Datatype
from impi.rank.api.types.ops import SUM, Op
from impi.rank.api.windows.accesses import Aim
from impi.rank.api.windows.winstate import WindowState

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec, TargetSpec
    from impi.rank.engine.operations import Operation


@guarded
class OneSided:
    """The accesses of a window; :class:`impi.rank.api.windows.window.Win` inherits them.

    ``target``: None, a displacement, or up to three of displacement, count and datatype; default
    count and datatype are the origin's. The buffers are in use until a call that synchronizes, or
    the end of the request. Methods raise ValueError for a bad specification, and Exception:
    ``ERR_RMA_SYNC``: no epoch; ``ERR_RANK``; ``ERR_DISP`` and ``ERR_COUNT``: negative;
    ``ERR_RMA_RANGE``: target not in the window;
    ``ERR_TRUNCATE``: origin and target differ in size; ``ERR_OP`` and ``ERR_TYPE``: not possible in
    an accumulation.
    """

    def _live(self) -> WindowState:
        raise NotImplementedError

    # ---- transfers -------------------------------------------------------------------------------

    def Put(
        self, origin: BufferSpec, target_rank: int, target: TargetSpec = None
    ) -> None:
        self._put(origin, target_rank, target)

    def Get(
        self, origin: BufferSpec, target_rank: int, target: TargetSpec = None
    ) -> None:
        self._get(origin, target_rank, target)

    def Accumulate(
        self,
        origin: BufferSpec,
        target_rank: int,
        target: TargetSpec = None,
        op: Op = SUM,
    ) -> None:
        self._accumulate(origin, target_rank, target, op)

    def Get_accumulate(
        self,
        origin: BufferSpec,
        result: BufferSpec,
        target_rank: int,
        target: TargetSpec = None,
        op: Op = SUM,
    ) -> None:
        self._get_accumulate(origin, result, target_rank, target, op)

    def Fetch_and_op(
        self,
        origin: BufferSpec,
        result: BufferSpec,
        target_rank: int,
        target_disp: int = 0,
        op: Op = SUM,
    ) -> None:
        name = _operation(op)
        if self._reaches(target_rank):
            message, answer = (
                kept_buffer(origin, readonly=True),
                kept_buffer(result, readonly=False),
            )
            aim = _single(target_rank, target_disp, origin=message, result=answer)
            self._live().check_aim(aim)
            self._live().get_accumulate(name, message, answer, aim)

    def Compare_and_swap(
        self,
        origin: BufferSpec,
        compare: BufferSpec,
        result: BufferSpec,
        target_rank: int,
        target_disp: int = 0,
    ) -> None:
        if self._reaches(target_rank):
            message, answer = (
                kept_buffer(origin, readonly=True),
                kept_buffer(result, readonly=False),
            )
            expected = kept_buffer(compare, readonly=True)
            aim = _single(
                target_rank,
                target_disp,
                origin=message,
                compare=expected,
                result=answer,
            )
            self._live().check_aim(aim)
            self._live().swap(message, expected, answer, aim)

    # ---- with requests ---------------------------------------------------------------------------

    def Rput(
        self, origin: BufferSpec, target_rank: int, target: TargetSpec = None
    ) -> Request:
        """Put to a locked target; the request is complete when the origin's buffer is free."""
        self._live().epochs.check_passive(target_rank)
        return self._request(target_rank, self._put(origin, target_rank, target))

    def Rget(
        self, origin: BufferSpec, target_rank: int, target: TargetSpec = None
    ) -> Request:
        """Get from a locked target; the request is complete when the elements are here."""
        self._live().epochs.check_passive(target_rank)
        return self._request(target_rank, self._get(origin, target_rank, target))

    def Raccumulate(
        self,
        origin: BufferSpec,
        target_rank: int,
        target: TargetSpec = None,
        op: Op = SUM,
    ) -> Request:
        """Accumulate to a locked target; the request is complete when the buffer is free."""
        self._live().epochs.check_passive(target_rank)
        return self._request(
            target_rank, self._accumulate(origin, target_rank, target, op)
        )

    def Rget_accumulate(
        self,
        origin: BufferSpec,
        result: BufferSpec,
        target_rank: int,
        target: TargetSpec = None,
        op: Op = SUM,
    ) -> Request:
        """Get and accumulate at a locked target; complete when the elements are here."""
        self._live().epochs.check_passive(target_rank)
        return self._request(
            target_rank, self._get_accumulate(origin, result, target_rank, target, op)
        )

    # ---- inside ----------------------------------------------------------------------------------

    def _request(self, rank: int, operation: Operation | None) -> Request:
        if operation is None:
            return null_send()

        # An access may wait for the next call of the window, so that a lock travels with it
        # (docs/how-it-works/windows.md). A program that waits for a request makes no such call.
        self._live().send_now(rank)
        return Request._of(operation)

    def _put(
        self, origin: BufferSpec, rank: int, target: TargetSpec
    ) -> Operation | None:
        aimed = self._aimed(rank, _target(target), origin, readonly=True)
        return None if aimed is None else self._live().put(*aimed)

    def _get(
        self, origin: BufferSpec, rank: int, target: TargetSpec
    ) -> Operation | None:
        aimed = self._aimed(rank, _target(target), origin, readonly=False)
        return None if aimed is None else self._live().get(*aimed)

    def _accumulate(
        self, origin: BufferSpec, rank: int, target: TargetSpec, op: Op
    ) -> Operation | None:
        name, spec = _operation(op), _target(target)
        if name == "NO_OP":
            raise error(
                "ERR_OP",
                "MPI_NO_OP is for calls that fetch: Get_accumulate and Fetch_and_op",
            )

        aimed = self._aimed(rank, spec, origin, readonly=True)

        return None if aimed is None else self._live().accumulate(name, *aimed)

    def _get_accumulate(
        self,
        origin: BufferSpec,
        result: BufferSpec,
        rank: int,
        target: TargetSpec,
        op: Op,
    ) -> Operation | None:
        name, spec = _operation(op), _target(target)
        if not self._reaches(rank):
            return None

        message, answer = (
            kept_buffer(origin, readonly=True),
            kept_buffer(result, readonly=False),
        )
        aim = _aim(rank, message, spec)
        self._live().check_aim(aim)

        _same_size("result", _nbytes(answer), "target", aim.nbytes)
        if name != "NO_OP":  # NO_OP ignores the origin
            _same_size("target", aim.nbytes, "origin", _nbytes(message))

        return self._live().get_accumulate(name, message, answer, aim)

    def _aimed(
        self,
        rank: int,
        spec: tuple[int, int | None, Datatype | None],
        origin: BufferSpec,
        *,
        readonly: bool,
    ) -> tuple[UserBuffer, Aim] | None:
        """Return the origin's buffer and a target of its size; None for PROC_NULL."""

        if not self._reaches(rank):
            return None

        # Kept, because the program may free its datatypes before the access travels.
        message = kept_buffer(origin, readonly=readonly)
        aim = _aim(rank, message, spec)
        self._live().check_aim(aim)
        _same_size("target", aim.nbytes, "origin", _nbytes(message))

        return message, aim

    def _reaches(self, rank: int) -> bool:
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_access(rank)

        return rank != PROC_NULL


def _aim(
    rank: int, origin: UserBuffer, spec: tuple[int, int | None, Datatype | None]
) -> Aim:
    disp, count, datatype = spec
    chosen = origin.datatype if datatype is None else datatype

    chosen._check_committed()
    if disp < 0:
        raise error("ERR_DISP", f"the target displacement {disp} is negative")

    if count is not None and count < 0:
        raise error("ERR_COUNT", f"the target count {count} is negative")

    return Aim(rank, disp, origin.count if count is None else count, chosen.typemap)


def _single(rank: int, disp: int, **messages: UserBuffer) -> Aim:
    """Return the target of one element of the type that all messages have."""

    for what, message in messages.items():
        if message.count != 1:
            raise ValueError(f"{what}: expecting a single element, got {message.count}")

    datatype = messages["origin"].datatype
    for what, message in messages.items():
        if message.datatype != datatype:
            raise ValueError(f"mismatch in origin and {what} MPI datatypes")

    if not datatype.typemap.name:
        raise error("ERR_TYPE", "a single element must be of a predefined datatype")

    if disp < 0:
        raise error("ERR_DISP", f"the target displacement {disp} is negative")

    return Aim(rank, disp, 1, datatype.typemap)


def _target(spec: TargetSpec) -> tuple[int, int | None, Datatype | None]:
    """Return displacement, count and datatype; None: the origin's."""

    if spec is None:
        return 0, None, None

    if hasattr(spec, "__index__"):
        return int(spec.__index__()), None, None

    if not isinstance(spec, (list, tuple)):
        raise ValueError(
            f"target: expecting an integer or list/tuple, got {type(spec).__name__}"
        )

    if len(spec) > 3:
        raise ValueError(f"target: expecting 3 items at most, got {len(spec)}")

    items = [*spec, None, None, None][:3]

    datatype = items[2]
    if datatype is not None and not isinstance(datatype, Datatype):
        datatype = Datatype.fromcode(datatype)

    count = None if items[1] is None else int(items[1].__index__())

    return 0 if items[0] is None else int(items[0].__index__()), count, datatype


def _operation(op: Op) -> str:
    name = op._predefined_name()
    if name is None:
        raise error(
            "ERR_OP",
            "only predefined operations can accumulate into a window (MPI 4.1, 12.3.4)",
        )

    return name


def _nbytes(message: UserBuffer) -> int:
    return message.datatype.typemap.packed_size(message.count, external=False)


def _same_size(what: str, found: int, other: str, expected: int) -> None:
    if found != expected:
        raise error(
            "ERR_TRUNCATE",
            f"the {what} has {found} octets, the {other} {expected}: give both the same size",
        )
