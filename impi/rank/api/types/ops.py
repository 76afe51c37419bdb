"""Op: reduction operations on buffers and Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values import op as predefined
from impi.rank.api.handles import Handle, State, guarded
from impi.rank.api.types.buffers import UserBuffer, read_buffer
from impi.rank.api.types.datatypes import Datatype

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

# fmt: off
__all__ = [
    "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "MAX", "MAXLOC", "MIN", "MINLOC", "NO_OP", "OP_NULL", "PROD",
    "REPLACE", "SUM", "Op",
]
# fmt: on

MAX_USER_OPS: Final = 32
"""mpi4py's limit: programs may rely on the error beyond it."""

_user_ops = 0


class _OpState(State):
    __slots__ = ("commute", "function", "name")

    def __init__(
        self, name: str, function: Callable[..., Any], *, commute: bool
    ) -> None:
        super().__init__()
        self.name = name  # name of a predefined operation; else empty
        self.function = function
        self.commute = commute


@guarded
class Op(Handle):
    """Reduction operation; null when made without arguments. A call combines two objects."""

    def __call__(self, x: Any, y: Any, /) -> Any:
        state = self._state
        if not isinstance(state, _OpState):
            raise ValueError("cannot call a null reduction operation")

        return state.function(x, y) if state.name else state.function(x, y, None)

    def __reduce__(self) -> str | tuple[Any, ...]:
        state = self._state
        if isinstance(state, _OpState) and not state.name:
            if self._by_number:
                raise ValueError("cannot pickle user-defined reduction operation")

            return (type(self).Create, (state.function, state.commute))

        return super().__reduce__()

    # Whether it was made from an integer handle: like mpi4py, it cannot be pickled then
    _by_number = False

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """Return an operation with that integer handle; a user-defined one cannot be pickled."""
        op = super().fromhandle(handle)
        op._by_number = True

        return op

    def _live(self) -> _OpState:
        if not isinstance(self._state, _OpState):
            raise error("ERR_OP", "null reduction operation")

        return self._state

    def _predefined_name(self) -> str | None:
        return self._live().name or None

    def _call(
        self, invec: memoryview, inoutvec: memoryview, datatype: Datatype
    ) -> None:
        """Compute ``inoutvec = invec op inoutvec`` by the user function; views include gaps."""
        from impi.rank.api.types.bufferclass import buffer

        self._live().function(buffer(invec), buffer.frombuffer(inoutvec), datatype)

    @classmethod
    def Create(
        cls, function: Callable[[Any, Any, Any], Any], commute: bool = False
    ) -> Self:
        """Create a user-defined operation.

        Args:
            function: called with two buffers and a Datatype, to combine into the second; or two
                objects and None, to return the combined one. Must be associative.
            commute: whether the order of the operands does not matter.
        """

        global _user_ops
        if not callable(function):
            raise TypeError("a reduction operation needs a function")

        if _user_ops >= MAX_USER_OPS:
            raise RuntimeError(
                f"more than {MAX_USER_OPS} reduction operations of one's own: free some first"
            )

        _user_ops += 1

        return cls._wrap(_OpState("", function, commute=bool(commute)))

    def Free(self) -> None:
        """Free a user-defined operation; Exception ``ERR_OP``: it is null or predefined."""

        global _user_ops
        if self._live().name:
            raise error(
                "ERR_OP", f"MPI_{self._live().name} is predefined and cannot be freed"
            )

        _user_ops -= 1
        self._forget()

    def Is_commutative(self) -> bool:
        return self._live().commute

    is_commutative = property(
        Is_commutative, doc="whether the order of the operands does not matter"
    )

    @property
    def is_predefined(self) -> bool:
        return self._predefined()

    def Reduce_local(self, inbuf: BufferSpec, inoutbuf: BufferSpec) -> None:
        """Compute ``inoutbuf = inbuf op inoutbuf`` in this process.

        Raises:
            Exception: ``ERR_OP``: not defined for the datatype; ``ERR_BUFFER``: buffer too small.
            ValueError: the buffers differ in count or datatype.
        """

        first, second = (
            read_buffer(inbuf, readonly=True, check=False),
            read_buffer(inoutbuf, readonly=False, check=False),
        )
        if first.count != second.count:
            raise ValueError(
                f"mismatch in inbuf count {first.count} and inoutbuf count {second.count}"
            )

        if first.datatype != second.datatype:
            raise ValueError("mismatch in inbuf and inoutbuf MPI datatypes")

        for message in (first, second):
            message.datatype.typemap.inside(message.view, message.offset, message.count)

        name = self._predefined_name()
        if name is None:
            self._call(_elements(first), _elements(second), first.datatype)
            return

        predefined.check_reduction(name, first.datatype.typemap)
        result, into = array_of(second), _elements(second)

        predefined.apply(name, array_of(first), result, first.datatype.typemap)
        # Where the memory ends before the last gap, array_of() has made a copy.
        if into.nbytes < result.nbytes:
            into[:] = result.view(np.uint8).data[: into.nbytes]


def _elements(message: UserBuffer) -> memoryview:
    return message.view[
        message.offset : message.offset + message.count * message.datatype.extent
    ]


def array_of(message: UserBuffer) -> Any:
    """Return the elements as an array whose items have their extent.

    Memory may end before the gap behind the last element, which is not the caller's to read: the
    array is a copy then.
    """

    typemap = message.datatype.typemap
    dtype = typemap.dtype or np.dtype((np.void, typemap.extent))

    view, end = message.view, message.offset + message.count * typemap.extent
    if view.nbytes < end:
        view = memoryview(bytearray(view) + bytes(end - view.nbytes))

    return np.ndarray((message.count,), dtype, view, message.offset)


def _max(x: Any, y: Any) -> Any:
    return y if y > x else x


def _min(x: Any, y: Any) -> Any:
    return y if y < x else x


def _maxloc(x: Any, y: Any) -> tuple[Any, Any]:
    (u, i), (v, j) = x, y
    if u > v:
        return (u, i)

    # MPI 4.1, 6.9.4: of equal values the one with the lower index wins.
    if v > u or j < i:
        return (v, j)

    return (u, i)


def _minloc(x: Any, y: Any) -> tuple[Any, Any]:
    (u, i), (v, j) = x, y
    if u < v:
        return (u, i)

    # As in _maxloc().
    if v < u or j < i:
        return (v, j)

    return (u, i)


def _predefined(
    name: str, function: Callable[[Any, Any], Any], *, commute: bool = True
) -> Op:
    return Op._define(name, _OpState(name, function, commute=commute))


OP_NULL: Final = Op._define("OP_NULL", None)
MAX: Final = _predefined("MAX", _max)
MIN: Final = _predefined("MIN", _min)
SUM: Final = _predefined("SUM", lambda x, y: x + y)
PROD: Final = _predefined("PROD", lambda x, y: x * y)
LAND: Final = _predefined("LAND", lambda x, y: bool(x) & bool(y))
BAND: Final = _predefined("BAND", lambda x, y: x & y)
LOR: Final = _predefined("LOR", lambda x, y: bool(x) | bool(y))
BOR: Final = _predefined("BOR", lambda x, y: x | y)
LXOR: Final = _predefined("LXOR", lambda x, y: bool(x) ^ bool(y))
BXOR: Final = _predefined("BXOR", lambda x, y: x ^ y)
MAXLOC: Final = _predefined("MAXLOC", _maxloc)
MINLOC: Final = _predefined("MINLOC", _minloc)
REPLACE: Final = _predefined("REPLACE", lambda x, y: y, commute=False)
NO_OP: Final = _predefined("NO_OP", lambda x, y: x, commute=False)
