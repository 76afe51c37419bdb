"""Agreement: the procs of a file tell each other the results and failures of their calls.

How it works: a collective call is right at all procs or fails at all of them. So a step that may
fail is made under :func:`attempt`, and its failure travels beside its result in the next message.
Where one proc raised at once, the others would wait for it in that message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.comms.intracomm import Intracomm

T = TypeVar("T")


@record
class Mistake:
    """A failure of one proc, as the others learn it."""

    code: int
    why: str


def attempt(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Return the result of a call, or its failure: the others wait for news of either."""
    try:
        return call(), None
    except Exception as failure:
        return None, failure


def gathered(team: Intracomm, value: T, failure: Exception | None = None) -> list[T]:
    """Return the values of all procs; raise the first failure of all, at all of them.

    A proc that has failed raises its own one.
    """
    rows: list[tuple[T, Mistake | None]] = team.allgather((value, _mistake(failure)))
    raise_first([mistake for _, mistake in rows], failure)

    return [value for value, _ in rows]


def decided(team: Intracomm, root: int, call: Callable[[], T]) -> T:
    """Return the result of a call that proc ``root`` makes for all; they all raise its failure."""

    value, failure = attempt(call) if team.rank == root else (None, None)
    result: tuple[T, Mistake | None] = team.bcast((value, _mistake(failure)), root)
    raise_first([None] * root + [result[1]], failure)

    return result[0]


def _mistake(failure: Exception | None) -> Mistake | None:
    if failure is None:
        return None

    # A class and a sentence: a pickled exception would need the program's own classes at the other
    # procs.
    if isinstance(failure, MPIException):
        return Mistake(int(failure), failure.detail)

    return Mistake(int(error("ERR_OTHER")), f"{type(failure).__name__}: {failure}")


def raise_first(mistakes: Sequence[Mistake | None], mine: Exception | None) -> None:
    """Raise one's own failure, else the first of the others'."""
    if mine is not None:
        raise mine

    for rank, mistake in enumerate(mistakes):
        if mistake is not None:
            told = error(mistake.code, f"rank {rank}: {mistake.why}")
            told.told = True
            raise told
