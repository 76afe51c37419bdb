"""Collectives inside one client whose blocks have one length at all procs (see :mod:`impi.api.inside`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from impi.api.insideways import KINDS, Ways, octets
from impi.api.prompt import contiguous, divided, given, taken, writable
from impi.engine.rollcall import SHOWN, TOGETHER
from impi.vendors.base import INT_MAX

__all__ = ["allgather", "alltoall", "barrier", "bcast", "gather", "scatter"]

_BARRIER: Final = 1
_BCAST: Final = 2
_GATHER: Final = 3
_SCATTER: Final = 4
_ALLGATHER: Final = 5
_ALLTOALL: Final = 6


def barrier(ways: Ways) -> Callable[[], bool]:
    """See MPI_Barrier."""
    together, start, _, away, faults, earlier = ways.of("Barrier")
    suffices = "Barrier" in ways.agreed

    def call() -> bool:
        if earlier or not faults.calm:
            return away()
        if not together(_BARRIER):
            return False
        if not suffices:
            start()
        return True

    return call


def bcast(ways: Ways) -> Callable[[Any, Any], bool]:
    """See MPI_Bcast."""
    together, start, least, away, faults, earlier = ways.of("Bcast")
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places

    def call(spec: Any, root: Any) -> bool:
        try:
            place = given(spec, byte) if root == rank else taken(spec, byte)
            if place is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            nbytes = place[1]
            sign = (nbytes * size + root) * KINDS + _BCAST
            if least <= nbytes <= most and (shown := places(nbytes if root == rank else 0)):
                view = octets(place[0])
                if root == rank:
                    shown[rank][:nbytes] = view[:nbytes]
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(place, root)
        elif how and root != rank:
            view[:nbytes] = shown[root][:nbytes]
        return how > 0

    return call


def gather(ways: Ways) -> Callable[[Any, Any, Any], bool]:
    """See MPI_Gather."""
    together, start, least, away, faults, earlier = ways.of("Gather")
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places
    apart, others = ways.apart, ways.others

    def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
        try:
            mine, into = given(sendspec, byte), None
            if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            nbytes = mine[1]
            if root == rank:
                into = divided(recvspec, byte, size, writable)
                if into is None or nbytes != into[1] or not apart(mine[0], into[0]):
                    return away()
            elif nbytes * size > INT_MAX:
                return away()
            sign = (nbytes * size + root) * KINDS + _GATHER
            if least <= nbytes <= most and (shown := places(nbytes if into is None else 0)):
                if into is None:
                    shown[rank][:nbytes] = octets(mine[0])[:nbytes]
                else:
                    view = octets(into[0])
                    view[rank * nbytes : (rank + 1) * nbytes] = octets(mine[0])[:nbytes]
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, into, root)
        elif how and into is not None:
            _take_all(view, shown, others, nbytes)
        return how > 0

    return call


def scatter(ways: Ways) -> Callable[[Any, Any, Any], bool]:
    """See MPI_Scatter."""
    together, start, least, away, faults, earlier = ways.of("Scatter")
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places
    apart = ways.apart

    def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
        try:
            into, pieces = taken(recvspec, byte), None
            if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            nbytes = into[1]
            whole = nbytes * size
            if root == rank:
                pieces = divided(sendspec, byte, size, contiguous)
                if pieces is None or nbytes != pieces[1] or not apart(pieces[0], into[0]):
                    return away()
            elif whole > INT_MAX:
                return away()
            sign = (whole + root) * KINDS + _SCATTER
            if least <= nbytes and whole <= most and (shown := places(0 if pieces is None else whole)):
                view, at = octets(into[0]), nbytes * rank
                if pieces is not None:
                    out = octets(pieces[0])
                    _show_others(out, shown[rank], at, nbytes, whole)
                    view[:nbytes] = out[at : at + nbytes]
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(pieces, into, root)
        elif how and pieces is None:
            view[:nbytes] = shown[root][at : at + nbytes]
        return how > 0

    return call


def allgather(ways: Ways) -> Callable[[Any, Any], bool]:
    """See MPI_Allgather."""
    together, start, least, away, faults, earlier = ways.of("Allgather")
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places
    apart, others = ways.apart, ways.others

    def call(sendspec: Any, recvspec: Any) -> bool:
        try:
            mine, into = given(sendspec, byte), divided(recvspec, byte, size, writable)
            if mine is None or into is None or mine[1] != into[1] or not apart(mine[0], into[0]):
                return away()
            if earlier or not faults.calm:
                return away()
            nbytes = mine[1]
            sign = nbytes * KINDS + _ALLGATHER
            if least <= nbytes <= most and (shown := places(nbytes)):
                view, piece = octets(into[0]), octets(mine[0])[:nbytes]
                shown[rank][:nbytes] = piece
                view[rank * nbytes : (rank + 1) * nbytes] = piece
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, into)
        elif how:
            _take_all(view, shown, others, nbytes)
        return how > 0

    return call


def alltoall(ways: Ways) -> Callable[[Any, Any], bool]:
    """See MPI_Alltoall."""
    together, start, least, away, faults, earlier = ways.of("Alltoall")
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places
    apart, others = ways.apart, ways.others

    def call(sendspec: Any, recvspec: Any) -> bool:
        try:
            pieces, into = divided(sendspec, byte, size, contiguous), divided(recvspec, byte, size, writable)
            if pieces is None or into is None or pieces[1] != into[1] or not apart(pieces[0], into[0]):
                return away()
            if earlier or not faults.calm:
                return away()
            nbytes = pieces[1]
            whole, at = nbytes * size, nbytes * rank
            sign = nbytes * KINDS + _ALLTOALL
            if least <= nbytes and whole <= most and (shown := places(whole)):
                view, out = octets(into[0]), octets(pieces[0])
                _show_others(out, shown[rank], at, nbytes, whole)
                view[at : at + nbytes] = out[at : at + nbytes]
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(pieces, into)
        elif how:
            for r in others:
                view[r * nbytes : (r + 1) * nbytes] = shown[r][at : at + nbytes]
        return how > 0

    return call


def _take_all(view: memoryview, shown: list[memoryview], others: list[int], nbytes: int) -> None:
    """A block of each of the others, by rank."""
    for r in others:
        view[r * nbytes : (r + 1) * nbytes] = shown[r][:nbytes]


def _show_others(out: memoryview, slot: memoryview, at: int, nbytes: int, whole: int) -> None:
    """All blocks but the one at ``at``, where they are."""
    if at:
        slot[:at] = out[:at]
    if at + nbytes < whole:
        slot[at + nbytes : whole] = out[at + nbytes : whole]
