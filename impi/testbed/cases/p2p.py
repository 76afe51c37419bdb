"""Point-to-point messages (IMPI chapter 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import DATALEN, WORLD, Case, Crossing, across, around, barrier, messages
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_doubles, external_ints, numbers, octets

_SIZES: Final = (0, 1, DATALEN - 1, DATALEN, DATALEN + 1, 1 << 20)


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    pairs = around(roster)
    yield from messages(pairs, 7, lambda r: octets(nonce, f"ring/{r}", 256))
    yield from messages(pairs, 8, lambda r: external_doubles(numbers(nonce, f"ring/double/{r}", 32)), unit=8)
    yield from messages(pairs, 9, lambda r: external_ints(numbers(nonce, f"ring/int/{r}", 9)), unit=4)


def _sizes(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i, size in enumerate(_SIZES):
        yield from messages(across(roster), 20 + i, lambda r, n=size: octets(nonce, f"sizes/{r}/{n}", n))  # type: ignore[misc]


def _ssend(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for tag in (50, 51):
        yield from messages(across(roster), tag, lambda r: octets(nonce, f"ssend/{r}", 64), sync=True)
    yield from barrier(roster, count=4)


def _any(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for rank in range(1, roster.size):
        if roster.remote(rank, 0):
            for tag in (30, 31):
                data = octets(nonce, f"any/{rank}/{tag}", 10 + rank)
                yield Crossing(src=rank, dest=0, cid=WORLD, tag=tag, nbytes=len(data), payload=data)
            data = octets(nonce, f"any/reply/{rank}", 16)
            yield Crossing(src=0, dest=rank, cid=WORLD, tag=40, nbytes=16, payload=data)


_LEAST: Final = 20_000
_LENGTHS: Final = ((_LEAST - 1, 65_537), (_LEAST, 69_999), (_LEAST + 1, 70_000), (50_001, 7))
"""Octets and tags around the least offers."""
_MANY: Final = 60


def _offers(client: int) -> tuple[str, ...]:
    """Other limits for each client; none offers the least of all."""
    own = (("65536", "8", "12", "70000"), (str(_LEAST), "5", "30", "90000"), ("40000", "9", "40", "80000"))
    names = ("--datalen", "--ackmark", "--hiwater", "--tag-ub")
    return tuple(word for pair in zip(names, own[min(client, 2)], strict=True) for word in pair)


def _limited(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for n, tag in _LENGTHS:
        yield from messages(across(roster), tag, lambda r, n=n: octets(nonce, f"limits/{n}/{r}", n), datalen=_LEAST)  # type: ignore[misc]
    for i in range(_MANY):
        yield from messages(across(roster), 36, lambda r, i=i: external_ints([r, i]), unit=4)  # type: ignore[misc]


P2P_CASES: Final = (
    Case("p2p.ring", ("1.2.2", "3.5", "3.7.1"), ("p2p",), 4, _ring, core=True, smoke=True, wide=True),
    Case(
        "p2p.sizes",
        ("3.7.1", "3.7.2"),
        ("p2p", "long"),
        2 * len(_SIZES),
        _sizes,
        core=True,
        params={"sizes": list(_SIZES)},
        wide=True,
    ),
    Case(
        "p2p.limits",
        ("2.3.5", "3.6", "3.7.2"),
        ("p2p", "flow", "long"),
        len(_LENGTHS) + 2,
        _limited,
        params={"lengths": [list(pair) for pair in _LENGTHS], "count": _MANY, "tag_ub": 70_000},
        offers=_offers,
        core=True,
    ),
    Case("p2p.ssend", ("3.7.1",), ("p2p", "sync"), 5, _ssend, core=True),
    Case(
        "p2p.any",
        ("3.7.3",),
        ("p2p", "probe"),
        lambda roster, rank: 2 * (roster.size - 1) + 2 if rank == 0 else 1,
        _any,
        core=True,
    ),
)
