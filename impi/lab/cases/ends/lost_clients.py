"""A resilient job that loses a client: the others learn of it, and end well (``--resilient``).

IMPI 0.0 knows no loss that a job survives: LOSS of the server and the notices of procs are impi's
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.lab.cases.case import (
    COLLECTIVE,
    FIRST_CREATED,
    Case,
    Crossing,
    Ends,
    Launch,
    by_rank,
    messages,
)
from impi.lab.nodes.roster import Roster

_NOTICE: Final = 253  # the tag of notices: of a revoked communicator, and of agreements
# Agree and Shrink; MPI_Finalize agrees, too, and its messages may be the last that cross
_AGREEMENTS: Final = 2


def _ring(
    roster: Roster, ranks: list[int], tag: int, cid: int, nonce: str
) -> Iterator[Crossing]:
    pairs = zip(ranks, [*ranks[1:], ranks[0]], strict=True)
    remote = [pair for pair in pairs if roster.remote(*pair)]
    # The last client is the lost one, so that ranks stay what they are.
    yield from messages(remote, tag, by_rank(nonce, f"survive/{tag}/*", 64), cid=cid)


def _survived(roster: Roster, nonce: str) -> Iterator[Crossing]:
    left = [
        r for r in range(roster.size) if r not in roster.of_client(roster.nclients - 1)
    ]
    yield from _ring(roster, list(range(roster.size)), 7, FIRST_CREATED, nonce)

    yield from _ring(roster, left, 8, FIRST_CREATED + 2, nonce)
    for other in (r for r in left if roster.remote(0, r)):
        revoked = f'["revoke", {FIRST_CREATED},'.encode()
        agreed = f'["agree", {FIRST_CREATED},'.encode()

        yield Crossing(src=0, dest=other, cid=COLLECTIVE, tag=_NOTICE, contains=revoked)
        # Rank 0 leads: it gets a vote and an acceptance, and gives a proposal and a decision.
        for src, dest in ((other, 0), (0, other)):
            yield Crossing(
                src=src,
                dest=dest,
                cid=COLLECTIVE,
                tag=_NOTICE,
                contains=agreed,
                count=2 * _AGREEMENTS,
            )


SURVIVAL_CASES: Final = (
    Case(
        "survive.client",
        (),
        ("survival", "failure"),
        lambda roster, rank: 1 if rank in roster.of_client(roster.nclients - 1) else 7,
        _survived,
        launch=Launch(("--external32", "--resilient")),
        communicators=2,
        ends=lambda roster: Ends(lost=roster.nclients - 1, finalizes=False),
        groups=("trio",),
    ),
)
