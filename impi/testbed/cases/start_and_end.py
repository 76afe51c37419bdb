"""Start-up and shutdown (IMPI 2.3, 2.4, 3.8)."""

from __future__ import annotations

from typing import Final

from impi.testbed.cases.case import WORLD, Case, Crossing, Ends, across, barrier
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_ints, numbers, octets

__all__ = ["JOB_CASES"]


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
        name="startup.hello",
        description="every rank knows the job: size, own place, clients and hosts",
        clauses=("2.3.4", "2.3.5", "2.3.8", "2.5"),
        tags=("startup",),
        core=True,
        program="startup_hello.py",
        checks=lambda _roster, _rank: 8,
        crossings=_nothing,
        smoke=True,
        wide=True,
    ),
    Case(
        name="startup.key",
        description="clients that share a key authenticate with it",
        clauses=("2.3.3",),
        tags=("startup", "auth"),
        core=True,
        program="startup_key.py",
        checks=lambda _roster, _rank: 1,
        crossings=_nothing,
        variants=("auth=key",),
    ),
    Case(
        name="startup.strict",
        description="a job of version 0.0 alone: four octets for MPI_LONG",
        clauses=("1.2.2", "2.3.4"),
        tags=("startup", "p2p"),
        program="startup_strict.py",
        options=("--impi-version", "0.0"),
        checks=lambda _roster, _rank: 1,
        crossings=_longs,
    ),
    Case(
        name="shutdown.finalize",
        description="a message that nobody receives does not keep the job from ending",
        clauses=("2.4", "3.8"),
        tags=("shutdown",),
        core=True,
        program="shutdown_finalize.py",
        checks=lambda _roster, _rank: 1,
        crossings=lambda roster, nonce: [*_unmatched(roster, nonce), *barrier(roster, count=2)],
        smoke=True,
    ),
    Case(
        name="shutdown.exit-code",
        description="a rank that ends with status 3 fails its client, and the server names it",
        clauses=("2.3.7",),
        tags=("shutdown", "failure"),
        core=True,
        program="shutdown_exit_code.py",
        checks=lambda _roster, _rank: 1,
        crossings=lambda roster, _nonce: barrier(roster),
        ends=_last_rank_ends_with_3,
    ),
    Case(
        name="shutdown.exception",
        description="an exception that nobody catches fails its client, and the server names it",
        clauses=("2.3.7",),
        tags=("shutdown", "failure"),
        program="shutdown_exception.py",
        checks=lambda _roster, _rank: 1,
        crossings=lambda roster, _nonce: barrier(roster),
        ends=lambda roster: Ends({roster.size - 1: 1}, roster.client(roster.size - 1)),
    ),
)
