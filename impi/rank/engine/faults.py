"""Refused and broken collectives: a proc that cannot take part tells the others, so none hangs.

How it works: each proc numbers the collectives of a communicator in call order: one operation, one
number. A proc whose call is invalid *refuses* the number, before it sends any message, and tells
all by a notice with the number and the reason.

- All procs refuse: the program is wrong everywhere alike, nothing was sent, and the job goes on.
- Some refuse, some take part: the next operation would take the messages of the latter for its own.
  So the communicator is *broken*, and the proc that finds this tells all others.

On a broken communicator every collective raises the class and text of the first error.
Point-to-point messages pass as before. Without this, MPI leaves the others waiting, and a testbed
that looks for hangs would be full of them (docs/decisions/errors.md).

Callers: :mod:`impi.rank.engine.collective` begins and abandons,
``impi.rank.api.collective.client_local`` expects and abandons, ``impi.rank.api.handles.failing``
refuses. A notice is a message of tag FAULT_TAG on the collective context id; :class:`Notice` passes
it to :meth:`Faults.heard`.

This is an extension of IMPI: it acts only after an error, and only if all clients run impi.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from impi.protocol.collectives.tags import FAULT_TAG
from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import LAST_PREDEFINED, MPIException, error
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.channels.payload import OctetSource, OctetTarget

if TYPE_CHECKING:
    from impi.protocol.job import Job
    from impi.rank.engine.channels.payload import Source
    from impi.rank.engine.channels.threads import Threads
    from impi.rank.engine.context import Context
    from impi.rank.engine.operations import SendOperation


_OTHER: Final = ERROR_CLASSES["ERR_OTHER"][0]
# In place of a number: the communicator is broken, whatever was refused
_BROKEN: Final = -1


class Sender(Protocol):
    """An engine, for parts of it that send messages of their own."""

    job: Job
    rank: int
    threads: Threads

    def send(
        self,
        context: Context,
        dest: int,
        tag: int,
        source: Source,
        *,
        synchronous: bool = ...,
        collective: bool = ...,
    ) -> SendOperation:
        """Start a send to rank ``dest``."""


class Agreed(Exception):
    """A failure that all procs of the communicator have reached together: no notice is sent."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure


class Faults:
    """One proc's record of refused collectives of one communicator."""

    def __init__(self, engine: Sender, context: Context) -> None:
        self.threads = engine.threads
        self._engine = engine
        self._context = context
        context.takers[FAULT_TAG] = lambda source: Notice(self, source)
        self._others = [
            rank
            for rank in range(len(context.peers))
            if context.is_inter or rank != context.rank
        ]
        self._works = engine.job.is_ours
        self.begun = 0
        """Collectives called here, refused ones included: the number of the next one."""
        # For each collective that was refused here: the procs not known to have refused it.
        self._refused: dict[int, set[int]] = {}
        # For each collective not yet called here: the procs that refused it, error code and reason.
        self._heard: dict[int, tuple[set[int], int, str]] = {}
        self._broken: tuple[int, str] | None = None
        # Whether all procs hear of that anyway: a member is lost, or the communicator revoked.
        self._heard_of_loss = False
        self.calm = True
        """Whether no refusal is known: nothing is broken, unsettled or heard of. Callers in a
        hurry ask for this alone, and may then count :attr:`begun` themselves."""

    @property
    @any_thread
    def settled(self) -> bool:
        """Whether all procs have refused the calls refused here; no collective begins before."""
        return not self._refused

    @property
    @any_thread
    def broken(self) -> bool:
        return self._broken is not None

    @any_thread
    def check(self) -> None:
        """Raise the MPIException of :meth:`failure` if the communicator is broken."""
        if self.broken:
            raise self.failure()

    @any_thread
    def failure(self) -> MPIException:
        """Return the exception that every collective of a broken communicator raises."""

        assert self._broken is not None, "no fault of this communicator is known"

        code, why = self._broken
        if self._heard_of_loss:
            return error(code, why)

        failure = error(
            code,
            f"{why}, so this communicator's collectives are out of step; Create_group can make another",
        )
        failure.told = True

        return failure

    @any_thread
    def lose(self, failure: MPIException) -> None:
        """Let every collective fail from now on: a member is lost, or it is revoked."""

        # No notice: impirun, or the revocation itself, tells every proc.
        self._broken = (int(failure), failure.detail)
        self._heard_of_loss = True
        self.calm = False
        self._refused.clear()
        self._heard.clear()

    @entry
    def expect(self) -> None:
        """Check that the next collective can succeed, before it begins.

        Raises:
            Exception: another proc has refused it, or the communicator is broken.
        """
        # For calls of the library: once inside they cannot be left, so the news is read before.
        heard = self._heard.get(self.begun)
        if heard is not None:
            self._break(heard[1], heard[2])

        self.check()

    @any_thread
    def begin(self) -> None:
        heard = self._heard.get(self.begun)

        self.begun += 1
        if heard is not None:
            self._break(heard[1], heard[2])

    @entry
    def refuse(self, call: str, failure: Exception) -> None:
        """Count a collective whose call is invalid, and tell all others."""

        number = self.begun

        self.begun += 1
        # A client of IMPI 0.0 would not know the tag
        if self.broken or not self._works:
            return

        code, why = self._describe(call, failure)
        self._tell(number, code, why)

        # Others may have refused it before us. Once all have, no message of this collective is left
        # over, and the job goes on as if it had not been called.
        missing = set(self._others) - self._heard.pop(number, (set(), 0, ""))[0]
        if missing:
            self._refused[number] = missing

        self.calm = not (self._refused or self._heard or self.broken)

    @entry
    def abandon(self, call: str, failure: Exception) -> None:
        """Break the communicator: a collective that was begun cannot end."""
        self._break(*self._describe(call, failure))

    @any_thread
    def heard(self, source: int, octets: bytes | bytearray) -> None:
        # Four cases by number: broken already; refused here, too; begun here; not called here yet.
        number, code, why = json.loads(octets)
        if number == _BROKEN:
            self._break(code, why)
        elif number in self._refused:
            self._refused[number].discard(source)
            if not self._refused[number]:
                del self._refused[number]
                self.calm = not (self._refused or self._heard)
        elif number < self.begun:
            # We took part in it: our messages are left over somewhere
            self._break(code, why)
        elif not self.broken:
            self.calm = False
            self._heard.setdefault(number, (set(), code, why))[0].add(source)

    def _describe(self, call: str, failure: Exception) -> tuple[int, str]:
        # Codes of the program's own exist in its process only, so the others get ERR_OTHER.
        engine, context = self._engine, self._context
        code = failure.error_class if isinstance(failure, MPIException) else _OTHER

        who = f"rank {context.rank}"
        if context.is_inter or context.rank != engine.rank:
            who += f" (rank {engine.rank} of MPI_COMM_WORLD)"

        kind = (
            "" if isinstance(failure, MPIException) else f"{type(failure).__name__}: "
        )

        return (
            code if code <= LAST_PREDEFINED else _OTHER,
            f"{who} failed in {call}: {kind}{failure}",
        )

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
            # The send raises if an LCO there is freed already; it need not hear the notice.
            with suppress(MPIException):
                self._engine.send(
                    self._context, rank, FAULT_TAG, OctetSource(octets), collective=True
                )


class Notice(OctetTarget):
    """The target of a notice for :class:`Faults`."""

    def __init__(self, faults: Faults, source: int) -> None:
        super().__init__()
        self._faults = faults
        self._source = source

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        self._faults.heard(self._source, self.data)
