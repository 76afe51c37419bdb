"""The memory of a program: impi's buffers over addresses with counts and datatypes, not copied.

How it works: C gives an address, a count and a handle of a datatype; impi's calls take a view of
memory. A buffer covers exactly the octets that MPI may touch: from the true lower bound of the
first element to the true upper bound of the last. MPI_BOTTOM is address 0 with absolute
displacements, so it needs no case of its own.

Most messages have a predefined datatype without gaps: their size is one multiplication
(``_plain``), and where clients share the native form they become octets at once (``_raw``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.protocol.semantics.constants import INT_MAX
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.types.buffers import UserBlocks, UserBuffer

_buffer, _unpack = ffi.buffer, ffi.unpack
_IN_PLACE: Final = ffi.cast("char *", link.constant("IN_PLACE"))
_NOTHING: Final = memoryview(bytearray())
_INT_OCTETS: Final = 4
# Sizes in octets of the predefined datatypes that are one value without gaps.
_plain: Final[dict[Object, int]] = {
    item._state: item.typemap.size
    for item in datatypes.values()
    if item._state is not None and item.typemap.name and len(item.typemap.runs) == 1
    if item.typemap.size == item.typemap.extent
}


# Sizes in octets, by handle, of datatypes whose elements travel as they are in memory.
_raw: Final[dict[int, int]] = {}


def agreed() -> None:
    """Note which datatypes need no conversion, once clients have agreed on the form of values."""
    if not runtime.external():
        plain = (
            (number, _plain.get(item._state)) for number, item in datatypes.items()
        )
        _raw.update({number: size for number, size in plain if size is not None})


def message(address: Pointer, count: int, datatype: int) -> memoryview | UserBuffer:
    """Return a buffer over the elements of a message.

    Raises:
        Exception: ERR_TYPE: no such datatype, or not committed; ERR_COUNT: negative count;
            ERR_BUFFER: a null address with elements to move.
    """
    return _elements(address, count, datatypes[datatype], 1)


def origin(
    address: Pointer, count: int, datatype: int, op: Object
) -> memoryview | UserBuffer:
    """Return the origin's elements of a fetching call; MPI_NO_OP ignores them (MPI 4.1, 12.3)."""
    return _NOTHING if op == MPI.NO_OP else message(address, count, datatype)


def operand_of(
    address: Pointer, result: Pointer, datatype: int, op: Object
) -> memoryview | UserBuffer:
    """Return the origin's element of Fetch_and_op; MPI_NO_OP ignores it, so the result serves."""
    return message(result if op == MPI.NO_OP else address, 1, datatype)


def payload(address: Pointer, count: int, datatype: int) -> memoryview | UserBuffer:
    """Return the elements of a point-to-point message: plain octets if no form is converted."""
    size = _raw.get(datatype)
    # All else is rare, or wrong: _elements() finds out which.
    if size is not None and count > 0 and address:
        return _buffer(address, size * count)  # type: ignore[no-any-return]

    return _elements(address, count, datatypes[datatype], 1)


def block(address: Pointer, count: int, datatype: int, blocks: int) -> Object:
    """Return a collective's buffer: ``blocks`` blocks of ``count`` elements each; or IN_PLACE."""
    if address == _IN_PLACE:
        return MPI.IN_PLACE

    return _elements(address, count, datatypes[datatype], blocks)


def _elements(
    address: Pointer, count: int, datatype: Object, blocks: int
) -> UserBuffer:
    state = datatype._state
    if count < 0:
        raise error("ERR_COUNT", f"negative count {count}")

    if state is None:
        raise error("ERR_TYPE", "null datatype")

    if not state.committed:
        datatype._check_committed()

    size = _plain.get(state)
    if size is not None:
        nbytes = size * count * blocks
        # MPI allows a null address for no elements.
        if not nbytes:
            return UserBuffer(_NOTHING, 0, count, datatype, False)

        if not address:
            raise error("ERR_BUFFER", f"null address of {count} elements")

        return UserBuffer(
            memoryview(_buffer(address, nbytes)), 0, count, datatype, False
        )

    # A derived type may begin before its address, so the view does, too.
    low, high = state.typemap.span(0, count * blocks)

    return UserBuffer(_view(address, low, high), -low, count, datatype, False)


def _view(address: Pointer, low: int, high: int) -> memoryview:
    return memoryview(_buffer(address + low, high - low)) if high > low else _NOTHING


def blocks_of(
    address: Pointer,
    counts: Pointer,
    displs: Pointer,
    datatype: Object,
    number: int,
    typed: bool,
) -> Object:
    """Return a collective's blocks, each with a count and a displacement of its own; or IN_PLACE.

    Args:
        address: address of the buffer.
        counts, displs: arrays; displacements are in octets if ``typed``, else in extents.
        datatype: one datatype, or an array if ``typed`` (Alltoallw).
        number: length of the arrays.
        typed: whether each block has a datatype of its own.
    """

    if address == _IN_PLACE:
        return MPI.IN_PLACE

    if not number:
        return UserBlocks(_NOTHING, 0, [], [], [], False)

    each, places = _unpack(counts, number), _unpack(displs, number)
    if typed:
        # An empty block may name no valid datatype.
        kinds = [
            datatypes[t] if n else MPI.BYTE
            for t, n in zip(_unpack(datatype, number), each, strict=True)
        ]
    else:
        kinds = [datatypes[datatype]] * number
        extent = kinds[0].typemap.extent
        places = [extent * place for place in places]

    for kind in kinds:
        kind._check_committed()

    if min(each) < 0:
        raise error("ERR_COUNT", f"negative count {min(each)}")

    spans = [
        kind.typemap.span(at, n)
        for kind, at, n in zip(kinds, places, each, strict=True)
        if n
    ]
    # One view from the first octet of any block to the last one, as
    # displacements may have any order.
    low, high = (
        min((s[0] for s in spans), default=0),
        max((s[1] for s in spans), default=0),
    )
    # Any address will do for empty blocks; their own might be far outside the view.
    places = [at if n else low for at, n in zip(places, each, strict=True)]

    return UserBlocks(_view(address, low, high), -low, each, places, kinds, False)


def operand(
    address: Pointer, sendbuf: Pointer, counts: Pointer, datatype: int, comm: Object
) -> Object:
    """Return a buffer of Reduce_scatter: all blocks, or one if it takes the result only."""

    if address == _IN_PLACE:
        return MPI.IN_PLACE

    row = _unpack(counts, comm.Get_size())
    # This is the send buffer, or a receive buffer that has the input, too: both have all blocks.
    whole = sendbuf in (address, _IN_PLACE)

    return _elements(
        address, sum(row) if whole else row[comm.Get_rank()], datatypes[datatype], 1
    )


def scattered(
    address: Pointer, sendbuf: Pointer, count: int, datatype: int, number: int
) -> UserBuffer:
    """Return the receive buffer of Reduce_scatter_block, which is all blocks with IN_PLACE."""
    return _elements(
        address, count, datatypes[datatype], number if sendbuf == _IN_PLACE else 1
    )


def ranges_of(ranges: Pointer, number: int) -> list[tuple[int, int, int]]:
    """Return ranges of ranks as triples: first rank, last rank, stride."""
    row = _unpack(ranges, 3 * number) if number else []
    return [(row[i], row[i + 1], row[i + 2]) for i in range(0, len(row), 3)]


def partitions(
    address: Pointer, number: int, count: int, datatype: Object
) -> UserBuffer:
    """Return the buffer of a partitioned message: ``count`` elements a partition."""
    return _elements(address, count, datatype, number)


def fill(
    place: Pointer,
    values: Sequence[int],
    table: dict[int, int] | None = None,
    most: int | None = None,
) -> None:
    """Write numbers to an array.

    Args:
        place: the array.
        values: the numbers.
        table: the ABI's values of some numbers, such as constants.
        most: the room in the array; None: enough.
    """
    for i, value in enumerate(values[:most]):
        place[i] = value if table is None else table.get(value, value)


def address(location: Pointer) -> int:
    """Return an address as a number."""
    return int(ffi.cast("intptr_t", location))


def at(place: Pointer, nbytes: int) -> memoryview:
    """Return a view of the program's memory."""
    return memoryview(_buffer(place, nbytes)) if nbytes else _NOTHING


# ---- memory that MPI lends to the program, or the program to MPI

_allocated: Final[dict[int, Object]] = {}


def allocate(size: int, baseptr: Pointer) -> None:
    """Write the address of new memory to where ``baseptr`` points (MPI_Alloc_mem)."""

    if size < 0:
        raise error("ERR_ARG", f"negative size {size}")

    # At least one octet, because release() finds memory by its address: it must be unique.
    memory = ffi.new("char[]", max(size, 1))
    _allocated[address(memory)] = memory
    ffi.cast("intptr_t *", baseptr)[0] = address(memory)


def release(base: Pointer) -> None:
    """Free memory from :func:`allocate`; ERR_BASE: it is none of that (MPI_Free_mem)."""
    if address(base) and _allocated.pop(address(base), None) is None:
        raise error(
            "ERR_BASE", f"{address(base):#x} is not an address that MPI_Alloc_mem gave"
        )


def window(win: Object, baseptr: Pointer) -> Object:
    """Write the address of a window's memory to where ``baseptr`` points; return the window."""
    ffi.cast("intptr_t *", baseptr)[0] = win.tomemory().address
    return win


def shared(win: Object, rank: int, baseptr: Pointer) -> tuple[int, int]:
    """Write the address of a rank's shared memory; return its octets and displacement unit."""
    memory, unit = win.Shared_query(rank)
    ffi.cast("intptr_t *", baseptr)[0] = memory.address

    return memory.nbytes, unit


_AUTOMATIC: Final = ffi.cast("char *", link.constant("BUFFER_AUTOMATIC", -2))
# Address of the last empty buffer, which impi does not keep
_attached: Final[list[int]] = [0]


def attached(place: Pointer, size: int) -> Object:
    """Return a buffer for buffered sends, over the program's memory."""
    if place == _AUTOMATIC:
        return MPI.BUFFER_AUTOMATIC

    # MPI_Buffer_detach must return the address that the program gave, even of no octets.
    if not size:
        _attached[0] = address(place)

    return (ctypes.c_char * size).from_address(address(place)) if size else bytearray()


def detached(place: Pointer, size: Pointer, buffer: Pointer) -> None:
    """Write address and size of a detached buffer; a size that an int lacks is MPI_UNDEFINED."""

    if buffer is MPI.BUFFER_AUTOMATIC:
        ffi.cast("intptr_t *", place)[0], size[0] = address(_AUTOMATIC), 0
        return

    nbytes = memoryview(buffer).nbytes if buffer is not None else 0
    view = ffi.from_buffer(buffer) if nbytes else None
    ffi.cast("intptr_t *", place)[0] = (
        address(view) if view is not None else _attached[0]
    )
    size[0] = (
        nbytes if ffi.sizeof(ffi.typeof(size).item) > _INT_OCTETS else in_int(nbytes)
    )


def in_int(number: int) -> int:
    """Return a number of elements or octets, or MPI_UNDEFINED if it exceeds an int."""
    return number if number <= INT_MAX else MPI.UNDEFINED


# ---- strings: lengths count the final zero or not, as each function of MPI defines


def text(place: Pointer) -> str:
    """Return a string of the program; ERR_ARG: the pointer is NULL."""
    if not place:
        raise error("ERR_ARG", "a string is NULL")

    return ffi.string(place).decode(errors="replace")  # type: ignore[no-any-return]


def write_text(place: Pointer, value: str, length: Pointer) -> None:
    """Write a string, and its length if there is a place for it."""
    octets = value.encode()

    ffi.memmove(place, octets + b"\0", len(octets) + 1)
    if length is not None:
        length[0] = len(octets)


def nth_pset(
    session: Object, info: Object, n: int, length: Pointer, place: Pointer
) -> None:
    """Write the name of a process set, cut to ``length``, and its length with the final zero."""
    name = session.Get_nth_pset(n, info).encode()
    # A program first asks with length 0, to learn how much room it needs.
    if length[0]:
        _cut(place, name, length[0])

    length[0] = len(name) + 1


def _cut(place: Pointer, octets: bytes, room: int) -> None:
    octets = octets[: room - 1]
    ffi.memmove(place, octets + b"\0", len(octets) + 1)


def info_get(
    info: Object, key: Pointer, room: int, place: Pointer, flag: Pointer
) -> None:
    """Write a value, cut to ``room`` octets besides the final zero (MPI_Info_get)."""
    value = info.Get(key)

    flag[0] = value is not None
    if value is not None:
        _cut(place, value.encode(), room + 1)


def info_get_string(
    info: Object, key: Pointer, room: Pointer, place: Pointer, flag: Pointer
) -> None:
    """Write a value, cut to ``room`` octets with the final zero, and the room that it needs.

    This is MPI_Info_get_string; a room of 0 asks for the length alone.
    """
    value = info.Get(key)

    flag[0] = value is not None
    if value is not None:
        octets = value.encode()
        if room[0]:
            _cut(place, octets, room[0])

        room[0] = len(octets) + 1


def info_get_valuelen(
    info: Object, key: Pointer, length: Pointer, flag: Pointer
) -> None:
    """Write the length of a value (MPI_Info_get_valuelen)."""
    value = info.Get(key)

    flag[0] = value is not None
    if value is not None:
        length[0] = len(value.encode())
