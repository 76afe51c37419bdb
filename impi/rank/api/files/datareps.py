"""Data representations: the octets that values have in a file (MPI 4.1, 14.5).

``native`` is the octets of memory, ``external32`` the standard's. ``internal`` may be anything that
all procs of the file read alike: the octets of memory, or external32 with longs of 8 octets if the
procs do not have one form. A program can register others.

A type has another map in the file than in memory where basic types have another size there: MPI
scales displacements in elements and takes those in octets as they are, so the map is made again
from its recipe. If no size differs, the map is that of memory, gaps included: MPICH and Open MPI
lay out value-index pairs of external32 so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.values.basic import (
    EXTERNAL,
    EXTERNAL_LONG8,
    NATIVE,
    Basic,
    Kind,
    Wire,
)
from impi.protocol.semantics.values.datatype import Run, TypeMap
from impi.rank.api.constants import MAX_DATAREP_STRING
from impi.rank.api.handles.failing import guarded_function
from impi.rank.api.types.datatypes import Datatype
from impi.rank.api.types.typestate import Recipe, TypeState, named

if TYPE_CHECKING:
    from impi.rank.api.types.buffers import UserBuffer

Converter: TypeAlias = (
    Callable[[memoryview, Datatype, int, memoryview, int], None] | None
)


class Representation(Protocol):
    """The form of values in a file."""

    def size_of(self, basic: Basic) -> int:
        """Octets of a value in the file."""

    def nbytes(self, buffer: UserBuffer) -> int:
        """Octets of a whole buffer in the file."""

    def to_file(self, buffer: UserBuffer) -> memoryview:
        """Return the octets for the file; an alias of memory if nothing changes."""

    def landing(self, buffer: UserBuffer) -> memoryview | None:
        """Return user memory that may take octets of the file, for :meth:`from_file`; or None."""

    def from_file(self, octets: memoryview, buffer: UserBuffer) -> int:
        """Put octets of the file into the buffer; return how many octets of data it got."""


class Form:
    """One of the forms that :mod:`impi.protocol.semantics.values.datatype` packs.

    Args:
        form: NATIVE, EXTERNAL or EXTERNAL_LONG8.
    """

    def __init__(self, form: int) -> None:
        self._form = form
        self._external, self._long_size = (
            form != NATIVE,
            8 if form == EXTERNAL_LONG8 else 4,
        )

    def size_of(self, basic: Basic) -> int:
        return basic.sizes[self._form]

    def nbytes(self, buffer: UserBuffer) -> int:
        return buffer.count * buffer.datatype.typemap.sizes[self._form]

    def to_file(self, buffer: UserBuffer) -> memoryview:
        return buffer.datatype.typemap.pack(
            buffer.view,
            buffer.offset,
            buffer.count,
            external=self._external,
            long_size=self._long_size,
        )

    def landing(self, buffer: UserBuffer) -> memoryview | None:
        return buffer.datatype.typemap.landing(
            buffer.view,
            buffer.offset,
            buffer.count,
            external=self._external,
            long_size=self._long_size,
        )

    def from_file(self, octets: memoryview, buffer: UserBuffer) -> int:
        typemap, external, long_size = (
            buffer.datatype.typemap,
            self._external,
            self._long_size,
        )
        typemap.unpack(
            octets,
            buffer.view,
            buffer.offset,
            buffer.count,
            external=external,
            long_size=long_size,
        )
        return typemap.native_size(len(octets), external=external, long_size=long_size)


class Registered:
    """A representation of the program's own (MPI 4.1, 14.5.3)."""

    def __init__(
        self,
        read_fn: Converter,
        write_fn: Converter,
        extent_fn: Callable[[Datatype], int],
    ) -> None:
        self._read, self._write, self._extent = read_fn, write_fn, extent_fn

    def size_of(self, basic: Basic) -> int:
        try:
            return int(self._extent(Datatype._wrap(named(basic.name))))
        except Exception as failure:
            raise _failed(failure) from failure

    def nbytes(self, buffer: UserBuffer) -> int:
        return buffer.count * self._size(buffer)

    def to_file(self, buffer: UserBuffer) -> memoryview:
        if self._write is None:
            return _AS_IN_MEMORY.to_file(self._unconverted(buffer))

        octets = memoryview(bytearray(self.nbytes(buffer)))
        self._convert(self._write, buffer, buffer.count, octets)

        return octets

    def landing(self, buffer: UserBuffer) -> memoryview | None:
        """Return None: the function decides where octets go."""
        return None

    def from_file(self, octets: memoryview, buffer: UserBuffer) -> int:
        if self._read is None:
            return _AS_IN_MEMORY.from_file(octets, self._unconverted(buffer))

        # Whole elements only: at the end of a file the last one may be cut.
        count = len(octets) // max(1, self._size(buffer))
        self._convert(self._read, buffer, count, octets)

        return count * buffer.datatype.typemap.size

    def _size(self, buffer: UserBuffer) -> int:
        return in_file(buffer.datatype._live(), self).size

    def _unconverted(self, buffer: UserBuffer) -> UserBuffer:
        """Return a buffer whose octets need no function; Exception ``ERR_CONVERSION``: they do."""
        if self._size(buffer) != buffer.datatype.typemap.size:
            raise error(
                "ERR_CONVERSION",
                "values have other sizes in the file, and no function converts them",
            )

        return buffer

    def _convert(
        self,
        function: Callable[[memoryview, Datatype, int, memoryview, int], None],
        buffer: UserBuffer,
        count: int,
        octets: memoryview,
    ) -> None:
        try:
            function(buffer.view[buffer.offset :], buffer.datatype, count, octets, 0)
        except Exception as failure:
            raise _failed(failure) from failure


def _failed(failure: Exception) -> MPIException:
    if isinstance(failure, MPIException):
        return failure

    import traceback

    traceback.print_exc()

    return error(
        "ERR_CONVERSION",
        f"a function of the data representation failed: {type(failure).__name__}: {failure}",
    )


_AS_IN_MEMORY: Final = Form(NATIVE)
_known: Final[dict[str, Representation]] = {
    "native": _AS_IN_MEMORY,
    "external32": Form(EXTERNAL),
}
_INTERNAL: Final = "internal"


def chosen(name: str, *, alike: bool) -> Representation:
    """Return a representation by name; ``alike``: whether all procs have one form in memory.

    Raises:
        MPIException: ``ERR_UNSUPPORTED_DATAREP``: there is none of that name.
    """
    if name == _INTERNAL:
        return _AS_IN_MEMORY if alike else Form(EXTERNAL_LONG8)

    if name not in _known:
        raise error(
            "ERR_UNSUPPORTED_DATAREP",
            f"there is no {name!r}; there are {', '.join([_INTERNAL, *_known])}",
        )

    return _known[name]


def in_file(state: TypeState, representation: Representation) -> TypeMap:
    """Return the map that a type has in a file."""

    basics = [run.basic for run in state.typemap.runs]
    # If no value changes its size, the map of memory holds in the file, too.
    if all(representation.size_of(basic) == basic.sizes[NATIVE] for basic in basics):
        return state.typemap

    recipe = state.recipe
    if not recipe.bases:
        return _in_a_row(basics, representation)

    bases = [
        Datatype._wrap(TypeState(in_file(base, representation), Recipe()))
        for base in recipe.bases
    ]
    if recipe.combiner == "DUP":
        return bases[0].typemap

    if recipe.combiner == "STRUCT":
        return Datatype.Create_struct(**recipe.params, datatypes=bases).typemap

    made: Datatype = getattr(bases[0], f"Create_{recipe.combiner.lower()}")(
        **recipe.params
    )

    return made.typemap


def _in_a_row(basics: list[Basic], representation: Representation) -> TypeMap:
    runs, end = [], 0
    for basic in basics:
        n = representation.size_of(basic)
        other = Basic(
            basic.name,
            Kind.OPAQUE,
            n,
            1,
            (f"V{n}",) * 4,
            (n, n),
            (Wire.SAME, Wire.SAME),
        )
        runs.append(Run(other, end, (), (), (end, end, end), ()))
        end += n

    return TypeMap(tuple(runs), lb=0, ub=end, sizes=(end, end, end))


@guarded_function
def Register_datarep(
    datarep: str,
    read_fn: Converter,
    write_fn: Converter,
    extent_fn: Callable[[Datatype], int],
) -> None:
    """Register a data representation under a name, until the end of the program.

    Args:
        datarep: the name, for :meth:`File.Set_view`.
        read_fn: called with memory, datatype, count, octets of the file and position; stores the
            elements in memory. None: the octets are those of memory.
        write_fn: called alike; stores the elements in the octets.
        extent_fn: returns the octets of a predefined datatype in the file.

    Raises:
        Exception: ``ERR_DUP_DATAREP``: the name is taken; ``ERR_ARG``: it is too long.
    """
    if not 0 < len(datarep.encode()) <= MAX_DATAREP_STRING:
        raise error(
            "ERR_ARG",
            f"the name of a data representation must have 1 to {MAX_DATAREP_STRING} octets",
        )

    if datarep in _known or datarep == _INTERNAL:
        raise error("ERR_DUP_DATAREP", f"{datarep!r} is defined already")

    _known[datarep] = Registered(read_fn, write_fn, extent_fn)
