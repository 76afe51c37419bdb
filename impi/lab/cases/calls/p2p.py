"""Point-to-point: kinds of data, of requests and of sends (IMPI 1.2.2, chapter 3)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from impi.lab.cases.case import (
    DATALEN,
    WORLD,
    Case,
    Crossing,
    Launch,
    Told,
    across,
    around,
    barrier,
    by_rank,
    messages,
    numbered_by,
    remote_pairs,
)
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import (
    external_doubles,
    external_ints,
    numbers,
    octets,
    parts,
)

_SIZES: Final = (0, 1, DATALEN - 1, DATALEN, DATALEN + 1, 1 << 20)


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    pairs = around(roster)
    yield from messages(pairs, 7, by_rank(nonce, "ring/*", 256))
    yield from messages(
        pairs,
        8,
        lambda r: external_doubles(numbers(nonce, f"ring/double/{r}", 32)),
        unit=8,
    )
    yield from messages(
        pairs, 9, lambda r: external_ints(numbers(nonce, f"ring/int/{r}", 9)), unit=4
    )


def _sizes(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i, size in enumerate(_SIZES):
        yield from messages(
            across(roster), 20 + i, by_rank(nonce, f"sizes/*/{size}", size)
        )


def _ssend(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for tag in (50, 51):
        yield from messages(
            across(roster), tag, by_rank(nonce, "ssend/*", 64), sync=True
        )

    yield from barrier(roster, count=4)


def _any(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for rank in range(1, roster.size):
        if roster.remote(rank, 0):
            for tag in (30, 31):
                data = octets(nonce, f"any/{rank}/{tag}", 10 + rank)
                yield Crossing(
                    src=rank, dest=0, cid=WORLD, tag=tag, nbytes=len(data), payload=data
                )

            for tag in (40, 41):
                data = octets(nonce, f"any/reply/{rank}/{tag}", 16)
                yield Crossing(
                    src=0, dest=rank, cid=WORLD, tag=tag, nbytes=16, payload=data
                )


_LEAST: Final = 20_000
# Octets and tags just below and above the least offers.
_LENGTHS: Final = (
    (_LEAST - 1, 65_537),
    (_LEAST, 69_999),
    (_LEAST + 1, 70_000),
    (50_001, 7),
)
_MANY: Final = 60


def _offers(client: int) -> tuple[str, ...]:
    """Other limits for each client: no client offers the least of all of them."""
    own = (
        ("65536", "8", "12", "70000"),
        (str(_LEAST), "5", "30", "90000"),
        ("40000", "9", "40", "80000"),
    )
    names = ("--datalen", "--ackmark", "--hiwater", "--tag-ub")

    return tuple(
        word for pair in zip(names, own[min(client, 2)], strict=True) for word in pair
    )


def _limited(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for n, tag in _LENGTHS:
        yield from messages(
            across(roster), tag, by_rank(nonce, f"limits/{n}/*", n), datalen=_LEAST
        )

    for i in range(_MANY):
        yield from messages(across(roster), 36, partial(numbered_by, i), unit=4)


_LETTERS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("CHAR", "SIGNED_CHAR", "INT8_T", "INTEGER1"), ("i1", "b")),
    **dict.fromkeys(("BYTE", "UNSIGNED_CHAR", "UINT8_T", "CHARACTER"), ("u1", "B")),
    **dict.fromkeys(("SHORT", "INT16_T", "INTEGER2"), ("i2", "h")),
    **dict.fromkeys(("UNSIGNED_SHORT", "UINT16_T"), ("u2", "H")),
    **dict.fromkeys(("INT", "INT32_T", "INTEGER", "INTEGER4"), ("i4", "i")),
    **dict.fromkeys(("UNSIGNED", "UINT32_T"), ("u4", "I")),
    **dict.fromkeys(
        ("LONG_LONG", "INT64_T", "INTEGER8", "AINT", "OFFSET", "COUNT"), ("i8", "q")
    ),
    **dict.fromkeys(("UNSIGNED_LONG_LONG", "UINT64_T"), ("u8", "Q")),
    **dict.fromkeys(("FLOAT", "REAL", "REAL4"), ("f4", "f")),
    **dict.fromkeys(("DOUBLE", "DOUBLE_PRECISION", "REAL8"), ("f8", "d")),
    **dict.fromkeys(
        ("C_COMPLEX", "CXX_FLOAT_COMPLEX", "COMPLEX", "COMPLEX8"), ("c8", "ff")
    ),
    **dict.fromkeys(
        ("C_DOUBLE_COMPLEX", "CXX_DOUBLE_COMPLEX", "DOUBLE_COMPLEX", "COMPLEX16"),
        ("c16", "dd"),
    ),
    # By agreement of our clients; startup.strict has IMPI 0.0's own form of LONG, 4 octets.
    "LONG": ("i8", "q"),
    "UNSIGNED_LONG": ("u8", "Q"),
    "LONG_INT": ("i8,i4", "qi"),
    "FLOAT_INT": ("f4,i4", "fi"),
    "DOUBLE_INT": ("f8,i4", "di"),
    "INT_INT": ("i4,i4", "ii"),
    "SHORT_INT": ("i2,i4", "hi"),
}
# Types that external32 stores in fewer octets: numpy's code, its letters, those in memory.
_NARROW: Final = {"WCHAR": ("u4", "H", "I")}
# Types whose octets in memory are the machine's own affair.
_QUADS: Final = {
    "LONG_DOUBLE": ("g", "g"), "C_LONG_DOUBLE_COMPLEX": ("G", "gg"), "LONG_DOUBLE_INT": ("g,i4", "gi"),
}  # fmt: skip
_TRUTHS: Final = {
    "C_BOOL": ("?", "B"), "CXX_BOOL": ("?", "B"), "LOGICAL": ("i4", "i"), "LOGICAL1": ("i1", "b"),
    "LOGICAL2": ("i2", "h"), "LOGICAL4": ("i4", "i"), "LOGICAL8": ("i8", "q"),
}  # fmt: skip
_HALVES: Final = {"REAL2": ("f2", "e"), "FLOAT16_T": ("f2", "e")}
_CODES: Final = {
    **{
        name: code
        for name, (code, _) in (_LETTERS | _QUADS | _TRUTHS | _HALVES).items()
    },
    **{name: code for name, (code, _, _) in _NARROW.items()},
}
# Name, numpy's code and upper limit of the values of each type.
_ALL_TYPES: Final = [
    (name, code, 2 if name in _TRUTHS else 100) for name, code in _CODES.items()
]
_PROBED: Final = (0, 10, 300_000)
# The last has all octets in use, and every vendor has it
_TAGS: Final = (0, 1, 32767, 65536 + 1, 0x0FED_CBA9)
_FLOOD: Final = 200  # several times what may be under way by default
_LONG: Final = 600_000

_Payload = Callable[[int], bytes]


def _half_the_job_away(
    roster: Roster,
    tag: int,
    payload: _Payload,
    *,
    sync: bool = False,
    unit: int = 1,
    counted: bool = True,
) -> Iterator[Crossing]:
    """Return messages from each rank to the rank half the job away."""
    yield from messages(
        across(roster), tag, payload, sync=sync, unit=unit, counted=counted
    )


def _types(roster: Roster, nonce: str) -> Iterator[Crossing]:
    whole = _LETTERS | _TRUTHS | _HALVES
    for tag, (name, _, most) in enumerate(_ALL_TYPES, 100):
        for src, dest in across(roster):
            values = [v % most for v in numbers(nonce, f"types/{name}/{src}", 5)]

            ends = (src, dest, tag)
            if name in _NARROW:
                _, letters, memory = _NARROW[name]
                yield _typed(
                    *ends, parts(letters, values), native=parts(memory, values, "<")
                )
            elif name in _QUADS:
                yield _typed(*ends, parts(_QUADS[name][1], values), units=())
            else:
                letters = whole[name][1]
                sizes = tuple(struct.calcsize(">" + letter) for letter in letters)
                yield _typed(*ends, parts(letters, values), units=sizes)


def _typed(
    src: int,
    dest: int,
    tag: int,
    data: bytes,
    *,
    units: tuple[int, ...] = (1,),
    native: bytes | None = None,
) -> Crossing:
    return Crossing(
        src=src,
        dest=dest,
        cid=WORLD,
        tag=tag,
        nbytes=len(data) if native is None else None,
        payload=data,
        header=Told(elements=5),
        units=units,
        native=native,
    )


def _derived(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def blocks(rank: int) -> bytes:
        values = numbers(nonce, f"derived/int/{rank}", 10)
        return external_ints([*values[8:10], values[4], *values[0:3]])

    def records(rank: int) -> bytes:
        pairs = zip(
            numbers(nonce, f"derived/x/{rank}", 3),
            numbers(nonce, f"derived/n/{rank}", 3),
            strict=True,
        )
        return b"".join(struct.pack(">di", x, n) for x, n in pairs)

    yield from _half_the_job_away(
        roster,
        80,
        lambda r: external_doubles(numbers(nonce, f"derived/{r}", 24)[1::4]),
        unit=8,
        counted=False,
    )

    yield from _half_the_job_away(roster, 81, blocks, unit=4, counted=False)
    for sent in _half_the_job_away(roster, 82, records, counted=False):
        yield replace(sent, units=(8, 4))


def _packed(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def octets_of(rank: int) -> bytes:
        ints = external_ints(numbers(nonce, f"pack/int/{rank}", 4))
        return ints + external_doubles(numbers(nonce, f"pack/double/{rank}", 3))

    for sent in _half_the_job_away(roster, 85, octets_of):
        yield replace(sent, units=(4, 4, 4, 4, 8, 8, 8))


def _truncated(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _half_the_job_away(roster, 90, by_rank(nonce, "truncate/*", 100))
    yield from _half_the_job_away(roster, 91, by_rank(nonce, "truncate/next/*", 50))


def _probed(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i, n in enumerate(_PROBED):
        yield from _half_the_job_away(roster, 95 + i, by_rank(nonce, f"probe/*/{n}", n))


def _probed_long(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _half_the_job_away(roster, 98, by_rank(nonce, "probe/long/*", _LONG))


def _cancelled(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for tag, size in ((56, 64), (57, 400_000)):
        for sent in _half_the_job_away(
            roster, tag, by_rank(nonce, f"cancel/*/{tag}", size), sync=True
        ):
            yield replace(sent, cancelled=True)

    yield from _half_the_job_away(roster, 56, by_rank(nonce, "cancel/next/*", 20))
    yield from barrier(roster, count=2)


def _is_across(roster: Roster, rank: int) -> bool:
    return any(rank == src for src, _ in across(roster))


def _takes_back_inside(roster: Roster, rank: int) -> bool:
    # MPICH and Open MPI take back nothing that is for another process.
    client = roster.client(rank)
    return roster.vendor(client) == "pure" and len(roster.of_client(client)) > 1


def _checks_of_cancel(roster: Roster, rank: int) -> int:
    return 3 + 2 * _is_across(roster, rank) + 3 * _takes_back_inside(roster, rank)


def _persistent(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def ints(turn: int, rank: int) -> bytes:
        return external_ints(numbers(nonce, f"persistent/{turn}/{rank}", 30))

    for turn in range(3):
        yield from _half_the_job_away(
            roster, 86, partial(ints, turn), sync=True, unit=4
        )


def _buffered(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in range(3):
        yield from _half_the_job_away(
            roster, 88, by_rank(nonce, f"buffered/{i}/*", 500)
        )

    yield from _half_the_job_away(roster, 89, by_rank(nonce, "ready/*", 40))
    yield from barrier(roster, count=2)


def _ordered(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    def numbered(i: int, _rank: int) -> bytes:
        size = (i * 7919) % 3000 + (300_000 if i % 16 == 5 else 4)
        return i.to_bytes(4, "big") + bytes(size - 4)

    for i in range(48):
        yield from _half_the_job_away(roster, 33 + i % 3, partial(numbered, i))


def _flood(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    for i in range(_FLOOD):
        yield from _half_the_job_away(roster, 36, partial(numbered_by, i), unit=4)


def _interleaved(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in range(4):
        yield from _half_the_job_away(
            roster, 40 + i, by_rank(nonce, f"interleaved/{i}/*", _LONG)
        )


def _waited(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in remote_pairs(roster):
        for tag in (44, 45):
            data = octets(nonce, f"waitany/{tag}/{src}/{dest}", 16)
            yield Crossing(
                src=src, dest=dest, cid=WORLD, tag=tag, nbytes=16, payload=data
            )


def _empty(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    for tag in _TAGS:
        yield from _half_the_job_away(roster, tag, lambda _rank: b"")


def _large_objects(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        token = octets(nonce, f"large/token/{src}", 40)
        for tag in (63, 64):
            yield Crossing(
                src=src, dest=dest, cid=WORLD, tag=tag, contains=token, sync=True
            )

        yield Crossing(src=src, dest=dest, cid=WORLD, tag=65)


P2P_CASES: Final = (
    Case(
        "p2p.ring",
        ("1.2.2", "3.5", "3.7.1"),
        ("p2p",),
        4,
        _ring,
        groups=("smoke", "core", "wide"),
    ),
    Case(
        "p2p.sizes",
        ("3.7.1", "3.7.2"),
        ("p2p", "long"),
        2 * len(_SIZES),
        _sizes,
        groups=("core", "wide"),
        params={"sizes": list(_SIZES)},
    ),
    Case(
        "p2p.limits",
        ("2.3.5", "3.6", "3.7.2"),
        ("p2p", "flow", "long"),
        len(_LENGTHS) + 2,
        _limited,
        params={
            "lengths": [list(pair) for pair in _LENGTHS],
            "count": _MANY,
            "tag_ub": 70_000,
        },
        launch=Launch(offers=_offers),
        groups=("core",),
    ),
    Case("p2p.ssend", ("3.7.1",), ("p2p", "sync"), 5, _ssend, groups=("core",)),
    Case(
        "p2p.any",
        ("3.7.3",),
        ("p2p", "probe"),
        lambda roster, rank: 2 * (roster.size - 1) + 2 if rank == 0 else 2,
        _any,
        groups=("core",),
    ),
    Case(
        "p2p.types",
        ("1.2.2",),
        ("p2p", "data"),
        len(_ALL_TYPES),
        _types,
        params={"types": [list(row) for row in _ALL_TYPES]},
        groups=("core",),
    ),
    Case("p2p.derived", ("1.2.2",), ("p2p", "data"), 5, _derived),
    Case("p2p.pack", ("4.1",), ("p2p", "data"), 3, _packed),
    Case("p2p.truncate", ("3.7.1",), ("p2p", "error"), 2, _truncated),
    Case(
        "p2p.probe",
        ("3.7.2", "3.7.3"),
        ("p2p", "probe", "long"),
        4 * len(_PROBED),
        _probed,
        groups=("core",),
        params={"sizes": list(_PROBED)},
    ),
    Case(
        "p2p.probe-long",
        ("3.7.2",),
        ("p2p", "probe", "long"),
        2,
        _probed_long,
        params={"size": _LONG},
    ),
    Case(
        "p2p.cancel",
        ("3.7.4",),
        ("p2p", "cancel"),
        _checks_of_cancel,
        _cancelled,
    ),
    Case("p2p.persistent", ("3.7.1",), ("p2p", "sync"), 3, _persistent),
    Case("p2p.buffered", ("3.7.1",), ("p2p",), 4, _buffered),
    Case("p2p.order", ("3.7.1", "3.7.2"), ("p2p", "long"), 1, _ordered),
    Case(
        "p2p.flood",
        ("3.6",),
        ("p2p", "flow"),
        1,
        _flood,
        params={"count": _FLOOD},
        groups=("nodes",),
    ),
    Case(
        "p2p.interleaved",
        ("3.7.2",),
        ("p2p", "long"),
        4,
        _interleaved,
        params={"size": _LONG},
    ),
    Case(
        "p2p.null-self",
        ("3.7.1",),
        ("p2p",),
        4,
        lambda roster, nonce: _half_the_job_away(
            roster, 5, lambda r: external_ints(numbers(nonce, f"self/{r}", 3)), unit=4
        ),
    ),
    Case("p2p.waitany", ("3.7.1",), ("p2p",), 5, _waited),
    Case(
        "p2p.empty",
        ("2.3.5", "3.5", "3.7.1"),
        ("p2p",),
        len(_TAGS) + 1,
        _empty,
        params={"tags": list(_TAGS)},
    ),
    Case(
        "objects.large",
        ("3.7.2",),
        ("p2p", "object", "long"),
        4,
        _large_objects,
        others=(Tag.BCAST, Tag.GATHER),
    ),
)
