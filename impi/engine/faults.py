"""Refused and broken collectives: a proc that cannot take part tells the others, so none hangs.

Callers: :mod:`impi.engine.collective` begins and abandons, ``impi.api.collective.client_local``
expects and abandons, ``impi.api.handles.failing`` refuses. A notice is a message of tag FAULT_TAG
on the collective context id; :class:`Notice` passes it to :meth:`Faults.heard`.

Each proc numbers the collectives of a communicator in call order: one operation, one number.
A proc whose call is invalid *refuses* the number, before it sends any message, and tells all.

- All procs refuse: the program is wrong everywhere alike, nothing was sent, and the job goes on.
- Some refuse, some take part: the messages of the latter would be taken for the next operation. So
  the communicator is *broken*, and the proc that finds this tells all others.

On a broken communicator every collective raises the class and text of the first error.
Point-to-point messages pass as before.

This is an extension of IMPI: it acts only after an error, and only if all clients run impi.
"""

from __future__ import annotations

import json
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Final

from impi.collectives.tags import FAULT_TAG
from impi.engine.payload import OctetSource, OctetTarget
from impi.semantics.constants import ERROR_CLASSES
from impi.semantics.errors import LAST_PREDEFINED, MPIException, error

if TYPE_CHECKING:
    from impi.engine.context import Context
    from impi.engine.engine import Engine


_OTHER: Final = ERROR_CLASSES["ERR_OTHER"][0]
_BROKEN: Final = -1
"""In place of a number: the communicator is broken, whatever was refused."""


class Agreed(Exception):
    """A failure that all procs of the communicator have reached together: no notice is sent."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure


class Faults:
    """One proc's record of refused collectives of one communicator."""

    def __init__(self, engine: Engine, context: Context) -> None:
        self._engine = engine
        self._context = context
        context.takers[FAULT_TAG] = lambda source: Notice(self, source)
        self._others = [rank for rank in range(len(context.peers)) if context.is_inter or rank != context.rank]
        self._works = engine.job.is_ours
        self.begun = 0
        """Collectives called here, refused ones included: the number of the next one."""
        self._refused: dict[int, set[int]] = {}
        """Number of a collective refused here to the procs not known to have refused it."""
        self._heard: dict[int, tuple[set[int], int, str]] = {}
        """Number of a collective not yet called here to those who refused it, and why."""
        self._broken: tuple[int, str] | None = None
        self._heard_of_loss = False
        """Whether all hear of that anyway: a member is lost, or the communicator revoked."""
        self.calm = True
        """Whether no refusal is known."""

    @property
    def settled(self) -> bool:
        """Whether all procs have refused what was refused here; no collective begins before."""
        return not self._refused

    @property
    def broken(self) -> bool:
        """Whether every further collective fails."""
        return self._broken is not None

    def check(self) -> None:
        """Raise the MPIException of :meth:`failure` if the communicator is broken."""
        if self.broken:
            raise self.failure()

    def failure(self) -> MPIException:
        """Return what every collective of a broken communicator raises."""
        assert self._broken is not None
        code, why = self._broken
        if self._heard_of_loss:
            return error(code, why)
        failure = error(
            code, f"{why}, so this communicator's collectives are out of step; Create_group can make another"
        )
        failure.told = True
        return failure

    def lose(self, failure: MPIException) -> None:
        """Let every collective fail from now on: a member is lost, or it is revoked."""
        self._broken = (int(failure), failure.detail)
        self._heard_of_loss = True
        self.calm = False
        self._refused.clear()
        self._heard.clear()

    def expect(self) -> None:
        """Check that the next collective can succeed, before it begins.

        Raises:
            Exception: another proc has refused it, or the communicator is broken.
        """
        if get_ident() != self._engine.threads.owner:
            self._engine.threads.enter()
        heard = self._heard.get(self.begun)
        if heard is not None:
            self._break(heard[1], heard[2])
        self.check()

    def begin(self) -> None:
        """Count a collective whose call is valid."""
        heard = self._heard.get(self.begun)
        self.begun += 1
        if heard is not None:
            self._break(heard[1], heard[2])

    def refuse(self, call: str, failure: Exception) -> None:
        """Count a collective whose call is invalid, and tell all others."""
        if get_ident() != self._engine.threads.owner:
            self._engine.threads.enter()
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
        """Break the communicator: a collective that was begun cannot end."""
        if get_ident() != self._engine.threads.owner:
            self._engine.threads.enter()
        self._break(*self._describe(call, failure))

    def heard(self, source: int, octets: bytes | bytearray) -> None:
        """Handle a notice of rank ``source``."""
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
        # Between two groups a proc reaches its own group only through the other: all pass it on.
        self._tell(_BROKEN, code, why)

    def _tell(self, number: int, code: int, why: str) -> None:
        octets = json.dumps([number, code, why]).encode()
        for rank in self._others:
            # Of LCOs one that is freed already need not hear it.
            with suppress(MPIException):
                self._engine.send(self._context, rank, FAULT_TAG, OctetSource(octets), collective=True)


class Notice(OctetTarget):
    """The target of a notice for :class:`Faults`."""

    def __init__(self, faults: Faults, source: int) -> None:
        super().__init__()
        self._faults = faults
        self._source = source

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Pass the whole notice on."""
        self._faults.heard(self._source, self.data)
