"""Windows over several clients: who accesses whom, and in which epoch.

IMPI 0.0 has no one-sided communication, so no clause speaks of it. What crosses is impi's own; each
access describes itself (``impi.lab.dissect.decode.window_access``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from impi.lab.cases.case import (
    FIRST_CREATED,
    MAKING,
    Case,
    Crossing,
    Told,
    around,
    barrier,
)
from impi.lab.dissect import ACCESS_TAG, ANSWER_TAG, DATA_TAG, WindowAccess
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import external_ints, numbers, octets

# Tags of the collectives that make, fence and free a window, on its communicator.
_OF_A_WINDOW: Final = (*MAKING, Tag.GATHERV, Tag.FREE)
_LONG: Final = 40_000
_MANY: Final = 10_000  # ints of an Accumulate that does not fit beside its header
_TURNS: Final = 3
_SECOND: Final = FIRST_CREATED + 2  # the context of the program's second window


def _accesses(
    pairs: Iterable[tuple[int, int]],
    access: WindowAccess,
    *,
    cid: int = FIRST_CREATED,
    count: int = 1,
    open_data: int = 0,
) -> Iterator[Crossing]:
    """Yield an access of the window for each pair; ``open_data``: octets that no plan can know."""
    head = access.head
    for src, dest in pairs:
        yield Crossing(
            src=src,
            dest=dest,
            cid=cid,
            tag=ACCESS_TAG,
            nbytes=len(head) + len(access.data) + open_data,
            count=count,
            payload=None if open_data else head + access.data,
            contains=head,
            header=Told(src),
            units=(),
            access=True,
        )


def _answers(
    pairs: Iterable[tuple[int, int]], data: int | bytes, *, count: int = 1
) -> Iterator[Crossing]:
    """Return a target's answer for each pair: octets, or the length of unknown octets."""
    size, payload = (data, None) if isinstance(data, int) else (len(data), data)
    for src, dest in pairs:
        yield Crossing(
            src=dest,
            dest=src,
            cid=FIRST_CREATED,
            tag=ANSWER_TAG,
            nbytes=size,
            count=count,
            payload=payload,
            header=Told(dest),
            units=(),
        )


def _fenced(roster: Roster, nonce: str) -> Iterator[Crossing]:
    ends = dict.fromkeys((0, roster.size - 1))
    for pair in around(roster):
        src, _ = pair
        ints = external_ints(numbers(nonce, f"put/{src}", 16))
        put = WindowAccess(
            kind="Put", marks=("fence",), datatype="INT", count=16, data=ints
        )
        yield from _accesses([pair], put)
        yield from _accesses(
            [pair], WindowAccess(kind="Get", marks=("fence",), datatype="INT", count=16)
        )
        yield from _answers([pair], ints)
        apart = WindowAccess(
            kind="Put",
            marks=("fence", "data apart"),
            datatype="UNSIGNED_CHAR",
            count=_LONG,
        )
        yield from _accesses([pair], apart, cid=_SECOND)
        data = octets(nonce, f"long/{src}", _LONG)
        yield Crossing(
            src=src,
            dest=pair[1],
            cid=_SECOND,
            tag=DATA_TAG,
            nbytes=_LONG,
            payload=data,
            header=Told(src),
        )

    for src in range(roster.size):
        # Only the last access of the epoch closes it: the target counts these marks.
        for turn, marks in enumerate(((), ("fence",))):
            ints = external_ints(numbers(nonce, f"add/{turn}/{src}", 8))
            add = WindowAccess(
                kind="Accumulate",
                marks=marks,
                op="SUM",
                datatype="INT",
                at=64,
                count=8,
                data=ints,
            )
            yield from _accesses(
                [(src, dest) for dest in ends if roster.remote(src, dest)], add
            )


def _locked(roster: Roster, nonce: str) -> Iterator[Crossing]:
    one = WindowAccess(
        kind="Get_accumulate",
        op="SUM",
        datatype="INT",
        at=4,
        count=1,
        data=external_ints([1]),
    )
    for src in range(1, roster.size):
        if not roster.remote(src, 0):
            continue

        pair = [(src, 0)]
        get = WindowAccess(
            kind="Get", marks=("lock exclusive",), datatype="INT", count=1
        )
        yield from _accesses(pair, get, count=_TURNS)
        put = WindowAccess(
            kind="Put", marks=("unlock", "acknowledge"), datatype="INT", count=1
        )
        yield from _accesses(pair, put, count=_TURNS, open_data=4)
        yield from _accesses(pair, replace(one, marks=("lock shared",)))
        yield from _accesses(pair, one, count=_TURNS - 1)
        own = external_ints(numbers(nonce, f"own/{src}", 1))
        yield from _accesses(
            pair,
            WindowAccess(
                kind="Put", datatype="INT", at=4 * (2 + src), count=1, data=own
            ),
        )
        # Where all ranks are unlocked at once, no access is held back for the
        # unlocking: that comes alone.
        yield from _accesses(
            pair, WindowAccess(kind="nothing", marks=("unlock", "acknowledge"))
        )
        yield from _answers(pair, 4, count=2 * _TURNS)
        yield from _answers(pair, b"", count=_TURNS + 1)

    yield from barrier(roster)


def _started(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in around(roster):
        put = external_ints(numbers(nonce, f"put/{src}", 8))
        one = WindowAccess(kind="Put", datatype="INT", count=8, data=put)
        yield from _accesses([(src, dest)], one)
        there = numbers(nonce, f"base/{dest}", 9 + _MANY)[8]
        swap = WindowAccess(
            kind="Compare_and_swap",
            datatype="INT",
            at=32,
            count=1,
            data=external_ints([there, src + 1]),
        )
        yield from _accesses([(src, dest)], swap)
        yield from _answers([(src, dest)], external_ints([there]))
        apart = WindowAccess(
            kind="Accumulate",
            marks=("complete", "data apart"),
            op="SUM",
            datatype="INT",
            at=36,
            count=_MANY,
        )
        yield from _accesses([(src, dest)], apart)
        data = external_ints(numbers(nonce, f"add/{src}", _MANY))
        yield Crossing(
            src=src,
            dest=dest,
            cid=FIRST_CREATED,
            tag=DATA_TAG,
            nbytes=len(data),
            payload=data,
            header=Told(src),
            units=(),
        )
        yield from _accesses([(dest, src)], WindowAccess(kind="Post"))


WINDOW_CASES: Final = (
    Case(
        "rma.fence",
        (),
        ("window",),
        4,
        _fenced,
        params={"long": _LONG},
        communicators=2,
        others=_OF_A_WINDOW,
        groups=("once", "trio"),
    ),
    Case(
        "rma.start",
        (),
        ("window",),
        4,
        _started,
        params={"long": _MANY},
        communicators=1,
        others=_OF_A_WINDOW,
        groups=("once",),
    ),
    Case(
        "rma.lock",
        (),
        ("window",),
        lambda _roster, rank: 4 if rank == 0 else 1,
        _locked,
        params={"turns": _TURNS},
        communicators=1,
        others=_OF_A_WINDOW,
        groups=("once", "trio"),
    ),
)
