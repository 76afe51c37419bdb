"""Start-up and shutdown (IMPI 2.3, 2.4, 3.8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from impi.lab.cases.case import (
    LABELLED,
    WORLD,
    Case,
    Crossing,
    Ends,
    Launch,
    across,
    barrier,
    bcast,
    messages,
)
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import external_ints, numbers, octets

_TERMINATED: Final = 128 + 15  # the exit code of an impirun that SIGTERM ends
_WORK_S: Final = 3.0  # longer than impirun waits between SIGTERM and SIGKILL by itself


def _nothing(_roster: Roster, _nonce: str) -> list[Crossing]:
    return []


def _introduced(roster: Roster, _nonce: str) -> list[Crossing]:
    """Return messages: each rank tells rank 0 who it is, and rank 0 tells all."""

    who = [[rank, roster.client(rank)] for rank in range(roster.size)]
    remote = [(rank, 0) for rank in range(1, roster.size) if roster.remote(rank, 0)]
    whole = external_ints([number for pair in who for number in pair])

    return [
        *messages(remote, 6, lambda r: external_ints(who[r]), unit=4),
        *bcast(roster, 0, whole, unit=4),
    ]


def _unmatched(roster: Roster, nonce: str) -> list[Crossing]:
    if not roster.remote(0, roster.size - 1):
        return []

    data = octets(nonce, "finalize/unmatched", 100)
    return [
        Crossing(
            src=0, dest=roster.size - 1, cid=WORLD, tag=77, nbytes=100, payload=data
        )
    ]


def _longs(roster: Roster, nonce: str) -> list[Crossing]:
    return [
        replace(sent, native=struct.pack("<6q", *numbers(nonce, f"long/{sent.src}", 6)))
        for sent in messages(
            across(roster),
            17,
            lambda r: external_ints(numbers(nonce, f"long/{r}", 6)),
            unit=4,
        )
    ]


def _last_rank_ends_with_3(roster: Roster) -> Ends:
    last = roster.size - 1
    return Ends({last: 3}, roster.client(last))


def _cut_off(*codes: int, status: int | None = None) -> Callable[[Roster], Ends]:
    """The last client cuts off the job; after a signal the code is its mpiexec's."""

    def ends(roster: Roster) -> Ends:
        last = roster.size - 1
        statuses = {} if status is None else {last: status}
        return Ends(
            statuses, roster.client(last), codes=codes, abrupt=True, finalizes=False
        )

    return ends


def _ready(roster: Roster, _nonce: str) -> list[Crossing]:
    """Return messages: each rank tells the last one that it has reported."""
    last = roster.size - 1
    told = messages(
        ((r, last) for r in range(last) if roster.remote(r, last)),
        71,
        lambda _rank: b"",
    )

    return [*barrier(roster), *told]


def _unloaded(roster: Roster) -> Ends:
    cure = "if its loader did not find libmpi, or a symbol there, name the ABI (impirun --abi"
    return Ends(refused=roster.nclients - 1, why=cure, codes=(127,), abrupt=True)


def _refused(why: str) -> Callable[[Roster], Ends]:
    return lambda roster: Ends(refused=roster.nclients - 1, why=why)


JOB_CASES: Final = (
    Case(
        "startup.hello",
        ("2.3.4", "2.3.5", "2.3.8", "2.5"),
        ("startup",),
        8,
        _introduced,
        launch=Launch((*Launch().options, LABELLED)),
        groups=("smoke", "core", "wide"),
    ),
    Case(
        "startup.key",
        ("2.3.3",),
        ("startup", "auth"),
        1,
        _nothing,
        groups=("core",),
        variants=("auth=key", "auth=both", "auth=challenge"),
    ),
    Case(
        "startup.wrong-key",
        ("2.3.3",),
        ("startup", "auth", "failure"),
        1,
        _nothing,
        groups=("core",),
        variants=("auth=wrong",),
        ends=_refused("sent a wrong authentication key"),
    ),
    Case(
        "startup.no-common-auth",
        ("2.3.3",),
        ("startup", "auth", "failure"),
        1,
        _nothing,
        groups=("core",),
        variants=("auth=apart",),
        ends=_refused("no common authentication method"),
    ),
    Case(
        "startup.strict",
        ("1.2.2", "2.3.4"),
        ("startup", "p2p"),
        1,
        _longs,
        launch=Launch(("--impi-version", "0.0")),
    ),
    Case(
        "startup.unloaded",
        (),
        ("startup", "failure"),
        1,
        _nothing,
        variants=("abi=standard,behind=script",),
        ends=_unloaded,
    ),
    Case(
        "shutdown.finalize",
        ("2.4", "3.8"),
        ("shutdown",),
        1,
        lambda roster, nonce: [*_unmatched(roster, nonce), *barrier(roster)],
        groups=("smoke", "core"),
    ),
    Case(
        "shutdown.exit-code",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        groups=("core",),
        ends=_last_rank_ends_with_3,
    ),
    Case(
        "shutdown.left",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster, count=3),
        ends=_cut_off(3),  # an mpiexec may end the rank before its status is recorded
    ),
    Case(
        "shutdown.broken",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster, count=2),
        variants=("abi=standard",),  # Python ignores the signal
        ends=_cut_off(3),
    ),
    Case(
        "shutdown.grace",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        params={"work": _WORK_S},
        launch=Launch((*Launch().options, "--grace", "30")),
        ends=_cut_off(_TERMINATED),
    ),
    Case(
        "signals.passed",
        (),
        ("signal",),
        2,
        lambda roster, _nonce: barrier(roster, count=2),
        params={"limit": 60},
        groups=("once",),
    ),
    Case(
        "shutdown.exception",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        ends=lambda roster: Ends({roster.size - 1: 1}, roster.client(roster.size - 1)),
    ),
    Case(
        "shutdown.signal",
        ("2.3.7",),
        ("shutdown", "failure"),
        1,
        lambda roster, _nonce: barrier(roster),
        groups=("core",),
        # After MPI_Finalize: the others end well, but this client has no FINI for the server.
        ends=lambda roster: Ends(
            {roster.size - 1: -10}, roster.client(roster.size - 1)
        ),
    ),
    Case(
        "shutdown.abort",
        ("2.3.7", "2.4"),
        ("shutdown", "failure"),
        1,
        _ready,
        groups=("core",),
        ends=_cut_off(7),
    ),
    Case(
        "failure.kill-rank",
        ("2.3.7", "3.8"),
        ("failure",),
        1,
        _ready,
        groups=("core",),
        ends=_cut_off(status=-9),
    ),
    Case(
        "failure.kill-client",
        ("2.3.7", "3.8"),
        ("failure",),
        1,
        _ready,
        ends=_cut_off(-9),
    ),
)
