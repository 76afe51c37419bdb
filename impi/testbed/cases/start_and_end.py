"""Start-up and shutdown (IMPI 2.3, 2.4, 3.8)."""

from __future__ import annotations

from typing import Final

from impi.testbed.cases.case import WORLD, Case, Crossing, Ends, across, barrier
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_ints, numbers, octets


def _nothing(_roster: Roster, _nonce: str) -> list[Crossing]:
    return []


def _unmatched(roster: Roster, nonce: str) -> list[Crossing]:
    if not roster.remote(0, roster.size - 1):
        return []
    data = octets(nonce, "finalize/unmatched", 100)
    return [Crossing(src=0, dest=roster.size - 1, cid=WORLD, tag=77, nbytes=100, payload=data)]


def _longs(roster: Roster, nonce: str) -> list[Crossing]:
    return [
        Crossing(
            src=src, dest=dest, cid=WORLD, tag=17, nbytes=24, payload=external_ints(numbers(nonce, f"long/{src}", 6))
        )
        for src, dest in across(roster)
    ]


def _last_rank_ends_with_3(roster: Roster) -> Ends:
    last = roster.size - 1
    return Ends({last: 3}, roster.client(last))


JOB_CASES: Final = (
    Case(
        "startup.hello", ("2.3.4", "2.3.5", "2.3.8", "2.5"), ("startup",), 8, _nothing, core=True, smoke=True, wide=True
    ),
    Case("startup.key", ("2.3.3",), ("startup", "auth"), 1, _nothing, core=True, variants=("auth=key",)),
    Case("startup.strict", ("1.2.2", "2.3.4"), ("startup", "p2p"), 1, _longs, options=("--impi-version", "0.0")),
    Case(
        "shutdown.finalize",
        ("2.4", "3.8"),
        ("shutdown",),
        1,
        lambda roster, nonce: [*_unmatched(roster, nonce), *barrier(roster, count=2)],
        core=True,
        smoke=True,
    ),
    Case(
        "shutdown.exit-code",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        core=True,
        ends=_last_rank_ends_with_3,
    ),
    Case(
        "shutdown.exception",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        ends=lambda roster: Ends({roster.size - 1: 1}, roster.client(roster.size - 1)),
    ),
)
