"""The routes of an LCO: a short message to an open slot of another client is one packet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impi.api.p2p.routes import QueuedRoute, Route, check_tag
from impi.api.types.buffers import read
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.lco_traffic import LcoContext

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec


class SlotRoute(QueuedRoute):
    """A send slot: blocking sends of octets without conversion need no operation."""

    def __init__(self, engine: Engine, context: LcoContext, rank: int) -> None:
        super().__init__(engine, context, rank)
        self._slot = context.lco.send_slots[rank]

    def send(self, spec: BufferSpec, tag: int) -> None:
        """Send one packet, or start the send and wait for it."""
        slot, data = self._slot, read(spec, readonly=True)
        short = slot.short  # once: another thread may hear that the slot is gone
        if short is not None and not slot.waiting and type(data) is memoryview and short(tag, data, 0):
            slot.sent += 1
            return
        check_tag(self._engine, tag)
        self._finish(self._started(data, tag))


def route(engine: Engine, context: Context, rank: int) -> Route:
    """Return the route to a send slot."""
    assert isinstance(context, LcoContext)
    return SlotRoute(engine, context, rank)
