"""Buffer specifications: ``buf``, ``[buf, type]``, ``[buf, count, type]`` and mpi4py's other forms.

Each becomes octets of user memory, a count and a datatype, without copying.

How it works: there are two readers. ``_read_plain_array`` knows the form of most messages, a
contiguous array of native numbers, and makes two objects. It refuses everything else with None,
mistakes included, and never raises. :func:`read_buffer` then reads all of mpi4py's forms, and finds
the sentence for a mistake. So the usual message pays for no error text, and each rule of a form
stands in one place.

A bad specification raises ValueError or TypeError, an unknown type code KeyError, unusable memory
BufferError, and a datatype that is not committed Exception ERR_TYPE.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.rank.api.constants import BOTTOM, BUFFER_AUTOMATIC, IN_PLACE
from impi.rank.api.handles.integers import LONG_MAX, fitting
from impi.rank.api.types.datatypes import (
    BYTE,
    CHAR,
    INT8_T,
    SIGNED_CHAR,
    UINT8_T,
    UNSIGNED_CHAR,
    Datatype,
    _typedict,
)
from impi.rank.api.types.memory import at_address, octets_of

__all__ = [
    "BOTTOM",
    "BUFFER_AUTOMATIC",
    "IN_PLACE",
    "NATIVE",
    "OCTETS",
    "Plain",
    "UserBlocks",
    "UserBuffer",
    "read",
    "kept_blocks",
    "kept_buffer",
    "plain_types",
    "read_blocks",
    "read_buffer",
]

# Meaning of 8-octet longs whose datatype was inferred.
_EXACT: Final = {"LONG": NAMED["INT64_T"], "UNSIGNED_LONG": NAMED["UINT64_T"]}


@record
class UserBuffer:
    """``count`` elements of ``datatype``, the first at octet ``offset`` of ``view``."""

    view: memoryview
    offset: int
    count: int
    datatype: Datatype
    # Whether the datatype was inferred: numpy's int64 is meant then, not C's long
    discovered: bool

    def wire_type(self, strict: bool = False) -> TypeMap:
        """Return the type map; ``strict``: an inferred long is INT64_T, as wire longs have 4."""
        typemap = self.datatype.typemap
        return (
            _EXACT.get(typemap.name, typemap)
            if strict and self.discovered and typemap.size == 8
            else typemap
        )

    def block(self, index: int) -> UserBuffer:
        """Return ``count`` elements, ``index`` blocks further on."""
        extent = _SIZES.get(self.datatype._state) or self.datatype.typemap.extent
        offset = self.offset + index * self.count * extent
        return UserBuffer(self.view, offset, self.count, self.datatype, self.discovered)

    def octets(self, blocks: int = 1) -> memoryview | None:
        """Return ``blocks`` blocks in memory; None: not one predefined value without gaps."""

        # The common types are found here: short collectives ask for each block.
        size = _SIZES.get(self.datatype._state)
        if size is None:
            typemap = self.datatype.typemap
            size = typemap.size
            if not typemap.name or len(typemap.runs) != 1 or size != typemap.extent:
                return None

        return self.view[self.offset : self.offset + blocks * self.count * size]


@record
class UserBlocks:
    """Blocks of their own count, displacement (octets) and datatype."""

    view: memoryview
    offset: int
    counts: list[int]
    displs: list[int]
    datatypes: list[Datatype]
    discovered: bool

    def block(self, index: int) -> UserBuffer:
        offset = self.offset + self.displs[index]
        return UserBuffer(
            self.view,
            offset,
            self.counts[index],
            self.datatypes[index],
            self.discovered,
        )


OCTETS: Final = frozenset(
    each._state for each in (BYTE, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, INT8_T, UINT8_T)
)
"""Types of one octet, equal in every form."""

# Octets of the predefined types without gaps.
_SIZES: Final = {
    each._state: each.typemap.size
    for each in {**_typedict, "BYTE": BYTE}.values()
    if len(each.typemap.runs) == 1 and each.typemap.size == each.typemap.extent
}

NATIVE: Final = frozenset(_SIZES)
"""Types that are octets as they are, wherever both ends have the native form."""


def plain_types(*, external: bool) -> Container[object]:
    """Return the types that need no conversion on a way whose form is external32, or native."""
    return OCTETS if external else NATIVE


# Types by the formats of memoryview that can be cast to octets. Others, as those of ctypes and of
# numpy's structures, are read by :func:`octets_of`.
_FORMATS: Final = {code: _typedict[code] for code in "bBhHiIlLqQfd?"}

_LISTS: Final = (list, tuple)

Plain: TypeAlias = tuple[memoryview, int]
"""The octets of a message, and how many elements they are."""


def read(spec: Any, plain: Container[Any], *, readonly: bool) -> Plain | UserBuffer:
    """Read a message's specification: octets as they are, or elements to convert.

    Args:
        spec: see :func:`read_buffer`, which also tells the errors.
        plain: :data:`OCTETS` or :data:`NATIVE`: types that need no conversion on the way.
        readonly: whether the memory is only read.
    """

    # Tried first: most messages are one contiguous array, and the full reading below makes
    # several objects for each.
    found = _read_plain_array(spec, readonly)
    if found is not None and found[2]._state in plain:
        return found[:2]

    message = read_buffer(spec, readonly=readonly)
    octets = message.octets() if message.datatype._state in plain else None

    return message if octets is None else (octets, message.count)


def _read_plain_array(
    spec: Any, readonly: bool
) -> tuple[memoryview, int, Datatype] | None:
    """Read the most common buffer: a contiguous array of native numbers, alone, with its type, or
    with count and type. None: another buffer, or a wrong one."""

    buf, count, datatype = (
        _read_list(spec) if type(spec) in _LISTS else (spec, None, None)
    )
    try:
        view = memoryview(buf)
    except (TypeError, ValueError, BufferError):
        return None

    typ = _FORMATS.get(view.format)
    # The last test is true only for read-only memory that the call is to write.
    if typ is None or not view.c_contiguous or readonly < view.readonly:
        return None

    if datatype is not None:
        typ = datatype

    size = _SIZES.get(typ._state)
    nbytes = view.nbytes
    if size is None or not nbytes:  # an empty view cannot be cast
        return None

    octets = view.cast("B")
    if count is None:
        return None if nbytes % size else (octets, nbytes // size, typ)

    wanted = count * size
    if wanted == nbytes:
        return octets, count, typ

    return (octets[:wanted], count, typ) if 0 <= wanted < nbytes else None


def _read_list(spec: Any) -> tuple[Any, int | None, Datatype | None]:
    """Return buffer, count and datatype; another form has no buffer."""
    buf, count, datatype = None, None, None
    if len(spec) == 2:
        buf, datatype = spec
    elif len(spec) == 3 and type(spec[1]) is int:
        buf, count, datatype = spec

    return (buf, count, datatype) if type(datatype) is Datatype else (None, None, None)


def _plain_buffer(spec: Any, readonly: bool, blocks: int) -> UserBuffer | None:
    if type(spec) is UserBuffer:  # of a program in C (impi.cabi)
        return spec

    found = _read_plain_array(spec, readonly)
    if found is None:
        return None

    octets, count, datatype = found

    listed = type(spec) in _LISTS
    if blocks > 1:
        # A count that is given is one block's; the full reader checks it against the memory.
        if count % blocks or (listed and len(spec) == 3):
            return None

        count //= blocks

    return UserBuffer(octets, 0, count, datatype, not listed)


def kept_buffer(spec: object, *, readonly: bool, blocks: int = 1) -> UserBuffer:
    """:func:`read_buffer` for an operation that outlasts its call, and perhaps its datatype."""
    read = _plain_buffer(spec, readonly, blocks) or _read_fully(spec, readonly, blocks)
    if read.datatype._is_constant:
        return read

    return UserBuffer(
        read.view,
        read.offset,
        read.count,
        _datatype_kept(read.datatype),
        read.discovered,
    )


def kept_blocks(
    spec: object, *, readonly: bool, blocks: int, typed: bool = False
) -> UserBlocks:
    """:func:`read_blocks` for an operation that outlasts its call."""
    read = read_blocks(spec, readonly=readonly, blocks=blocks, typed=typed)
    datatypes = [_datatype_kept(each) for each in read.datatypes]

    return UserBlocks(
        read.view, read.offset, read.counts, read.displs, datatypes, read.discovered
    )


def _datatype_kept(datatype: Datatype) -> Datatype:
    """Return a handle of our own: the program's becomes null when it frees the datatype."""
    return datatype if datatype._is_constant else Datatype._wrap(datatype._state)


def read_buffer(
    spec: Any, *, readonly: bool, blocks: int = 1, check: bool = True
) -> UserBuffer:
    """Read a specification with one count; Exception ERR_BUFFER: the buffer is too small.

    Args:
        spec: ``buf``, ``[buf, type]``, ``[buf, count]``, ``[buf, (count, displ)]``,
            ``[buf, count, type]``, ``[buf, (count, displ), type]``, ``[buf, count, displ, type]``.
        readonly: whether the memory is only read.
        blocks: number of blocks if the count is inferred; the count is per block.
        check: whether the size of the buffer is checked.
    """

    plain = _plain_buffer(spec, readonly, blocks)

    return _read_fully(spec, readonly, blocks, check) if plain is None else plain


def _read_fully(
    spec: object, readonly: bool, blocks: int, check: bool = True
) -> UserBuffer:
    """Read all of mpi4py's forms, and find the sentences of their errors."""

    buf, counts, displ, datatype = _split_spec(spec, (list, tuple))
    count = _index(counts) if counts is not None else None
    start = _index(displ) if displ is not None else 0

    if (count is not None and count < 0) or start < 0 or (buf is None and count):
        raise ValueError(_refusal(count, start))

    view, typ, discovered = _memory(buf, datatype, readonly=readonly)

    offset = 0
    if start:
        offset = _offset(typ, view, start)

    if count is None:
        count = _inferred_count(view.nbytes - offset, typ, blocks)
    elif buf is BOTTOM and count:
        # The type's displacements are addresses: the memory is what they span.
        view, offset = _at_addresses([typ.typemap.span(offset, count * max(blocks, 1))])

    typ._check_committed()
    if check and buf is not BOTTOM:
        _check_inside(typ, view, offset, count, max(blocks, 1))

    return UserBuffer(view, offset, count, typ, discovered)


def _offset(datatype: Datatype, view: memoryview, start: int) -> int:
    extent = _extent(datatype, "handle displacement")
    if start * extent > view.nbytes:
        fitting(start, LONG_MAX)
        entries = view.nbytes // extent
        raise ValueError(
            f"message: displacement {start} out of bounds, the buffer has {entries} entries"
        )

    return start * extent


def _refusal(count: int | None, start: int) -> str:
    if count is not None and count < 0:
        return f"message: negative count {count}"

    return (
        f"message: negative displacement {start}"
        if start < 0
        else f"message: buffer is None but count is {count}"
    )


def _check_inside(
    datatype: Datatype, view: memoryview, offset: int, count: int, blocks: int
) -> None:
    try:
        datatype.typemap.inside(view, offset, count * blocks)
    except MPIException:
        fitting(count, LONG_MAX)  # too large for C is another error
        raise


def read_blocks(
    spec: Any, *, readonly: bool, blocks: int, typed: bool = False
) -> UserBlocks:
    """Read a specification of ``blocks`` blocks; Exception ERR_BUFFER: the buffer is too small.

    Args:
        spec: ``buf``, ``[buf, type]``, ``[buf, counts]``, ``[buf, (counts, displs)]``,
            or these with ``type`` last, or ``[buf, counts, displs, type]``. Default counts: as
            equal as possible; an integer: equal counts, or a stride. Default displacements: one
            block after the other.
        readonly: whether the memory is only read.
        blocks: number of blocks.
        typed: for Alltoallw: ``[buf, types]``, ``[buf, (counts, displs), types]`` or
            ``[buf, counts, displs, types]``, with displacements in octets.
    """
    if type(spec) is UserBlocks:
        return spec

    return (_typed_blocks if typed else _blocks)(spec, readonly, blocks)


def _blocks(spec: Any, readonly: bool, blocks: int) -> UserBlocks:
    buf, counts, displs, datatype = _split_spec(spec, (tuple,))

    view, typ, discovered = _memory(buf, datatype, readonly=readonly)
    if counts is None:
        # As mpi4py: the first blocks have one element more if the number cannot be divided.
        total = _inferred_count(view.nbytes, typ, 1)
        counts = [total // blocks + (total % blocks > i) for i in range(blocks)]
    else:
        counts = _numbers_of_blocks(counts, blocks, "counts")

    if displs is None:
        displs = [0, *accumulate(counts)][:blocks]
    elif _is_integer(displs):
        displs = [_index(displs) * i for i in range(blocks)]
    else:
        displs = _numbers_of_blocks(displs, blocks, "displacements")

    typ._check_committed()
    extent = typ.typemap.extent

    return _placed(
        buf,
        view,
        counts,
        [extent * displ for displ in displs],
        [typ] * blocks,
        discovered,
    )


def _typed_blocks(spec: Any, readonly: bool, blocks: int) -> UserBlocks:
    buf, counts, displs, types = _split_typed(spec)
    if (counts is None) != (displs is None) or (buf is BOTTOM and counts is None):
        raise ValueError("message: expecting both counts and displacements")

    counts = (
        [1] * blocks if counts is None else _numbers_of_blocks(counts, blocks, "counts")
    )
    displs = (
        [0] * blocks
        if displs is None
        else _numbers_of_blocks(displs, blocks, "displacements")
    )

    datatypes = [_datatype(item) for item in types]
    if len(datatypes) != blocks:
        raise ValueError(f"message: expecting {blocks} datatypes, got {len(datatypes)}")

    for datatype in datatypes:
        datatype._check_committed()

    view = (
        memoryview(bytearray())
        if buf is None or buf is BOTTOM
        else octets_of(buf, readonly=readonly)[0]
    )

    return _placed(buf, view, counts, displs, datatypes, False)


def _placed(
    buf: Any,
    view: memoryview,
    counts: list[int],
    displs: list[int],
    datatypes: list[Datatype],
    discovered: bool,
) -> UserBlocks:
    """Return UserBlocks; at MPI_BOTTOM the displacements are the addresses of the memory."""
    if buf is BOTTOM and any(counts):
        spans = [
            t.typemap.span(d, n)
            for d, n, t in zip(displs, counts, datatypes, strict=True)
            if n
        ]
        view, offset = _at_addresses(spans)
        return UserBlocks(view, offset, counts, displs, datatypes, discovered)

    if buf is not BOTTOM:
        try:
            for displ, count, datatype in zip(displs, counts, datatypes, strict=True):
                datatype.typemap.inside(view, displ, count)
        except MPIException:
            for number in (*counts, *displs):
                fitting(number, LONG_MAX)

            raise

    return UserBlocks(view, 0, counts, displs, datatypes, discovered)


def _split_typed(spec: Any) -> tuple[Any, Any, Any, Any]:
    if len(spec) == 2:
        buf, types = spec
        return buf, None, None, types

    if len(spec) == 3:
        buf, (counts, displs), types = spec
        return buf, counts, displs, types

    if len(spec) == 4:
        buf, counts, displs, types = spec
        return buf, counts, displs, types

    raise ValueError("message: expecting 2 to 4 items")


def _split_spec(spec: Any, nested: Any) -> tuple[Any, Any, Any, Any]:
    """Return buffer, counts, displacements, datatype; ``nested``: types for (counts, displs)."""

    if not isinstance(spec, (list, tuple)):
        if spec is None or isinstance(spec, type):
            raise TypeError("message: expecting buffer or list/tuple")

        return spec, None, None, None

    displs: Any = None
    datatype: Any = None
    if len(spec) == 2:
        buf, counts = spec
        if isinstance(counts, (Datatype, str)):
            return buf, None, None, counts
    elif len(spec) == 3:
        buf, counts, datatype = spec
    elif len(spec) == 4:
        buf, counts, displs, datatype = spec
        return buf, counts, displs, datatype
    else:
        raise ValueError("message: expecting 2 to 4 items")

    if isinstance(counts, nested):
        counts, displs = counts

    return buf, counts, displs, datatype


def _datatype(item: Any) -> Datatype:
    if isinstance(item, Datatype):
        return item

    try:
        return _typedict[item]
    except (KeyError, TypeError):
        raise KeyError(f"cannot map {item!r} to MPI datatype") from None


def _memory(
    buf: Any, datatype: Any, *, readonly: bool
) -> tuple[memoryview, Datatype, bool]:
    if buf is None or buf is BOTTOM:
        return memoryview(bytearray()), _datatype(datatype), False

    try:
        view, format = octets_of(buf, readonly=readonly)
    except TypeError as failure:
        raise TypeError(
            f"message: expecting buffer or list/tuple, got {type(buf).__name__}"
        ) from failure

    if datatype is not None:
        return view, _datatype(datatype), False

    return view, _of_format(format), True


_SWAPPED: Final = ">" if memoryview(b"\1\0").cast("H")[0] == 1 else "<"


def _of_format(format: str) -> Datatype:
    order = format[:1]
    if not order:
        raise BufferError(
            "the datatype of the buffer is unknown: give it, as in [buf, MPI.INT64_T]"
        )

    # PEP 3118: "!" means network order, which is big-endian.
    if order == _SWAPPED or (order == "!" and _SWAPPED == ">"):
        raise BufferError(f"format string {format!r} with non-native byte order")

    return _datatype(format[1:] if order in "@<>=!" else format)


def _extent(datatype: Datatype, purpose: str) -> int:
    if not datatype:
        raise ValueError(f"message: cannot {purpose}, datatype is null")

    lb, extent = datatype.typemap.lb, datatype.typemap.extent
    if extent <= 0:
        raise ValueError(
            f"message: cannot {purpose}, datatype extent {extent} (lb:{lb}, ub:{lb + extent})"
        )

    return extent


def _inferred_count(nbytes: int, datatype: Datatype, blocks: int) -> int:
    if nbytes <= 0:
        return 0

    extent = _extent(datatype, "infer count")
    if nbytes % extent:
        lb = datatype.typemap.lb
        raise ValueError(
            f"message: cannot infer count, buffer length {nbytes} is not a multiple of datatype extent {extent} "
            f"(lb:{lb}, ub:{lb + extent})"
        )

    entries = nbytes // extent
    if blocks < 2:
        return entries

    if entries % blocks:
        raise ValueError(
            f"message: cannot infer count, number of entries {entries} is not a multiple of required number of "
            f"blocks {blocks}"
        )

    return entries // blocks


def _at_addresses(spans: Sequence[tuple[int, int]]) -> tuple[memoryview, int]:
    """Return memory that covers address spans, and the offset in it of address 0."""
    low, high = min(first for first, _ in spans), max(last for _, last in spans)
    return at_address(low, high - low), -low


def _is_integer(value: Any) -> bool:
    # All numpy arrays have __index__; only those without dimensions are integers.
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _index(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(
            f"message: expecting an integer, got {type(value).__name__}"
        ) from None


def _numbers_of_blocks(values: Any, blocks: int, what: str) -> list[int]:
    if _is_integer(values):
        return [_index(values)] * blocks

    row = [_index(value) for value in values]
    if len(row) != blocks:
        raise ValueError(f"message: expecting {blocks} {what}, got {len(row)}")

    return row
