"""Point-to-point in all its forms: kinds of data, of requests, of sends (IMPI 1.2.2, chapter 3)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from impi.testbed.cases.case import WORLD, Case, Crossing, across, barrier, messages, remote_pairs
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external, external_doubles, external_ints, numbers, octets

_TYPES: Final = (
    ("INT8_T", "i1"), ("UINT8_T", "u1"), ("SHORT", "i2"), ("UNSIGNED_SHORT", "u2"), ("INT", "i4"), ("UNSIGNED", "u4"),
    ("INT64_T", "i8"), ("UINT64_T", "u8"), ("FLOAT", "f4"), ("DOUBLE", "f8"),
)  # fmt: skip
_PROBED: Final = (0, 10, 300_000)
_FLOOD: Final = 200
"""Several times what may be under way by default."""
_LONG: Final = 600_000

_Payload = Callable[[int], bytes]


def _halfway(roster: Roster, tag: int, payload: _Payload, *, sync: bool = False, count: int = 1) -> Iterator[Crossing]:
    """Everybody to the rank half the job away."""
    yield from messages(across(roster), tag, payload, sync=sync, count=count)


def _types(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for tag, (name, code) in enumerate(_TYPES, 100):
        label = f"types/{name}"
        yield from _halfway(
            roster,
            tag,
            lambda r, c=code, n=label: external(c, [v % 100 for v in numbers(nonce, f"{n}/{r}", 5)]),  # type: ignore[misc]
        )


def _derived(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def blocks(rank: int) -> bytes:
        values = numbers(nonce, f"derived/int/{rank}", 10)
        return external_ints([*values[8:10], values[4], *values[0:3]])

    def records(rank: int) -> bytes:
        pairs = zip(numbers(nonce, f"derived/x/{rank}", 3), numbers(nonce, f"derived/n/{rank}", 3), strict=True)
        return b"".join(struct.pack(">di", x, n) for x, n in pairs)

    yield from _halfway(roster, 80, lambda r: external_doubles(numbers(nonce, f"derived/{r}", 24)[1::4]))
    yield from _halfway(roster, 81, blocks)
    yield from _halfway(roster, 82, records)


def _packed(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def octets_of(rank: int) -> bytes:
        ints = external_ints(numbers(nonce, f"pack/int/{rank}", 4))
        return ints + external_doubles(numbers(nonce, f"pack/double/{rank}", 3))

    yield from _halfway(roster, 85, octets_of)


def _truncated(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _halfway(roster, 90, lambda r: octets(nonce, f"truncate/{r}", 100))
    yield from _halfway(roster, 91, lambda r: octets(nonce, f"truncate/next/{r}", 50))


def _probed(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i, n in enumerate(_PROBED):
        yield from _halfway(roster, 95 + i, lambda r, n=n: octets(nonce, f"probe/{r}/{n}", n))  # type: ignore[misc]


def _cancelled(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _halfway(roster, 56, lambda r: octets(nonce, f"cancel/next/{r}", 20))
    yield from barrier(roster, count=3)


def _is_across(roster: Roster, rank: int) -> bool:
    return any(rank == src for src, _ in across(roster))


def _persistent(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for turn in range(3):
        label = f"persistent/{turn}"
        yield from _halfway(
            roster,
            86,
            lambda r, of=label: external_ints(numbers(nonce, f"{of}/{r}", 30)),  # type: ignore[misc]
            sync=True,
            count=3,
        )


def _buffered(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in range(3):
        yield from _halfway(roster, 88, lambda r, i=i: octets(nonce, f"buffered/{i}/{r}", 500), count=3)  # type: ignore[misc]
    yield from _halfway(roster, 89, lambda r: octets(nonce, f"ready/{r}", 40))
    yield from barrier(roster, count=3)


def _ordered(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        for tag in (33, 34, 35):
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, count=16)


def _flood(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        last = external_ints([src, _FLOOD - 1])
        yield Crossing(src=src, dest=dest, cid=WORLD, tag=36, nbytes=8, payload=last, count=_FLOOD)


def _interleaved(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in range(4):
        yield from _halfway(roster, 40 + i, lambda r, i=i: octets(nonce, f"interleaved/{i}/{r}", _LONG))  # type: ignore[misc]


def _waited(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in remote_pairs(roster):
        for tag in (44, 45):
            data = octets(nonce, f"waitany/{tag}/{src}/{dest}", 16)
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, nbytes=16, payload=data)


def _empty(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    for tag in (0, 1, 32767):
        yield from _halfway(roster, tag, lambda _rank: b"")


def _large_objects(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        token = octets(nonce, f"large/token/{src}", 40)
        for tag in (63, 64):
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, contains=token, sync=True)
        yield Crossing(src=src, dest=dest, cid=WORLD, tag=65)


REQUEST_CASES: Final = (
    Case(
        "p2p.types", ("1.2.2",), ("p2p", "data"), len(_TYPES), _types, params={"types": [list(pair) for pair in _TYPES]}
    ),
    Case("p2p.derived", ("1.2.2",), ("p2p", "data"), 4, _derived),
    Case("p2p.pack", ("4.1",), ("p2p", "data"), 3, _packed),
    Case("p2p.truncate", ("3.7.1",), ("p2p", "error"), 2, _truncated),
    Case(
        "p2p.probe",
        ("3.7.2", "3.7.3"),
        ("p2p", "probe", "long"),
        4 * len(_PROBED),
        _probed,
        params={"sizes": list(_PROBED)},
    ),
    Case(
        "p2p.cancel", ("3.7.4",), ("p2p", "cancel"), lambda roster, rank: 3 + 2 * _is_across(roster, rank), _cancelled
    ),
    Case("p2p.persistent", ("3.7.1",), ("p2p", "sync"), 3, _persistent),
    Case("p2p.buffered", ("3.7.1",), ("p2p",), 4, _buffered),
    Case("p2p.order", ("3.7.1", "3.7.2"), ("p2p", "long"), 1, _ordered),
    Case("p2p.flood", ("3.6",), ("p2p", "flow"), 1, _flood, params={"count": _FLOOD}, nodes=True),
    Case("p2p.interleaved", ("3.7.2",), ("p2p", "long"), 4, _interleaved, params={"size": _LONG}),
    Case(
        "p2p.null-self",
        ("3.7.1",),
        ("p2p",),
        4,
        lambda roster, nonce: _halfway(roster, 5, lambda r: external_ints(numbers(nonce, f"self/{r}", 3))),
    ),
    Case("p2p.waitany", ("3.7.1",), ("p2p",), 5, _waited),
    Case("p2p.empty", ("3.5", "3.7.1"), ("p2p",), 4, _empty),
    Case("objects.large", ("3.7.2",), ("p2p", "object", "long"), 4, _large_objects),
)
