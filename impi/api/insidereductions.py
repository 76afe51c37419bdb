"""Reductions inside one client (see :mod:`impi.api.inside`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from impi.api.insideways import KINDS, SIGNS, Ways, octets
from impi.api.prompt import SIZES, datatype_of, given, taken
from impi.api.reductions import library_names
from impi.engine.rollcall import SHOWN, TOGETHER
from impi.job import REPRODUCIBLE
from impi.semantics.lazynumpy import loaded, np
from impi.semantics.op import UFUNCS

__all__ = ["allreduce", "reduce", "reduce_scatter"]

_REDUCE: Final = 8
_ALLREDUCE: Final = 9
_REDUCE_SCATTER: Final = 10
_SHORTEST: Final = 4096
"""Octets from which our own sums are faster than the library's, as numpy wants to be told much of them."""

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
_Combine = Callable[[list[Array], Array], None]


class _Reduction(NamedTuple):
    """An operation on a datatype."""

    datatype: Any
    """The library's."""
    function: Any
    """The library's operation."""
    width: int
    """Octets of an element."""
    code: int
    """For a sign."""
    most: int
    """Octets up to which we do it ourselves."""
    combine: _Combine
    """Puts what arrays have in common into another one."""
    element: str
    """numpy's name of the datatype."""


def reduce(ways: Ways) -> Callable[[Any, Any, Any, Any], bool]:
    """See MPI_Reduce."""
    together, start, _, away, faults, earlier = ways.of("Reduce")
    (known, learn), size, rank, places, apart = _reductions(ways), ways.size, ways.rank, ways.places, ways.apart

    def call(sendspec: Any, recvspec: Any, op: Any, root: Any) -> bool:
        try:
            state = datatype_of(sendspec)
            datatype, function, width, code, most, combine, element = known.get((op._state, state)) or learn(op, state)
            mine, into = given(sendspec, datatype), None
            if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            nbytes = mine[1]
            if root == rank:
                into = taken(recvspec, datatype)
                if (
                    into is None
                    or nbytes != into[1]
                    or not apart(mine[0], into[0])
                    or datatype_of(recvspec) is not state
                ):
                    return away()
                into[1] //= width
            mine[1] = elements = nbytes // width
            sign = ((elements * size + root) * KINDS + _REDUCE) ^ code
            if _SHORTEST <= nbytes <= most and (shown := places(nbytes if into is None else 0)):
                piece = octets(mine[0])[:nbytes]
                if into is None:
                    shown[rank][:nbytes] = piece
                else:
                    result = np.frombuffer(octets(into[0]), element, elements)
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, into, function, root)
        elif how and into is not None:
            combine(_all(shown, rank, piece, element, elements), result)
        return how > 0

    return call


def allreduce(ways: Ways) -> Callable[[Any, Any, Any], bool]:
    """See MPI_Allreduce."""
    together, start, _, away, faults, earlier = ways.of("Allreduce")
    (known, learn), rank, places, apart = _reductions(ways), ways.rank, ways.places, ways.apart

    def call(sendspec: Any, recvspec: Any, op: Any) -> bool:
        try:
            state = datatype_of(sendspec)
            datatype, function, width, code, most, combine, element = known.get((op._state, state)) or learn(op, state)
            mine, into = given(sendspec, datatype), taken(recvspec, datatype)
            if mine is None or into is None or mine[1] != into[1] or not apart(mine[0], into[0]):
                return away()
            if datatype_of(recvspec) is not state or earlier or not faults.calm:
                return away()
            nbytes = mine[1]
            mine[1] = into[1] = elements = nbytes // width
            sign = (elements * KINDS + _ALLREDUCE) ^ code
            if _SHORTEST <= nbytes <= most and (shown := places(nbytes)):
                piece, result = octets(mine[0])[:nbytes], np.frombuffer(octets(into[0]), element, elements)
                shown[rank][:nbytes] = piece
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, into, function)
        elif how:
            combine(_all(shown, rank, piece, element, elements), result)
        return how > 0

    return call


def reduce_scatter(ways: Ways) -> Callable[[Any, Any, Any, Any], bool]:
    """See MPI_Reduce_scatter."""
    together, start, _, away, faults, earlier = ways.of("Reduce_scatter")
    (known, learn), lengths, rank, places = _reductions(ways), ways.layouts, ways.rank, ways.places
    apart = ways.apart

    def call(sendspec: Any, recvspec: Any, counts: Any, op: Any) -> bool:
        try:
            state = datatype_of(sendspec)
            datatype, function, width, code, most, combine, element = known.get((op._state, state)) or learn(op, state)
            layout = _of_counts(lengths, counts)
            mine, into = given(sendspec, datatype), taken(recvspec, datatype)
            if mine is None or into is None or not apart(mine[0], into[0]) or datatype_of(recvspec) is not state:
                return away()
            nbytes = mine[1]
            mine[1] = nbytes // width
            into[1] = elements = into[1] // width
            if mine[1] != layout.whole or elements != layout.counts[rank] or earlier or not faults.calm:
                return away()
            sign = ((layout.code * KINDS & SIGNS) + _REDUCE_SCATTER) ^ code
            if _SHORTEST <= nbytes <= most and (shown := places(nbytes)):
                piece, result = octets(mine[0])[:nbytes], np.frombuffer(octets(into[0]), element, elements)
                shown[rank][:nbytes] = piece
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, into, layout.counts, function)
        elif how and elements:
            at = sum(layout.counts[:rank]) * width
            combine(_all(shown, rank, piece, element, elements, at), result)
        return how > 0

    return call


def _of_counts(known: Any, counts: Sequence[int]) -> Any:
    """The layout of so many elements for each rank; raises where these are no numbers."""
    key = (1, *counts, *counts)
    layout = known[key]
    if type(sum(key)) is not int:
        raise TypeError(counts)
    return layout


def _reductions(ways: Ways) -> tuple[dict[tuple[Any, Any], _Reduction], Callable[[Any, Any], _Reduction]]:
    """Reductions by the states of our operation and datatype: those that are known, and a function that finds them. It
    raises KeyError where the library has none.
    """
    known: dict[tuple[Any, Any], _Reduction] = {}
    reduces = REPRODUCIBLE not in ways.job.collectives

    def learn(op: Any, state: Any) -> _Reduction:
        names = library_names(op, state) if reduces else None
        if names is None:
            raise KeyError(op)
        name, element = names
        datatype, function = ways.prompt.reduction(element, name)
        ours = name in UFUNCS and loaded()
        found = _Reduction(
            datatype,
            function,
            SIZES[state],
            crc32(" ".join(names).encode()) * KINDS,
            ways.most if ours else 0,
            _combine(name) if ours else _never,
            element,
        )
        known[op._state, state] = found
        return found

    return known, learn


def _combine(name: str) -> _Combine:
    """In the order of ranks, everywhere: so that all get the same result."""
    function, quiet = getattr(np, UFUNCS[name]), np.errstate

    def combine(values: list[Array], into: Array) -> None:
        with quiet(all="ignore"):
            function(values[0], values[1], out=into)
            for value in values[2:]:
                function(into, value, out=into)

    return combine


def _all(
    shown: list[memoryview], rank: int, piece: memoryview, element: str, elements: int, at: int = 0
) -> list[Array]:
    """So many elements of everybody, from octet ``at`` on; ``piece`` is what this proc has itself."""
    return [np.frombuffer(piece if r == rank else slot, element, elements, at) for r, slot in enumerate(shown)]


def _never(values: list[Array], into: Array) -> None:
    """Of what only the library can reduce."""
