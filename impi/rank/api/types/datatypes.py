"""Datatype and the predefined datatypes.

How it works: a handle names a :class:`.typestate.TypeState`, which has the type map (the blocks of
one element, :mod:`impi.protocol.semantics.values.datatype`) and the recipe by which the type was
made. A type map is computed once, when the type is made; messages, files and windows read nothing
else. The recipe answers ``Get_envelope`` and ``Get_contents``, and carries the type into another
process, where the handle would mean nothing.

Two forms of octets meet here. ``Pack`` makes those of a message between clients, so that PACKED
matches data that was sent unpacked (MPI 4.1, 5.2). ``Pack_external`` makes the standard's
external32, whose longs have four octets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.datatype import TypeMap
from impi.rank.api import runtime
from impi.rank.api.constants import MAX_OBJECT_NAME
from impi.rank.api.handles import (
    Handle,
    HasAttributes,
    HasName,
    Keyvals,
    guarded,
    guarded_function,
)
from impi.rank.api.types import typecode
from impi.rank.api.types.constructors import TypeConstructors, derived_copy
from impi.rank.api.types.memory import address_of, octets_of
from impi.rank.api.types.typestate import TypeState, named

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

# fmt: off
__all__ = [
    "AINT", "Aint_add", "Aint_diff", "BFLOAT16_T", "BOOL", "BYTE", "CHAR", "CHARACTER", "COMPLEX", "COMPLEX16",
    "COMPLEX32", "COMPLEX4", "COMPLEX8", "COUNT", "CXX_BOOL", "CXX_DOUBLE_COMPLEX", "CXX_FLOAT_COMPLEX",
    "CXX_LONG_DOUBLE_COMPLEX", "C_BOOL", "C_COMPLEX", "C_DOUBLE_COMPLEX", "C_FLOAT_COMPLEX",
    "C_LONG_DOUBLE_COMPLEX", "DATATYPE_NULL", "DOUBLE", "DOUBLE_COMPLEX", "DOUBLE_INT", "DOUBLE_PRECISION",
    "Datatype", "FLOAT", "FLOAT16_T", "FLOAT32_T", "FLOAT64_T", "FLOAT_INT", "F_BOOL", "F_COMPLEX", "F_DOUBLE",
    "F_DOUBLE_COMPLEX", "F_FLOAT", "F_FLOAT_COMPLEX", "F_INT", "Get_address", "INT", "INT16_T", "INT32_T",
    "INT64_T", "INT8_T", "INTEGER", "INTEGER1", "INTEGER16", "INTEGER2", "INTEGER4", "INTEGER8", "INT_INT",
    "LOGICAL", "LOGICAL1", "LOGICAL16", "LOGICAL2", "LOGICAL4", "LOGICAL8", "LONG", "LONG_DOUBLE",
    "LONG_DOUBLE_INT", "LONG_INT", "LONG_LONG", "OFFSET", "PACKED", "REAL", "REAL16", "REAL2", "REAL4", "REAL8",
    "SHORT", "SHORT_INT", "SIGNED_CHAR", "SIGNED_INT", "SIGNED_LONG", "SIGNED_LONG_LONG", "SIGNED_SHORT",
    "SINT16_T", "SINT32_T", "SINT64_T", "SINT8_T", "TWOINT", "UINT16_T", "UINT32_T", "UINT64_T", "UINT8_T",
    "UNSIGNED", "UNSIGNED_CHAR", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "UNSIGNED_SHORT", "WCHAR",
]
# fmt: on


@guarded
class Datatype(TypeConstructors, Handle, HasAttributes, HasName):
    """Datatype; null by default. Methods raise Exception ``ERR_TYPE`` for a null datatype."""

    _unguarded = ("typemap",)
    _null_name = "MPI_DATATYPE_NULL"
    _keyvals = Keyvals()

    _object = TypeConstructors._live

    @property
    def typemap(self) -> TypeMap:
        return self._live().typemap

    def _predefined(self) -> bool:
        return not isinstance(self._state, TypeState) or self._state.predefined

    def __reduce__(self) -> str | tuple[Any, ...]:
        state = self._state
        if isinstance(state, TypeState) and state.recipe.combiner != "NAMED":
            # By its recipe: a handle means nothing in another process.
            base, combiner, params = self.decode()
            return (_datatype_create, (base, combiner, params, True))

        return super().__reduce__()

    def Commit(self) -> Self:
        self._live().committed = True
        return self

    def _check_committed(self) -> None:
        if isinstance(self._state, TypeState) and not self._state.committed:
            raise error(
                "ERR_TYPE",
                f"the datatype {self.Get_name() or 'of the buffer'} is not committed; Commit() it",
            )

    def Free(self) -> None:
        """Free the datatype; Exception ``ERR_TYPE``: it is predefined."""

        state = self._live()
        if state.predefined:
            raise error(
                "ERR_TYPE",
                f"{self.Get_name() or 'the datatype'} is predefined and cannot be freed",
            )

        # Only the handle goes. Operations under way, and types made of this one, keep the state.
        self._keyvals.clear(self, state.attributes)
        self._forget()

    def Dup(self) -> Self:
        state = self._live()
        copy = derived_copy(state)
        copy.attributes = self._keyvals.copied(self, state.attributes)

        return self._wrap(copy)

    Create_dup = Dup

    # ---- sizes -----------------------------------------------------------------------------------

    def Get_size(self) -> int:
        return self.typemap.size

    def Get_extent(self) -> tuple[int, int]:
        typemap = self.typemap
        return (typemap.lb, typemap.extent)

    def Get_true_extent(self) -> tuple[int, int]:
        typemap = self.typemap
        return (typemap.true_lb, typemap.true_ub - typemap.true_lb)

    size = property(Get_size, doc="octets of data in one element")
    extent = property(lambda self: self.typemap.extent, doc="extent")
    lb = property(lambda self: self.typemap.lb, doc="lower bound")
    ub = property(lambda self: self.typemap.ub, doc="upper bound")
    true_extent = property(
        lambda self: self.Get_true_extent()[1], doc="extent of the data itself"
    )
    true_lb = property(
        lambda self: self.typemap.true_lb, doc="lower bound of the data itself"
    )
    true_ub = property(
        lambda self: self.typemap.true_ub, doc="upper bound of the data itself"
    )

    # ---- packing ---------------------------------------------------------------------------------

    def Pack(
        self, inbuf: BufferSpec, outbuf: BufferSpec, position: int, comm: object
    ) -> int:
        """Pack ``inbuf`` into ``outbuf`` at ``position``; return the position after it.

        The octets are those of a message between clients, so PACKED matches this type and the
        reverse: external32 with 8-octet longs, or native form if the clients agreed on it.
        """
        return self._pack(
            inbuf, outbuf, position, external=runtime.external(), long_size=8
        )

    def Unpack(
        self, inbuf: BufferSpec, position: int, outbuf: BufferSpec, comm: object
    ) -> int:
        """Unpack as many elements as ``outbuf`` takes; return the position after them."""
        return self._unpack(
            inbuf, position, outbuf, external=runtime.external(), long_size=8
        )

    def Pack_size(self, count: int, comm: object) -> int:
        return self._packed_size(count, external=runtime.external(), long_size=8)

    def Pack_external(
        self, datarep: str, inbuf: BufferSpec, outbuf: BufferSpec, position: int
    ) -> int:
        check_datarep(datarep)
        return self._pack(inbuf, outbuf, position, external=True, long_size=4)

    def Unpack_external(
        self, datarep: str, inbuf: BufferSpec, position: int, outbuf: BufferSpec
    ) -> int:
        check_datarep(datarep)
        return self._unpack(inbuf, position, outbuf, external=True, long_size=4)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        check_datarep(datarep)
        return self._packed_size(count, external=True, long_size=4)

    def _packed_size(self, count: int, *, external: bool, long_size: int) -> int:
        if count < 0:
            raise error("ERR_COUNT", f"negative count {count}")

        return self.typemap.packed_size(count, external=external, long_size=long_size)

    def _fitting(self, view: memoryview) -> int:
        extent = self.typemap.extent
        if extent <= 0:
            raise error(
                "ERR_TYPE",
                f"the number of elements of a buffer cannot follow from an extent of {extent}",
            )

        return view.nbytes // extent

    def _pack(
        self,
        inbuf: BufferSpec,
        outbuf: BufferSpec,
        position: int,
        *,
        external: bool,
        long_size: int,
    ) -> int:
        source, _ = octets_of(inbuf, readonly=True)
        target, _ = octets_of(outbuf, readonly=False)
        octets = self.typemap.pack(
            source, 0, self._fitting(source), external=external, long_size=long_size
        )

        # Checked after packing: how many octets there are depends on the form.
        end = position + octets.nbytes
        if position < 0 or end > target.nbytes:
            detail = f"packing needs octets {position} to {end} of a buffer of {target.nbytes}"
            raise error("ERR_TRUNCATE" if position >= 0 else "ERR_ARG", detail)

        target[position:end] = octets

        return end

    def _unpack(
        self,
        inbuf: BufferSpec,
        position: int,
        outbuf: BufferSpec,
        *,
        external: bool,
        long_size: int,
    ) -> int:
        source, _ = octets_of(inbuf, readonly=True)
        target, _ = octets_of(outbuf, readonly=False)
        count = self._fitting(target)

        end = position + self.typemap.packed_size(
            count, external=external, long_size=long_size
        )
        if position < 0 or end > source.nbytes:
            detail = f"unpacking {count} elements needs octets {position} to {end} of a buffer of {source.nbytes}"
            raise error("ERR_TRUNCATE" if position >= 0 else "ERR_ARG", detail)

        self.typemap.unpack(
            source[position:end],
            target,
            0,
            count,
            external=external,
            long_size=long_size,
        )

        return end

    # ---- name ---------------------------------------------------------------------

    def Set_name(self, name: str) -> None:
        if len(name.encode()) > MAX_OBJECT_NAME:
            raise error("ERR_ARG", f"the name is longer than {MAX_OBJECT_NAME} octets")

        self._live().name = name

    name = property(HasName.Get_name, Set_name, doc="its name")

    # ---- codes -----------------------------------------------------------------------------------

    def tocode(self) -> str:
        """Return the character code or type string of a predefined datatype.

        Raises:
            ValueError: there is none.
        """
        code = typecode.code_of(self._live().basic_name) if self else None
        if code is None:
            raise ValueError("cannot map to character code or type string")

        return code

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the predefined datatype of a character code or type string.

        Raises:
            ValueError: there is none.
        """
        if code not in _typedict:
            raise ValueError(f"cannot map code {code!r} to MPI datatype")

        return _typedict[code]

    @property
    def typestr(self) -> str:
        """The type string, such as ``f8``; ``V`` and the extent if it has none."""
        if not self:
            return ""

        return (
            typecode.str_of(self._live().basic_name)
            or f"V{max(self.typemap.extent, 0)}"
        )

    @property
    def typechar(self) -> str:
        if not self:
            return ""

        return typecode.char_of(self._live().basic_name) or "V"


def check_datarep(datarep: str) -> None:
    if datarep != "external32":
        raise error(
            "ERR_ARG",
            f"data representation {datarep!r} is not known: only 'external32' is",
        )


def _datatype_create(
    datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False
) -> Datatype:
    created: Datatype = getattr(datatype, f"Create_{combiner.lower()}")(**params)
    return created.Commit()


def _datatype_decode(
    datatype: Datatype, mark: bool = False
) -> tuple[Datatype, str, dict[str, Any]]:
    return datatype.decode()


def _typecode(datatype: Datatype) -> str | None:
    return typecode.code_of(datatype._live().basic_name) if datatype else None


def _typealign(datatype: Datatype) -> int | None:
    return datatype.typemap.align if datatype and datatype._live().basic_name else None


def Get_address(location: Any) -> int:
    """Return the address of an object's memory; 0 for BOTTOM."""
    if location is None or type(location).__name__.endswith("Type"):
        return int(location or 0)

    return address_of(octets_of(location, readonly=True)[0])


@guarded_function
def Aint_add(base: int, disp: int) -> int:
    """Return the sum of an address and a displacement."""
    return base + disp


@guarded_function
def Aint_diff(addr1: int, addr2: int) -> int:
    """Return the difference of two addresses."""
    return addr1 - addr2


def _named(names: str) -> list[Datatype]:
    return [Datatype._define(name, named(name)) for name in names.split()]


DATATYPE_NULL: Final = Datatype._define("DATATYPE_NULL", None)
PACKED, BYTE, AINT, OFFSET, COUNT, CHAR, WCHAR = _named(
    "PACKED BYTE AINT OFFSET COUNT CHAR WCHAR"
)
SIGNED_CHAR, SHORT, INT, LONG, LONG_LONG = _named(
    "SIGNED_CHAR SHORT INT LONG LONG_LONG"
)
UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED, UNSIGNED_LONG, UNSIGNED_LONG_LONG = _named(
    "UNSIGNED_CHAR UNSIGNED_SHORT UNSIGNED UNSIGNED_LONG UNSIGNED_LONG_LONG"
)
FLOAT, DOUBLE, LONG_DOUBLE, C_BOOL = _named("FLOAT DOUBLE LONG_DOUBLE C_BOOL")
INT8_T, INT16_T, INT32_T, INT64_T, UINT8_T, UINT16_T, UINT32_T, UINT64_T = _named(
    "INT8_T INT16_T INT32_T INT64_T UINT8_T UINT16_T UINT32_T UINT64_T"
)
FLOAT16_T, BFLOAT16_T, C_COMPLEX, C_DOUBLE_COMPLEX, C_LONG_DOUBLE_COMPLEX = _named(
    "FLOAT16_T BFLOAT16_T C_COMPLEX C_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX"
)
CXX_BOOL, CXX_FLOAT_COMPLEX, CXX_DOUBLE_COMPLEX, CXX_LONG_DOUBLE_COMPLEX = _named(
    "CXX_BOOL CXX_FLOAT_COMPLEX CXX_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX"
)
SHORT_INT, INT_INT, LONG_INT, FLOAT_INT, DOUBLE_INT, LONG_DOUBLE_INT = _named(
    "SHORT_INT INT_INT LONG_INT FLOAT_INT DOUBLE_INT LONG_DOUBLE_INT"
)
CHARACTER, LOGICAL, INTEGER, REAL, DOUBLE_PRECISION, COMPLEX, DOUBLE_COMPLEX = _named(
    "CHARACTER LOGICAL INTEGER REAL DOUBLE_PRECISION COMPLEX DOUBLE_COMPLEX"
)
LOGICAL1, LOGICAL2, LOGICAL4, LOGICAL8, LOGICAL16 = _named(
    "LOGICAL1 LOGICAL2 LOGICAL4 LOGICAL8 LOGICAL16"
)
INTEGER1, INTEGER2, INTEGER4, INTEGER8, INTEGER16 = _named(
    "INTEGER1 INTEGER2 INTEGER4 INTEGER8 INTEGER16"
)
REAL2, REAL4, REAL8, REAL16 = _named("REAL2 REAL4 REAL8 REAL16")
COMPLEX4, COMPLEX8, COMPLEX16, COMPLEX32 = _named(
    "COMPLEX4 COMPLEX8 COMPLEX16 COMPLEX32"
)

# Aliases.
FLOAT32_T: Final = FLOAT
FLOAT64_T: Final = DOUBLE
C_FLOAT_COMPLEX: Final = C_COMPLEX
TWOINT: Final = INT_INT
UNSIGNED_INT: Final = UNSIGNED
SIGNED_SHORT: Final = SHORT
SIGNED_INT: Final = INT
SIGNED_LONG: Final = LONG
SIGNED_LONG_LONG: Final = LONG_LONG
BOOL: Final = C_BOOL
SINT8_T: Final = INT8_T
SINT16_T: Final = INT16_T
SINT32_T: Final = INT32_T
SINT64_T: Final = INT64_T
F_BOOL: Final = LOGICAL
F_INT: Final = INTEGER
F_FLOAT: Final = REAL
F_DOUBLE: Final = DOUBLE_PRECISION
F_COMPLEX: Final = COMPLEX
F_FLOAT_COMPLEX: Final = COMPLEX
F_DOUBLE_COMPLEX: Final = DOUBLE_COMPLEX

# Type code to datatype.
_typedict: Final[dict[str, Datatype]] = {
    code: globals()[name] for code, name in typecode.CODES.items()
}
