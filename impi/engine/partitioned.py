"""A partitioned send: one message whose octets become ready part by part (MPI 4.1, 4.2)."""

from __future__ import annotations

from threading import get_ident

from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.operations import SendOperation
from impi.engine.payload import Source
from impi.semantics.errors import error


class PartitionedSend:
    """A send that begins when all its partitions are ready."""

    cancelled = False

    def __init__(self, engine: Engine, context: Context, dest: int, tag: int, source: Source, partitions: int) -> None:
        self._engine = engine
        self._context = context
        self._dest = dest
        self._tag = tag
        self._source = source
        self._missing = set(range(partitions))
        self._sending: SendOperation | None = None
        self.done = False

    def ready(self, partition: int) -> None:
        """Mark a partition as ready; MPIException ERR_ARG: ready already, or it does not exist."""
        if get_ident() != self._engine.threads.owner:
            self._engine.threads.enter()
        if partition not in self._missing:
            raise error("ERR_ARG", f"partition {partition} is ready already, or does not exist")
        self._missing.remove(partition)
        if not self._missing:
            self._sending = self._engine.send(self._context, self._dest, self._tag, self._source, collective=True)

    def advance(self) -> bool:
        """Whether the message is sent."""
        self.done = self._sending is not None and self._sending.advance()
        return self.done
