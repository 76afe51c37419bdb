"""One-sided communication within shared memory (MPI 4.1, 12.3), which needs no messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from impi.api.handles.failing import guarded
from impi.api.p2p.request import Request, null_send
from impi.api.types.buffers import UserBuffer, read_buffer
from impi.api.types.datatypes import Datatype
from impi.api.types.ops import SUM, Op
from impi.api.windows.winstate import Place, WindowState
from impi.semantics import op as predefined
from impi.semantics.basic import Kind
from impi.semantics.constants import PROC_NULL
from impi.semantics.datatype import NAMED, TypeMap
from impi.semantics.errors import error
from impi.semantics.lazynumpy import np

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec, TargetSpec


_COMPARABLE: Final = frozenset(
    {Kind.C_INTEGER, Kind.FORTRAN_INTEGER, Kind.LOGICAL, Kind.MULTI_LANGUAGE, Kind.BYTE, Kind.CHARACTER}
)
"""Types of MPI 4.1, 12.3.4.4, and characters: mpi4py programs swap them as 1-octet integers."""


@guarded
class OneSided:
    """The methods; :class:`impi.api.windows.window.Win` has the window.

    ``target``: None, a displacement, or up to three of displacement, count and datatype; default
    count and datatype are the origin's. A call is complete when it returns. Methods raise
    ValueError
    for a bad specification, and Exception: ``ERR_RMA_SYNC``: no epoch; ``ERR_RANK``;
    ``ERR_RMA_RANGE``: target not in the window; ``ERR_TRUNCATE``: origin and target differ in size;
    ``ERR_OP`` and ``ERR_TYPE``: not possible in an accumulation.
    """

    def _live(self) -> WindowState:
        raise NotImplementedError

    # ---- transfers -------------------------------------------------------------------------------

    def Put(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None) -> None:
        """Write elements to the window."""
        spec = _target(target)
        if self._reaches(target_rank):
            message = read_buffer(origin, readonly=True)
            place = self._place(target_rank, message, spec)
            _same_size("target", place.nbytes, "origin", _nbytes(message))
            place.store(_octets(message))

    def Get(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None) -> None:
        """Read elements from the window."""
        spec = _target(target)
        if self._reaches(target_rank):
            message = read_buffer(origin, readonly=False)
            place = self._place(target_rank, message, spec)
            _same_size("target", place.nbytes, "origin", _nbytes(message))
            _write(message, place.load())

    def Accumulate(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM) -> None:
        """Combine elements into the window: ``target = origin op target``."""
        name, spec = _operation(op), _target(target)
        if name == "NO_OP":
            raise error("ERR_OP", "MPI_NO_OP is for calls that fetch: Get_accumulate and Fetch_and_op")
        if self._reaches(target_rank):
            message = read_buffer(origin, readonly=True)
            place = self._place(target_rank, message, spec)
            _same_size("target", place.nbytes, "origin", _nbytes(message))
            with self._live().exclusively(target_rank):
                _combine(name, message, place)

    def Get_accumulate(
        self, origin: BufferSpec, result: BufferSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM
    ) -> None:
        """Read elements of the window, then combine others into it."""
        name, spec = _operation(op), _target(target)
        if self._reaches(target_rank):
            message, answer = read_buffer(origin, readonly=True), read_buffer(result, readonly=False)
            place = self._place(target_rank, message, spec)
            _same_size("result", _nbytes(answer), "target", place.nbytes)
            if name != "NO_OP":  # NO_OP ignores the origin
                _same_size("target", place.nbytes, "origin", _nbytes(message))
            with self._live().exclusively(target_rank):
                old = place.load()
                _combine(name, message, place)
            _write(answer, old)

    def Fetch_and_op(
        self, origin: BufferSpec, result: BufferSpec, target_rank: int, target_disp: int = 0, op: Op = SUM
    ) -> None:
        """Read one element of the window, then combine another into it."""
        name = _operation(op)
        if self._reaches(target_rank):
            message, answer = read_buffer(origin, readonly=True), read_buffer(result, readonly=False)
            place = self._single(target_rank, target_disp, origin=message, result=answer)
            with self._live().exclusively(target_rank):
                old = place.load()
                _combine(name, message, place)
            _write(answer, old)

    def Compare_and_swap(
        self, origin: BufferSpec, compare: BufferSpec, result: BufferSpec, target_rank: int, target_disp: int = 0
    ) -> None:
        """Read one element of the window, and replace it if it equals ``compare``."""
        if self._reaches(target_rank):
            message, answer = read_buffer(origin, readonly=True), read_buffer(result, readonly=False)
            expected = read_buffer(compare, readonly=True)
            place = self._single(target_rank, target_disp, origin=message, compare=expected, result=answer)
            if any(run.basic.kind not in _COMPARABLE for run in place.typemap.runs):
                raise error("ERR_TYPE", f"MPI_{place.typemap.name} cannot be compared: use an integer, logical or byte")
            with self._live().exclusively(target_rank):
                old = place.load()
                if old == _octets(expected):
                    place.store(_octets(message))
            _write(answer, old)

    # ---- with requests ---------------------------------------------------------------------------

    def Rput(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None) -> Request:
        """Put to a locked target; the request is complete."""
        return self._requested(target_rank, lambda: self.Put(origin, target_rank, target))

    def Rget(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None) -> Request:
        """Get from a locked target; the request is complete."""
        return self._requested(target_rank, lambda: self.Get(origin, target_rank, target))

    def Raccumulate(self, origin: BufferSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM) -> Request:
        """Accumulate to a locked target; the request is complete."""
        return self._requested(target_rank, lambda: self.Accumulate(origin, target_rank, target, op))

    def Rget_accumulate(
        self, origin: BufferSpec, result: BufferSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM
    ) -> Request:
        """Get and accumulate at a locked target; the request is complete."""
        return self._requested(target_rank, lambda: self.Get_accumulate(origin, result, target_rank, target, op))

    # ---- inside ----------------------------------------------------------------------------------

    def _requested(self, rank: int, call: Callable[[], None]) -> Request:
        self._live().epochs.check_passive(rank)
        call()
        return null_send()

    def _reaches(self, rank: int) -> bool:
        """Return False for PROC_NULL, whatever the buffers are; check rank and epoch otherwise."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_access(rank)
        return rank != PROC_NULL

    def _place(self, rank: int, origin: UserBuffer, spec: tuple[int, int | None, Datatype | None]) -> Place:
        disp, count, datatype = spec
        chosen = origin.datatype if datatype is None else datatype
        chosen._check_committed()
        typemap = chosen.typemap
        return self._live().place(rank, disp, origin.count if count is None else count, typemap)

    def _single(self, rank: int, disp: int, **messages: UserBuffer) -> Place:
        """Return the place of one element of the type that all messages have."""
        for what, message in messages.items():
            if message.count != 1:
                raise ValueError(f"{what}: expecting a single element, got {message.count}")
        datatype = messages["origin"].datatype
        for what, message in messages.items():
            if message.datatype != datatype:
                raise ValueError(f"mismatch in origin and {what} MPI datatypes")
        if not datatype.typemap.name:
            raise error("ERR_TYPE", "a single element must be of a predefined datatype")
        return self._live().place(rank, disp, 1, datatype.typemap)


def _target(spec: TargetSpec) -> tuple[int, int | None, Datatype | None]:
    """Return displacement, count and datatype; None: the origin's."""
    if spec is None:
        return 0, None, None
    if hasattr(spec, "__index__"):
        return int(spec.__index__()), None, None
    if not isinstance(spec, (list, tuple)):
        raise ValueError(f"target: expecting an integer or list/tuple, got {type(spec).__name__}")
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
        raise error("ERR_OP", "only predefined operations can accumulate into a window (MPI 4.1, 12.3.4)")
    return name


def _nbytes(message: UserBuffer) -> int:
    return message.datatype.typemap.packed_size(message.count, external=False)


def _octets(message: UserBuffer) -> bytes:
    # A copy, because the buffer may be memory of the window.
    typemap = message.datatype.typemap
    return bytes(typemap.pack(message.view, message.offset, message.count, external=False))


def _write(message: UserBuffer, octets: bytes) -> None:
    message.datatype.typemap.unpack(octets, message.view, message.offset, message.count, external=False)


def _same_size(what: str, found: int, other: str, expected: int) -> None:
    if found != expected:
        raise error("ERR_TRUNCATE", f"the {what} has {found} octets, the {other} {expected}: give both the same size")


def _combine(name: str, origin: UserBuffer, place: Place) -> None:
    if name == "NO_OP" or place.nbytes == 0:
        return
    element, other = _element(place.typemap), _element(origin.datatype.typemap)
    if element.dtype != other.dtype:
        raise error("ERR_TYPE", f"origin and target have different elements: MPI_{other.name} and MPI_{element.name}")
    inoutvec = _array(place.load(), element)
    predefined.apply(name, _array(_octets(origin), element), inoutvec, element)
    place.store(bytes(element.pack(inoutvec.view(np.uint8).data, 0, len(inoutvec), external=False)))


def _element(typemap: TypeMap) -> TypeMap:
    """Return the one predefined datatype of all elements (MPI 4.1, 12.3.4)."""
    if typemap.name:
        return typemap
    names = {run.basic.name for run in typemap.runs}
    if len(names) != 1:
        raise error("ERR_TYPE", "only elements of one predefined datatype can be accumulated: this one mixes several")
    return NAMED[names.pop()]


def _array(octets: bytes, element: TypeMap) -> Any:
    """Return a writable array of the elements with their gaps."""
    count = len(octets) // element.size
    memory = memoryview(bytearray(count * element.extent))
    element.unpack(octets, memory, 0, count, external=False)
    return np.ndarray((count,), element.dtype, memory)
