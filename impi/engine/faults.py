"""Who cannot take part in a collective tells the others, so that they fail, too, instead of waiting for it.

The collectives of a communicator are numbered by each of its procs in the order of their calls, so that all give one
number to what is one operation. A proc whose call is wrong in itself *refuses* that number, before it has sent any
message, and says so to all others. Where all refuse, nothing has happened: the program is wrong everywhere alike, and
goes on. Where one has refused and another has taken part, what the latter has sent waits where nobody will receive it,
and would be taken for a part of the next operation: so the communicator is *broken*, and whoever finds that tells all
others. On a broken communicator every collective fails, with the class and the words of the first mistake; messages
pass as before.

This is ours, not IMPI's: it happens only after a mistake, and only where all clients have our own version of the
protocol.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from impi.collectives.tags import FAULT_TAG
from impi.engine.payload import OctetSource, OctetTarget
from impi.semantics.constants import ERROR_CLASSES
from impi.semantics.errors import LAST_PREDEFINED, MPIException, error

if TYPE_CHECKING:
    from impi.engine.context import Context
    from impi.engine.engine import Engine

__all__ = ["Agreed", "Faults", "Notice"]

_OTHER: Final = ERROR_CLASSES["ERR_OTHER"][0]
_BROKEN: Final = -1
"""In place of a number: the communicator is broken, whatever was refused."""


class Agreed(Exception):
    """A failure to which all procs of the communicator have come together: nobody need be told."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure


class Faults:
    """What one proc knows of refused collectives of one communicator."""

    def __init__(self, engine: Engine, context: Context) -> None:
        self._engine = engine
        self._context = context
        self._others = [rank for rank in range(len(context.peers)) if context.is_inter or rank != context.rank]
        self._works = engine.job.is_ours
        self.begun = 0
        """Collectives that the program has called here, refused ones included: the number of the next."""
        self._refused: dict[int, set[int]] = {}
        """By the number of one that was refused here: who is not known to have refused it, too."""
        self._heard: dict[int, tuple[set[int], int, str]] = {}
        """By the number of one that was not called here yet: who has refused it, and why."""
        self._broken: tuple[int, str] | None = None
        self.calm = True
        """Whether nothing is known of any refusal."""

    @property
    def settled(self) -> bool:
        """Whether all others are known to have refused what was refused here; until then nothing can begin."""
        return not self._refused

    @property
    def broken(self) -> bool:
        """Whether no collective can succeed any more."""
        return self._broken is not None

    def check(self) -> None:
        """Raise Exception where no collective can succeed any more."""
        if self.broken:
            raise self.failure()

    def failure(self) -> MPIException:
        """What every collective of a broken communicator raises."""
        assert self._broken is not None
        code, why = self._broken
        failure = error(
            code, f"{why}, so this communicator's collectives are out of step; Create_group can make another"
        )
        failure.told = True
        return failure

    def expect(self) -> None:
        """Check that the next collective can succeed, before it begins.

        Raises:
            Exception: another proc has refused it, or the communicator is broken.
        """
        heard = self._heard.get(self.begun)
        if heard is not None:
            self._break(heard[1], heard[2])
        self.check()

    def begin(self) -> None:
        """A collective is called, and is right in itself."""
        heard = self._heard.get(self.begun)
        self.begun += 1
        if heard is not None:
            self._break(heard[1], heard[2])

    def refuse(self, call: str, failure: Exception) -> None:
        """A collective is called that cannot be: tell all others."""
        number = self.begun
        self.begun += 1
        if self.broken or not self._works:
            return
        code, why = self._describe(call, failure)
        self._tell(number, code, why)
        missing = set(self._others) - self._heard.pop(number, (set(), 0, ""))[0]
        if missing:
            self._refused[number] = missing
        self.calm = not (self._refused or self._heard)

    def abandon(self, call: str, failure: Exception) -> None:
        """One that was begun cannot be ended."""
        self._break(*self._describe(call, failure))

    def heard(self, source: int, octets: bytes | bytearray) -> None:
        """Rank ``source`` has told something."""
        number, code, why = json.loads(octets)
        if number == _BROKEN:
            self._break(code, why)
        elif number in self._refused:
            self._refused[number].discard(source)
            if not self._refused[number]:
                del self._refused[number]
                self.calm = not (self._refused or self._heard)
        elif number < self.begun:
            self._break(code, why)
        elif not self.broken:
            self.calm = False
            self._heard.setdefault(number, (set(), code, why))[0].add(source)

    def _describe(self, call: str, failure: Exception) -> tuple[int, str]:
        engine, context = self._engine, self._context
        code = failure.error_class if isinstance(failure, MPIException) else _OTHER
        who = f"rank {context.rank}"
        if context.is_inter or context.rank != engine.rank:
            who += f" (rank {engine.rank} of MPI_COMM_WORLD)"
        kind = "" if isinstance(failure, MPIException) else f"{type(failure).__name__}: "
        return (code if code <= LAST_PREDEFINED else _OTHER, f"{who} failed in {call}: {kind}{failure}")

    def _break(self, code: int, why: str) -> None:
        if self.broken or not self._works:
            return
        self._broken = (code, why)
        self.calm = False
        self._refused.clear()
        self._heard.clear()
        # Between two groups nobody can tell their own group but through the other one: so everybody passes it on.
        self._tell(_BROKEN, code, why)

    def _tell(self, number: int, code: int, why: str) -> None:
        octets = json.dumps([number, code, why]).encode()
        for rank in self._others:
            self._engine.send(self._context, rank, FAULT_TAG, OctetSource(octets), collective=True)


class Notice(OctetTarget):
    """Where what :class:`Faults` has told goes."""

    def __init__(self, faults: Faults, source: int) -> None:
        super().__init__()
        self._faults = faults
        self._source = source

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """All of it is there."""
        self._faults.heard(self._source, self.data)
