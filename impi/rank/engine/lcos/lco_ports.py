"""Ports: short messages between LCOs of two clients, as ordinary messages of IMPI.

How it works: a port is a context id that one send slot alone may use: it names the rank of the
sender and the number of the slot there. So nothing is agreed on, and a message costs little more
than one between processes: 11 us, not 37 as a packet inside a message. The receiver opens a port at
its first message: it looks up the slot that is attached under that number, and gives the LCO's
matchers to the engine under that context id.

A message takes this way only if its slot is known to be open, and nothing else of the slot is under
way (:mod:`impi.protocol.slots.machine`), so it overtakes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impi.protocol.semantics.matching import Matcher
from impi.protocol.slots.machine import INLINE, Attached, Machine, SendSlot
from impi.protocol.transfer import Incoming
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation, SendOperation, TakenMessage

# Context ids of ports begin here (impi.protocol.semantics.contexts)
_PORTS: Final = 1 << 62


def _cid(world: int, number: int) -> int:
    """Return the context id of the port of a rank's send slot."""
    return _PORTS | world << 32 | number << 1


class _CountingMatcher:
    """The matcher of an LCO for one port: it counts what arrives there."""

    __slots__ = ("_attached", "_matcher")

    def __init__(
        self, matcher: Matcher[ReceiveOperation, TakenMessage], attached: Attached
    ) -> None:
        self._matcher = matcher
        self._attached = attached

    def meet(self, source: int, tag: int) -> ReceiveOperation | None:
        posted = self._matcher.meet(source, tag)
        self._attached.taken += posted is not None
        return posted

    def arrive(
        self, source: int, tag: int, message: TakenMessage
    ) -> ReceiveOperation | None:
        self._attached.taken += 1
        return self._matcher.arrive(source, tag, message)


class _Port(Context):
    """The receiver's side: messages of one send slot come in for the matchers of an LCO."""

    def __init__(self, attached: Attached, context: Context) -> None:
        super().__init__(
            _cid(attached.world, attached.number), (attached.world,), 0, None, ()
        )
        # To the program the source of a message is the receive slot.
        self.rank_of = {attached.world: attached.slot}
        # Its receives are posted in the LCO's own matchers, so messages of all ways meet there.
        one, two = (_CountingMatcher(matcher, attached) for matcher in context.matchers)
        self.matchers = (one, two)  # type: ignore[assignment]

    def sender_of(self, source: int) -> int | None:
        """Return None: the receives are the LCO's, which knows its senders."""
        return None

    def count_waiting(self, more: int) -> None:
        """Nothing, as in an LCO."""


class Ports:
    """The ports of one proc, of its send slots and of those that refer to its LCOs.

    Args:
        engine: of this proc.
        contexts: of the LCOs here, by their number.
    """

    machine: Machine
    """The machine of these LCOs; set once, as it has these ports."""

    def __init__(self, engine: Engine, contexts: Mapping[int, Context]) -> None:
        self._engine = engine
        self._contexts = contexts
        # The sender's side, by number of the send slot
        self._ways: dict[int, Context] = {}
        self._keep, engine.matching.unknown = engine.matching.unknown, self._open

    def reach(self, world: int) -> int:
        """Return the most octets of a message that goes to a port of a rank; -1: none can."""
        # A port is a context id on the wire, so it leads to other clients only. In a resilient job
        # no message goes past the matchers (impi.rank.engine.job.surviving).
        engine = self._engine
        if engine.job.procs[world].client == engine.client or engine.job.is_resilient:
            return -1

        return min(engine.job.maxdatalen, INLINE)

    def send(self, slot: SendSlot, tag: int, data: memoryview) -> SendOperation:
        engine, way = self._engine, self._ways.get(slot.number)
        if way is None:
            cid = _cid(engine.rank, slot.number)
            way = self._ways[slot.number] = Context(
                cid, (slot.world,), engine.rank, None, ()
            )
            # The next messages of the slot need not come here: the machine of slots calls the short
            # sender itself.
            slot.short = engine.short_sender(way, 0).send

        return engine.send(
            way, 0, tag >> 1, OctetSource(data), collective=bool(tag & 1)
        )

    def leave(self, slots: Sequence[SendSlot]) -> None:
        for slot in slots:
            self._ways.pop(slot.number, None)

    def close(self, world: int, number: int) -> None:
        port = self._engine.matching.contexts.get(_cid(world, number))
        if port is not None:
            self._engine.close(port)

    def discard(self, context: Context) -> None:
        """Drop the messages that came for an LCO by ports and that no receive has taken."""
        for matcher in context.matchers:
            for message in list(matcher.unexpected()):
                if message.remote is not None:
                    one = self._attached_of(message.remote)
                    if one is not None:
                        one.taken -= 1

                    matcher.discard(message)
                    # The engine forgets it
                    self._engine.receive_message(context, message, OctetTarget())

    def _attached_of(self, incoming: Incoming) -> Attached | None:
        return self.machine.attached(
            incoming.source, (incoming.header.cid & 0xFFFFFFFF) >> 1
        )

    def _open(self, incoming: Incoming) -> Context | None:
        """Open the port of a message; None: its LCO was freed, so it is dropped."""

        if incoming.header.cid < _PORTS:
            return self._keep(incoming)

        # The id is computed by the sender. It counts only if a send slot of that very rank is
        # attached under the number: else any proc could reach any LCO without its key.
        one = self._attached_of(incoming)
        if (
            one is None
            or incoming.header.cid & ~1 != _cid(one.world, one.number)
            or one.slot >= one.lco.receive_slots
        ):
            self._engine.ways.transfer.accept(incoming, None)
            return None

        context = self._contexts[one.lco.number]
        port = _Port(one, context)
        self._engine.open(port)
        # A notice that comes by a port is about the LCO's collectives.
        port.takers, port.faults = context.takers, context.faults

        return port
