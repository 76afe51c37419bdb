"""Datatypes as type maps, and copies between memory and packed octets (MPI 4.1, 5.1).

A type map is a tuple of *runs*. A run is an n-dimensional array of one basic type, with strides in
memory and in the packed message. So packing is one numpy copy per run, whatever the number of
elements, and converts values in the same copy. :mod:`.derive` makes type maps from others;
:mod:`impi.rank.api.types` packs and unpacks messages with them.

A *form* (native, external32 with 4- or 8-octet longs) selects the packed layout. Facts that only
data movement needs are computed on first use, and choose the cheapest way to move octets. If a form
leaves memory order and octets alone (``_verbatim``), ``pack`` returns an alias of memory. If it
only reverses numbers (``_turn``), short data is turned without numpy. If octets can land in place
(``_landable``), they are received into user memory and converted there. Otherwise each run is
copied. :meth:`TypeMap.pieces` gives blocks of memory, so that long pieces are never packed.

Invariant: ``pack`` and ``unpack`` check that all elements lie inside the view before any access.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any, Final, TypeAlias

from impi.base.records import record
from impi.protocol.semantics.constants import UNDEFINED
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values import blocks
from impi.protocol.semantics.values.basic import (
    BASICS,
    NATIVE,
    PAIRS,
    Basic,
    DType,
    form_of,
)
from impi.protocol.semantics.values.external32 import (
    decode,
    encode,
    swap_in_place,
    swappable,
)
from impi.protocol.semantics.values.words import turn, turned, worth

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Forms: TypeAlias = tuple[int, int, int]
"""A number for each form: native, external32, external32 with 8-octet longs."""


@record
class Run:
    """An array of one basic type inside one element of a datatype."""

    basic: Basic
    displacement: int
    """Octets from the element's origin."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    packed: Forms
    """The octet of the packed element where the run begins, for each form."""
    packed_strides: tuple[Forms, ...]
    """Strides in the packed element, of each dimension, for each form."""


_WORKED_OUT: Final = frozenset(
    (
        "_alike",
        "_landable",
        "_turn",
        "_verbatim",
        "align",
        "basics",
        "true_lb",
        "true_ub",
    )
)


class TypeMap:
    """A datatype: the content of one element and the distance to the next.

    Sizes and displacements are octets. ``external`` and ``long_size`` (4 or 8) select the packed
    form.
    """

    __slots__ = (
        "_alike", "_blocks", "_landable", "_turn", "_verbatim", "align", "basics", "extent", "lb", "marked",
        "name", "runs", "sizes", "true_lb", "true_ub",
    )  # fmt: skip

    def __init__(
        self,
        runs: tuple[Run, ...],
        *,
        lb: int,
        ub: int,
        sizes: Forms,
        marked: bool = False,
        name: str = "",
    ) -> None:
        self.runs = runs
        self.lb = lb
        self.extent = ub - lb
        self.sizes = sizes
        """Octets of one packed element, by form; the native one is MPI_Type_size."""
        self.marked = marked
        """Whether the bounds were set (MPI_Type_create_resized), not found."""
        self.name = name
        """The name in MPI of a predefined type, without the prefix; else empty."""
        # By the shortest average length that pays: the search for blocks is done once for each.
        self._blocks: dict[int, blocks.Blocks | None] = {}

    def __getattr__(self, name: str) -> Any:
        """The slots that :meth:`_work_out` fills, when the first of them is asked for."""
        if name not in _WORKED_OUT:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )

        self._work_out()

        return getattr(self, name)

    def _work_out(self) -> None:
        """Compute the facts that only data movement needs: most types are steps to other ones."""

        self.align = max((run.basic.align for run in self.runs), default=1)
        self.basics = sum(_length(run) for run in self.runs)
        """Basic elements in one element (MPI_Get_elements)."""
        bounds = [_bounds(run) for run in self.runs]
        self.true_lb = min((low for low, _ in bounds), default=0)
        self.true_ub = max((high for _, high in bounds), default=0)
        self._work_out_forms(
            dense=all(_in_order(run, self.true_lb) for run in self.runs)
        )

    def _work_out_forms(self, *, dense: bool) -> None:
        """Compute what holds of the elements in each form; ``dense``: they have no gaps."""

        # By identity, as basic types are made once: a struct of thousands of runs has few of them.
        basics = {id(run.basic): run.basic for run in self.runs}.values()
        self._landable = tuple(
            dense and all(swappable(basic, f) for basic in basics) for f in range(3)
        )
        # By form: whether each value has the octets that it has in memory.
        self._alike = tuple(
            all(f == NATIVE or basic.sizes[f] == 1 for basic in basics)
            for f in range(3)
        )
        self._verbatim = tuple(dense and alike for alike in self._alike)
        # One width for all numbers, or the fast form is not possible: it reverses
        # the octets as one array.
        turns = {basic.turn for basic in basics}
        width = turns.pop() if len(turns) == 1 else 0
        # Octets of the numbers, where reversing each number is the whole conversion; else 0.
        self._turn = tuple(
            width if self._landable[f] and f != NATIVE else 0 for f in range(3)
        )

    def __repr__(self) -> str:
        return f"TypeMap({self.name or f'{len(self.runs)} runs'}, size={self.size}, extent={self.extent})"

    @property
    def size(self) -> int:
        """Octets of data in one element, in memory (MPI_Type_size)."""
        return self.sizes[NATIVE]

    @property
    def ub(self) -> int:
        return self.lb + self.extent

    @property
    def dtype(self) -> DType | None:
        """numpy's type for an element with gaps; predefined types only. Pairs: value and index."""

        if not self.name:
            return None

        if len(self.runs) == 1:
            return self.runs[0].basic.native

        layout: Any = {
            "names": ["value", "index"],
            "formats": [run.basic.native for run in self.runs],
            "offsets": [run.displacement for run in self.runs],
            "itemsize": self.extent,
        }
        pair: DType = np.dtype(layout)

        return pair

    def packed_size(self, count: int, *, external: bool, long_size: int = 4) -> int:
        return count * self.sizes[form_of(external=external, long_size=long_size)]

    def span(self, offset: int, count: int) -> tuple[int, int]:
        """Return the bounds, first octet and end, of ``count`` elements with their origin at
        ``offset``."""
        if count == 0 or not self.runs:
            return (offset, offset)

        # The extent may be negative (MPI_Type_create_resized): then the last element is the lowest.
        shift = (count - 1) * self.extent

        return (
            offset + self.true_lb + min(0, shift),
            offset + self.true_ub + max(0, shift),
        )

    def pack(
        self,
        view: memoryview,
        offset: int,
        count: int,
        *,
        external: bool,
        long_size: int = 4,
    ) -> memoryview:
        """Return the octets of ``count`` elements; an alias of ``view`` if nothing changes.

        Raises:
            MPIException: ``ERR_BUFFER``, the elements do not lie inside ``view``;
                ``ERR_VALUE_TOO_LARGE``, a value does not fit into its external32 size.
        """

        form = form_of(external=external, long_size=long_size)
        first, last = self.inside(view, offset, count)

        # Three ways, the cheapest first: an alias, reversed words without
        # numpy, and a copy of each run.
        in_a_row = count <= 1 or self.extent == self.size
        if self._verbatim[form] and in_a_row:
            return view[first:last]

        if self._turn[form] and in_a_row and worth(last - first):
            return turned(view[first:last], self._turn[form])

        out = np.empty(count * self.sizes[form], np.uint8)
        for run in self.runs if count else ():
            encode(
                run.basic,
                form,
                self._memory(run, view, offset, count),
                self._wire(run, form, out, 0, count),
            )

        return out.data

    def pieces(
        self,
        view: memoryview,
        offset: int,
        count: int,
        shortest: int,
        *,
        external: bool,
        long_size: int = 4,
    ) -> list[memoryview] | None:
        """Return the octets of ``count`` elements as pieces of ``view``, in packed order.

        None where values need conversion, or contiguous blocks average less than ``shortest``
        octets: then use :meth:`pack` and :meth:`unpack`.

        Raises:
            MPIException: ``ERR_BUFFER``, the elements do not lie inside ``view``.
        """

        form = form_of(external=external, long_size=long_size)
        # A value that is converted cannot go out from where it lies.
        if not self._alike[form]:
            return None

        # Not get(): None is an answer, too, and not looked for twice.
        try:
            found = self._blocks[shortest]
        except KeyError:
            found = self._blocks[shortest] = blocks.blocks_of(self.runs, shortest)

        if found is None:
            return None

        self.inside(view, offset, count)
        # Slices without an end: the blocks of an element are counted from its first octet.
        elements = [
            view[offset + self.true_lb + i * self.extent :] for i in range(count)
        ]

        return [element[block] for element in elements for block in found]

    def landing(
        self,
        view: memoryview,
        offset: int,
        count: int,
        *,
        external: bool,
        long_size: int = 4,
    ) -> memoryview | None:
        """Return user memory that may receive packed octets, to be converted by :meth:`unpack`; or
        None."""

        form = form_of(external=external, long_size=long_size)

        first, last = self.inside(view, offset, count)
        # Numbers lie in memory as close as in the message, so they can be
        # received there and turned.
        if self._landable[form] and (count <= 1 or self.extent == self.size):
            return view[first:last]

        return None

    def unpack(
        self,
        data: bytes | bytearray | memoryview,
        view: memoryview,
        offset: int,
        count: int,
        *,
        external: bool,
        long_size: int = 4,
    ) -> int:
        """Put packed octets into up to ``count`` elements; return the number of whole ones.

        ``data`` may be the beginning of the result of :meth:`landing`: then octets convert in
        place.

        Raises:
            MPIException: ``ERR_TRUNCATE``, more octets than the elements take; ``ERR_BUFFER``, the
                elements do not lie inside ``view``.
        """

        form = form_of(external=external, long_size=long_size)
        size = self.sizes[form]

        nbytes = len(data)
        if nbytes > count * size:
            raise error(
                "ERR_TRUNCATE",
                f"{nbytes} octets came for {count} elements of {size} octets each",
            )

        if nbytes == 0:
            return 0

        # A shorter message than the receive is usual in MPI, so only what came is put into place.
        whole, rest = divmod(nbytes, size)
        first, _ = self.inside(view, offset, whole + (rest > 0))

        inplace = self._landable[form] and _is_at(data, view, first)
        # The octets have come to their places, in the form of memory.
        if inplace and self._verbatim[form]:
            return whole

        # The mirror of pack(): the cheapest way that fits comes first.
        in_a_row = not rest and (whole == 1 or self.extent == self.size)
        if self._verbatim[form] and in_a_row:
            view[first : first + nbytes] = data
            return whole

        if self._turn[form] and in_a_row and worth(nbytes):
            place = view[first : first + nbytes]
            turn(place if inplace else data, place, self._turn[form])
            return whole

        wire = np.frombuffer(data, np.uint8)

        self._unpack_whole(wire, view, offset, whole, form, inplace=inplace)
        if rest:
            self._unpack_rest(
                wire[whole * size :],
                view,
                offset + whole * self.extent,
                form,
                inplace=inplace,
            )

        return whole

    def _unpack_whole(
        self,
        wire: Array,
        view: memoryview,
        offset: int,
        count: int,
        form: int,
        *,
        inplace: bool,
    ) -> None:
        for run in self.runs if count else ():
            values = self._memory(run, view, offset, count)
            if inplace:
                swap_in_place(run.basic, form, values)
            else:
                decode(run.basic, form, self._wire(run, form, wire, 0, count), values)

    def count_of(
        self, nbytes: int, *, external: bool = False, long_size: int = 4
    ) -> int:
        """Return the whole elements in ``nbytes`` packed octets, else UNDEFINED (MPI_Get_count)."""
        size = self.sizes[form_of(external=external, long_size=long_size)]
        # An empty type has any number of elements in no octets; MPI says 0.
        if size == 0:
            return 0 if nbytes == 0 else UNDEFINED

        return UNDEFINED if nbytes % size else nbytes // size

    def elements_of(
        self, nbytes: int, *, external: bool = False, long_size: int = 4
    ) -> int:
        """Return the basic elements in ``nbytes`` packed octets, else UNDEFINED (Get_elements)."""

        form = form_of(external=external, long_size=long_size)
        if self.sizes[form] == 0:
            return 0 if nbytes == 0 else UNDEFINED

        whole, rest = divmod(nbytes, self.sizes[form])

        elements = whole * self.basics
        # Less than an element: its basic elements count as long as they fit.
        for _, basic, _ in self._walk(form, rest):
            if rest < basic.sizes[form]:
                break

            rest -= basic.sizes[form]
            elements += 1

        return UNDEFINED if rest else elements

    def size_of_elements(self, elements: int) -> int:
        """Return the native octets of a number of basic elements: reverses :meth:`elements_of`."""
        if self.basics == 0:
            return 0

        whole, rest = divmod(elements, self.basics)

        return whole * self.size + sum(
            basic.sizes[NATIVE] for _, basic, _ in self._walk(NATIVE, self.size)[:rest]
        )

    def native_size(self, nbytes: int, *, external: bool, long_size: int = 4) -> int:
        """Return the native octets of ``nbytes`` packed ones of this type, as in a status."""

        form = form_of(external=external, long_size=long_size)
        # A status counts octets as in memory, whatever form they had on the wire.
        if form == NATIVE or self.sizes[form] == self.size or self.sizes[form] == 0:
            return nbytes

        whole, rest = divmod(nbytes, self.sizes[form])

        native = whole * self.size
        for _, basic, _ in self._walk(form, rest):
            if rest < basic.sizes[form]:
                break

            rest -= basic.sizes[form]
            native += basic.sizes[NATIVE]

        return native + rest

    def inside(self, view: memoryview, offset: int, count: int) -> tuple[int, int]:
        """Return :meth:`span` of elements after a check that they lie inside ``view``.

        Raises:
            MPIException: ``ERR_BUFFER``, they do not.
        """
        first, last = self.span(offset, count)
        if first < 0 or last > view.nbytes:
            detail = f"{count} elements take octets {first} to {last} of a buffer of {view.nbytes}"
            raise error(
                "ERR_BUFFER", f"{detail}: give a larger buffer or a smaller count"
            )

        return first, last

    def _memory(self, run: Run, view: memoryview, offset: int, count: int) -> Array:
        begin = offset + run.displacement
        # An array over memory, not a copy: the elements are its first
        # dimension, with gaps as a stride.
        shape, strides = (count, *run.shape), (self.extent, *run.strides)
        return np.ndarray(shape, run.basic.carrier, view, begin, strides)

    def _wire(
        self, run: Run, form: int, octets: Array, offset: int, count: int
    ) -> Array:
        shape, strides = (
            (count, *run.shape),
            (self.sizes[form], *(s[form] for s in run.packed_strides)),
        )
        return np.ndarray(
            shape, run.basic.wires[form], octets, offset + run.packed[form], strides
        )

    def _walk(self, form: int, nbytes: int) -> list[tuple[int, Basic, int]]:
        """Return basic elements in packed order, as packed offset, type and offset in memory.

        All that begin in the first ``nbytes`` packed octets of an element are among them.
        """
        items: list[tuple[int, Basic, int]] = []
        for run in self.runs:
            if run.packed[form] >= nbytes:
                continue

            for index in np.ndindex(*run.shape):
                packed = run.packed[form] + sum(
                    i * s[form] for i, s in zip(index, run.packed_strides, strict=True)
                )
                place = run.displacement + sum(
                    i * s for i, s in zip(index, run.strides, strict=True)
                )
                items.append((packed, run.basic, place))

        return sorted(items, key=lambda item: item[0])

    def _unpack_rest(
        self, wire: Array, view: memoryview, origin: int, form: int, *, inplace: bool
    ) -> None:
        # A message may end inside an element (MPI 4.1, 3.2.5): its first values count. One by one,
        # as no run has all of its values here.
        for packed, basic, place in self._walk(form, len(wire)):
            if packed + basic.sizes[form] > len(wire):
                break

            value: Array = np.ndarray((1,), basic.carrier, view, origin + place)
            if inplace:
                swap_in_place(basic, form, value)
            else:
                source: Array = np.ndarray((1,), basic.wires[form], wire[packed:])
                decode(basic, form, source, value)


def _length(run: Run) -> int:
    length = 1
    for n in run.shape:
        length *= n

    return length


def _bounds(run: Run) -> tuple[int, int]:
    low = high = run.displacement
    for n, stride in zip(run.shape, run.strides, strict=True):
        # A negative stride reaches below the first value, a positive one above it.
        step = (n - 1) * stride
        if step < 0:
            low += step
        else:
            high += step

    return low, high + run.basic.sizes[NATIVE]


def _in_order(run: Run, origin: int) -> bool:
    return run.displacement - origin == run.packed[NATIVE] and all(
        stride == packed[NATIVE]
        for stride, packed in zip(run.strides, run.packed_strides, strict=True)
    )


def _is_at(data: bytes | bytearray | memoryview, view: memoryview, first: int) -> bool:
    """Whether octets lie at octet ``first`` of the view."""
    # By address: each slice is a view of its own, and no attribute tells where it begins.
    if not isinstance(data, memoryview) or data.obj is not view.obj or data.readonly:
        return False

    return (
        addressof(c_char.from_buffer(data))
        == addressof(c_char.from_buffer(view)) + first
    )


def _basic(basic: Basic) -> TypeMap:
    size = basic.sizes[NATIVE]
    run = Run(basic, 0, (), (), (0, 0, 0), ())
    return TypeMap((run,), lb=0, ub=size, sizes=basic.sizes, name=basic.name)


def _pair(name: str, value: Basic, index: Basic) -> TypeMap:
    # In memory as a C structure of both, padding included (MPI 4.1, 6.9.4); packed without gaps.
    begin = -(-value.sizes[NATIVE] // index.align) * index.align
    align = max(value.align, index.align)
    ub = -(-(begin + index.sizes[NATIVE]) // align) * align
    sizes = (
        value.sizes[0] + index.sizes[0],
        value.sizes[1] + index.sizes[1],
        value.sizes[2] + index.sizes[2],
    )
    runs = (
        Run(value, 0, (), (), (0, 0, 0), ()),
        Run(index, begin, (), (), value.sizes, ()),
    )

    return TypeMap(runs, lb=0, ub=ub, sizes=sizes, name=name)


NAMED: Final[dict[str, TypeMap]] = {
    **{name: _basic(basic) for name, basic in BASICS.items()},
    **{
        name: _pair(name, BASICS[value], BASICS[index])
        for name, (value, index) in PAIRS.items()
    },
}
"""The predefined datatypes by name."""

FORTRAN_PAIRS: Final[dict[str, TypeMap]] = {
    f"2{name}": _pair(f"2{name}", BASICS[name], BASICS[name])
    for name in ("INTEGER", "REAL", "DOUBLE_PRECISION")
}
"""Fortran's types of MAXLOC and MINLOC, which mpi4py has no names for."""
