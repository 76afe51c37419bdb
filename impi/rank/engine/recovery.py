"""Revoked communicators, and agreements of procs, some of which may be lost (MPI Forum, ULFM).

How it works: the messages are notices on the collective context of MPI_COMM_WORLD, with tag
RECOVERY_TAG and JSON as content: so they reach all procs of the job, in both groups of an
intercommunicator, and whether or not the communicator is revoked, broken, or open at the receiver
yet. The content is ``["revoke", cid, why]``, or ``["agree", cid, number, ...]`` with a message of
:class:`impi.protocol.semantics.consensus.Agreement`. A client of IMPI 0.0 would take a notice for a
message of the program, so notices are sent only if all clients are ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from impi.protocol.collectives.tags import RECOVERY_TAG
from impi.protocol.semantics.consensus import Agreement, Message, Value
from impi.protocol.semantics.contexts import COMM_WORLD_CID
from impi.protocol.semantics.errors import MPIException, again, error
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.faults import Sender
from impi.rank.engine.operations import SendOperation

if TYPE_CHECKING:
    from impi.rank.engine.context import Context
    from impi.rank.engine.losses import Losses
    from impi.rank.engine.matchers import Matching
    from impi.rank.engine.turns import Turns

_REVOKE: Final = "revoke"
_AGREE: Final = "agree"


class Interruptible(Sender, Protocol):
    """An engine whose calls on a communicator can be made to fail."""

    matching: Matching
    turns: Turns
    losses: Losses


class Recovery:
    """One proc's part in revoking and agreeing; :class:`impi.rank.engine.engine.Engine` has one."""

    def __init__(self, engine: Interruptible) -> None:
        self.threads = engine.threads
        self._engine = engine
        self._agreements: dict[tuple[int, int], Agreement] = {}
        # Messages on agreements that have not begun here, by context id and number: votes come as
        # soon as another proc calls, and the leader may be the last to call.
        self._early: dict[tuple[int, int], list[tuple[int, Message]]] = {}
        self._numbers: dict[int, int] = {}  # Agreements that have begun, by context id
        self._revoked: dict[int, str] = {}  # The ids of revoked communicators, and why

    # ---- revoking ------------------------------------------------------------------------

    @entry
    def revoke(self, context: Context, why: str) -> None:
        """Revoke a communicator everywhere: each proc that hears of it first passes it on."""

        # Each proc tells all: the one that revoked first may be lost before it has told the last.
        # With n procs that is n^2 short messages, which only a failure costs.
        if context.cid in self._revoked:
            return

        self._revoked[context.cid] = why
        for world in sorted({*context.members, *context.peers} - {self._engine.rank}):
            self._tell(world, [_REVOKE, context.cid, why])

        self._interrupt(context, error("ERR_REVOKED", why))

    def _interrupt(self, context: Context, failure: MPIException) -> None:
        """Let all calls on a communicator fail, also those under way."""

        # The mark first: whatever wakes up below may call MPI at once, and must fail.
        engine = self._engine
        context.api.revoked = failure

        context.faults.lose(failure)
        for matcher in context.matchers:
            for operation in list(matcher.posted()):
                engine.matching.give_up(operation, failure)

        # An operation does not know its communicator, but the header of its packet has the id.
        for active in engine.turns.active:
            if (
                isinstance(active, SendOperation)
                and active.remote
                and active.remote.header.cid & ~1 == context.cid
            ):
                active.give_up(again(failure), context)

        engine.losses.interrupt(context)
        if context.api.when_revoked is not None:
            context.api.when_revoked()

    @any_thread
    def opened(self, context: Context) -> None:
        """Prepare a new communicator, which others may have revoked already."""
        if context.cid == COMM_WORLD_CID:
            context.takers[RECOVERY_TAG] = lambda source: RecoveryNotice(self, source)

        why = self._revoked.pop(context.cid, None)
        if why is not None:
            self.revoke(context, why)

    # ---- agreeing ------------------------------------------------------------------------

    @entry
    def agree(
        self, context: Context, value: Value, finish: Callable[[Value], None]
    ) -> AgreementOperation:
        """Begin the next agreement of a communicator's procs, on :func:`merge` of their values."""

        engine = self._engine
        # MPI orders the collective calls of a communicator, so all procs count alike, and the
        # number names the agreement without a message.
        number = self._numbers.get(context.cid, 0)
        self._numbers[context.cid] = number + 1
        key = (context.cid, number)
        # Both groups of an intercommunicator take part in one agreement; merge() keeps their flags
        # apart.
        members = {*context.members, *context.peers}
        agreement = self._agreements[key] = Agreement(
            engine.rank, members, engine.losses.failed, merge
        )
        operation = AgreementOperation(
            self,
            key,
            agreement,
            context,
            engine.matching.contexts[COMM_WORLD_CID],
            finish,
        )

        agreement.vote(value)
        for source, message in self._early.pop(key, ()):
            agreement.receive(source, message)

        self._send(key, agreement)
        if not operation.advance():
            engine.turns.track(operation)

        return operation

    @any_thread
    def lost(self, worlds: Sequence[int]) -> None:
        for key, agreement in list(self._agreements.items()):
            for world in worlds:
                agreement.fail(world)

            self._send(key, agreement)

    @any_thread
    def end(self, key: tuple[int, int]) -> None:
        self._agreements.pop(key, None)

    # ---- messages ------------------------------------------------------------------------

    @any_thread
    def heard(self, source: int, octets: bytes | bytearray) -> None:
        kind, cid, *rest = json.loads(octets)
        if kind == _REVOKE:
            context = self._engine.matching.contexts.get(cid)
            if context is not None:
                self.revoke(context, rest[0])
            else:
                self._revoked.setdefault(cid, rest[0])
        elif kind == _AGREE:
            number, *message = rest
            key = (cid, number)

            agreement = self._agreements.get(key)
            if agreement is not None:
                agreement.receive(source, message)
                self._send(key, agreement)
            # A lower number is that of an agreement that has ended here: its decision has gone out.
            elif number >= self._numbers.get(cid, 0):
                self._early.setdefault(key, []).append((source, message))

    def _send(self, key: tuple[int, int], agreement: Agreement) -> None:
        messages, agreement.out = agreement.out, []
        for dest, message in messages:
            self._tell(dest, [_AGREE, *key, *message])

    def _tell(self, world: int, message: Sequence[object]) -> None:
        # Not on the communicator itself: it may be revoked, or not be open there yet.
        if world not in self._engine.losses.failed:
            octets = OctetSource(json.dumps(message).encode())
            context = self._engine.matching.contexts[COMM_WORLD_CID]
            self._engine.send(context, world, RECOVERY_TAG, octets, collective=True)


class AgreementOperation:
    """An agreement under way, driven by the engine like a send."""

    def __init__(
        self,
        recovery: Recovery,
        key: tuple[int, int],
        agreement: Agreement,
        context: Context,
        world: Context,
        finish: Callable[[Value], None],
    ) -> None:
        self._recovery = recovery
        self._key = key
        self._agreement = agreement
        self._world = world
        self._finish = finish
        self.context = context
        self.done = False
        self.cancelled = False
        self.failure: MPIException | None = None
        world.count_waiting(1)  # votes may come from procs of our own client

    def advance(self) -> bool:
        if not self.done and self._agreement.decided:
            self._world.count_waiting(-1)
            self._recovery.end(self._key)
            try:
                self._finish(self._agreement.decision)
            except MPIException as failure:
                self.failure = failure  # the wait raises it
            finally:
                self.done = True  # last: another thread may read it meanwhile

        return self.done


class RecoveryNotice(OctetTarget):
    """The target of a notice for :class:`Recovery`."""

    def __init__(self, recovery: Recovery, source: int) -> None:
        super().__init__()
        self._recovery = recovery
        self._source = source

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        self._recovery.heard(self._source, self.data)


def merge(values: list[Value], failed: Collection[int]) -> Value:
    """Return one value of several; each has the same four items.

    ``flags``: an integer for each group, under the group's lowest rank; their bitwise AND.
    ``failed``: ranks known to have failed; the union. ``acked``: failed ranks that the program has
    acknowledged; the intersection. ``largest``: IMPI_max_cid (IMPI 4.3.1); the maximum.
    """
    flags: dict[str, int] = {}
    for value in values:
        for group, flag in value["flags"].items():
            flags[group] = flags.get(group, -1) & flag

    return {
        "flags": flags,
        "failed": sorted(set(failed).union(*(value["failed"] for value in values))),
        "acked": sorted(set.intersection(*(set(value["acked"]) for value in values))),
        "largest": max(value["largest"] for value in values),
    }
