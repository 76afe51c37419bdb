"""Collectives inside one client whose blocks have lengths of their own (see :mod:`impi.api.inside`).

Where not everybody knows all lengths, the long way makes messages of these, so that there is no short one without a
roll call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from impi.api.insideways import KINDS, SIGNS, Ways, octets
from impi.api.prompt import Layout, contiguous, given, placed, taken, writable
from impi.engine.rollcall import SHOWN, SHOWN_ROOTED, TOGETHER

__all__ = ["allgatherv", "alltoallv", "gatherv", "scatterv"]

_ALLGATHERV: Final = 7
_GATHERV: Final = 11
_SCATTERV: Final = 12
_ALLTOALLV: Final = 13  # and 14


def allgatherv(ways: Ways) -> Callable[[Any, Any], bool]:
    """See MPI_Allgatherv."""
    together, start, least, away, faults, earlier = ways.of("Allgatherv")
    byte, rank, most, places = ways.byte, ways.rank, ways.most, ways.places
    apart, others, known = ways.apart, ways.others, ways.layouts

    def call(sendspec: Any, recvspec: Any) -> bool:
        try:
            mine, (into, layout) = given(sendspec, byte), placed(recvspec, known, writable)
            if mine is None or mine[1] != layout.counts[rank] or not apart(mine[0], into):
                return away()
            if earlier or not faults.calm:
                return away()
            nbytes = mine[1]
            sign = (layout.code * KINDS & SIGNS) + _ALLGATHERV
            if least <= layout.longest <= most and (shown := places(nbytes)):
                view, piece, at = octets(into), octets(mine[0])[:nbytes], layout.displs[rank]
                shown[rank][:nbytes] = piece
                view[at : at + nbytes] = piece
                sign += SHOWN
        except Exception:
            return away()
        how = together(sign)
        if how == TOGETHER:
            start(mine, [into, layout.counts, layout.displs, byte])
        elif how:
            _take_all(view, shown, others, layout)
        return how > 0

    return call


def gatherv(ways: Ways) -> Callable[[Any, Any, Any], bool]:
    """See MPI_Gatherv."""
    _, start, least, away, faults, earlier = ways.of("Gatherv")
    if ways.calls is None:
        return lambda sendspec, recvspec, root: False
    rooted, of_all, known = ways.calls.rooted, ways.calls.of_all, ways.layouts
    byte, size, rank, most, places = ways.byte, ways.size, ways.rank, ways.most, ways.places
    apart, others = ways.apart, ways.others

    def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
        try:
            mine, into = given(sendspec, byte), None
            if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            said = nbytes = mine[1]
            sign = root * KINDS + _GATHERV
            if root == rank:
                buf, layout = placed(recvspec, known, writable)
                if nbytes != layout.counts[rank] or not apart(mine[0], buf):
                    return away()
                into, said = [buf, layout.counts, layout.displs, byte], of_all(layout.counts, root)
                if least <= layout.shortest and layout.longest <= most and (shown := places(0)):
                    view, at = octets(buf), layout.displs[rank]
                    view[at : at + nbytes] = octets(mine[0])[:nbytes]
                    sign += SHOWN_ROOTED
            elif (not nbytes or least <= nbytes <= most) and (shown := places(nbytes)):
                shown[rank][:nbytes] = octets(mine[0])[:nbytes]
                sign += SHOWN_ROOTED
        except Exception:
            return away()
        how = rooted(sign, root, said)
        if how == TOGETHER:
            start(mine, into, root)
        elif how and into is not None:
            _take_all(view, shown, others, layout)
        return how > 0

    return call


def scatterv(ways: Ways) -> Callable[[Any, Any, Any], bool]:
    """See MPI_Scatterv."""
    _, start, least, away, faults, earlier = ways.of("Scatterv")
    if ways.calls is None:
        return lambda sendspec, recvspec, root: False
    rooted, of_all, known = ways.calls.rooted, ways.calls.of_all, ways.layouts
    byte, size, rank, places = ways.byte, ways.size, ways.rank, ways.places
    apart, others = ways.apart, ways.others
    # Nobody but the root knows the others' lengths, so each has its share of the slot.
    share = ways.most // size

    def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
        try:
            into, pieces = taken(recvspec, byte), None
            if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                return away()
            said = nbytes = into[1]
            sign = root * KINDS + _SCATTERV
            if root == rank:
                buf, layout = placed(sendspec, known, contiguous)
                if nbytes != layout.counts[rank] or not apart(into[0], buf):
                    return away()
                pieces, said = [buf, layout.counts, layout.displs, byte], of_all(layout.counts, root)
                if least <= layout.shortest and layout.longest <= share and (shown := places(size * share)):
                    view = octets(buf)
                    for r in others:
                        at, there, length = layout.displs[r], r * share, layout.counts[r]
                        shown[rank][there : there + length] = view[at : at + length]
                    at = layout.displs[rank]
                    octets(into[0])[:nbytes] = view[at : at + nbytes]
                    sign += SHOWN_ROOTED
            elif (not nbytes or least <= nbytes <= share) and (shown := places(0)):
                view = octets(into[0])
                sign += SHOWN_ROOTED
        except Exception:
            return away()
        how = rooted(sign, root, said)
        if how == TOGETHER:
            start(pieces, into, root)
        elif how and pieces is None:
            view[:nbytes] = shown[root][rank * share : rank * share + nbytes]
        return how > 0

    return call


def alltoallv(ways: Ways) -> Callable[[Any, Any], bool]:
    """See MPI_Alltoallv."""
    _, start, least, away, faults, earlier = ways.of("Alltoallv")
    if ways.calls is None:
        return lambda sendspec, recvspec: False
    matched, known = ways.calls.matched, ways.layouts
    byte, rank, places, apart = ways.byte, ways.rank, ways.places, ways.apart
    # More than two see each other's lengths too late to show anything.
    most, other = (ways.most, ways.others[0]) if ways.size == 2 else (0, -1)

    def call(sendspec: Any, recvspec: Any) -> bool:
        try:
            (pieces, sent), (into, room) = placed(sendspec, known, contiguous), placed(recvspec, known, writable)
            kept = sent.counts[rank]
            if kept != room.counts[rank] or not apart(pieces, into) or earlier or not faults.calm:
                return away()
            sign = _ALLTOALLV
            there, back = sent.counts[other], room.counts[other]
            if least <= there + back and there <= most and back <= most and (shown := places(there)):
                out, view, at, to = octets(pieces), octets(into), sent.displs[other], room.displs[rank]
                shown[rank][:there] = out[at : at + there]
                at = sent.displs[rank]
                view[to : to + kept] = out[at : at + kept]
                sign += SHOWN
        except Exception:
            return away()
        how = matched(sign, sent.counts, room.counts)
        if how == TOGETHER:
            start([pieces, sent.counts, sent.displs, byte], [into, room.counts, room.displs, byte])
        elif how:
            at = room.displs[other]
            view[at : at + back] = shown[other][:back]
        return how > 0

    return call


def _take_all(view: memoryview, shown: list[memoryview], others: list[int], layout: Layout) -> None:
    """The block of each of the others, where the layout has it."""
    for r in others:
        at, nbytes = layout.displs[r], layout.counts[r]
        view[at : at + nbytes] = shown[r][:nbytes]
