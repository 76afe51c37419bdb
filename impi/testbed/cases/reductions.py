"""Reductions: every operation, every width, in order and in parts (IMPI 4.16 to 4.18, 4.21)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final

from impi.testbed.cases.case import COLLECTIVE, Case, Crossing, bcast, reduction
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import COMBINE, external, external_ints, numbers

_SCATTERV_TAG, _REDUCE_TAG, _SCAN_TAG = 160, 190, 200
_WIDTHS: Final = (
    ("SHORT", "i2"), ("UNSIGNED_SHORT", "u2"), ("INT", "i4"), ("INT64_T", "i8"), ("UINT64_T", "u8"), ("FLOAT", "f4"),
    ("DOUBLE", "f8"),
)  # fmt: skip


def _combined(rows: list[list[int]], combine: Callable[[int, int], int]) -> list[int]:
    return [reduce(combine, column) for column in zip(*rows, strict=True)]


def _everywhere(roster: Roster, encode: Callable[[list[int]], bytes], unit: int = 4) -> Iterator[Crossing]:
    """An allreduce (IMPI 4.21); ``encode`` gives the octets of the result of some ranks."""
    whole = encode(list(range(roster.size)))
    yield from reduction(roster, 0, len(whole), lambda client: encode(roster.of_client(client)), units=(unit,))
    yield from bcast(roster, 0, whole, unit=unit)


def _ops(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for name, combine in COMBINE.items():

        def of(ranks: list[int], name: str = name, combine: Callable[[int, int], int] = combine) -> bytes:
            rows = [numbers(nonce, f"ops/{r}", 6) for r in ranks]
            return external_ints(_combined([[v % 7 for v in row] if name == "PROD" else row for row in rows], combine))

        yield from _everywhere(roster, of)


def _locations(roster: Roster, nonce: str) -> Iterator[Crossing]:
    every = {r: [v % 5 for v in numbers(nonce, f"locations/{r}", 8)] for r in range(roster.size)}
    for better in (max, min):

        def of(client: int, better: Callable[..., int] = better) -> bytes:
            ranks = roster.of_client(client)
            found = []
            for i in range(8):
                best = better(every[r][i] for r in ranks)
                found.append(struct.pack(">di", best, next(r for r in ranks if every[r][i] == best)))
            return b"".join(found)

        yield from reduction(roster, roster.size - 1, 8 * 12, of, units=(8, 4))


def _in_order(roster: Roster, nonce: str) -> Iterator[Crossing]:
    maps = [[v % 251 for v in numbers(nonce, f"ordered/{r}", 2)] for r in range(roster.size)]
    # The third is Allreduce, whose result comes back.
    for root in (0, roster.size - 1, 0):
        for rank, own in enumerate(maps):
            if roster.remote(rank, root):
                data = external_ints(own)
                yield Crossing(src=rank, dest=root, cid=COLLECTIVE, tag=_REDUCE_TAG, nbytes=8, payload=data, units=(4,))
    whole = reduce(lambda one, other: [one[0] * other[0] % 251, (one[0] * other[1] + one[1]) % 251], maps)
    yield from bcast(roster, 0, external_ints(whole), unit=4)


def _parts(roster: Roster, nonce: str) -> Iterator[Crossing]:
    n = roster.size
    every = {r: numbers(nonce, f"reduce-scatter/{r}", n * (n + 5)) for r in range(n)}
    counts = [2 * r + 1 for r in range(n)]
    for lengths in ([5] * n, counts):
        total = sum(lengths)

        def of(ranks: list[int], total: int = total) -> list[int]:
            return [sum(column) for column in zip(*(every[r][:total] for r in ranks), strict=True)]

        yield from reduction(roster, 0, 4 * total, lambda client, of=of: external_ints(of(roster.of_client(client))))  # type: ignore[misc]
        sums = of(list(range(n)))
        for rank in range(n):
            if roster.remote(rank, 0):
                start = sum(lengths[:rank])
                part = external_ints(sums[start : start + lengths[rank]])
                yield Crossing(
                    src=0, dest=rank, cid=COLLECTIVE, tag=_SCATTERV_TAG, nbytes=len(part), payload=part, units=(4,)
                )


def _chain(roster: Roster, nonce: str) -> Iterator[Crossing]:
    rows = [numbers(nonce, f"scan/{r}", 10) for r in range(roster.size)]
    for rank in range(roster.size - 1):
        if roster.remote(rank, rank + 1):
            so_far = external_ints([sum(column) for column in zip(*rows[: rank + 1], strict=True)])
            # Once for Scan, once for Exscan, which sends the same one place on.
            yield Crossing(
                src=rank, dest=rank + 1, cid=COLLECTIVE, tag=_SCAN_TAG, nbytes=40, payload=so_far, count=2, units=(4,)
            )


def _widths(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for name, code in _WIDTHS:

        def of(ranks: list[int], name: str = name, code: str = code) -> bytes:
            rows = [[v % 9 for v in numbers(nonce, f"widths/{name}/{r}", 6)] for r in ranks]
            return external(code, [sum(column) for column in zip(*rows, strict=True)])

        yield from _everywhere(roster, of, int(code[1:]))


REDUCTION_CASES: Final = (
    Case("reduce.ops", ("4.16", "4.21"), ("collective", "reduction"), len(COMBINE), _ops),
    Case("reduce.locations", ("1.2.2", "4.16"), ("collective", "reduction", "data"), 2, _locations),
    Case("reduce.ordered", ("4.16", "4.21"), ("collective", "reduction"), 3, _in_order, nodes=True),
    Case("reduce.scatter", ("4.17",), ("collective", "reduction"), 2, _parts),
    Case("reduce.scan", ("4.18",), ("collective", "reduction"), 2, _chain),
    Case(
        "reduce.widths",
        ("1.2.2", "4.21"),
        ("collective", "reduction", "data"),
        len(_WIDTHS) + 1,
        _widths,
        others=(120, 130, _REDUCE_TAG),
        params={"types": [list(pair) for pair in _WIDTHS]},
    ),
)
