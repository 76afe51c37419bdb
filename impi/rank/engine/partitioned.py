"""A partitioned send: one message whose octets become ready part by part (MPI 4.1, 4.2).

It is sent when the last part is ready. MPI allows that, and the receiver may then have other
partitions than the sender.
"""

from __future__ import annotations

from impi.protocol.semantics.errors import error
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.channels.payload import Source
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import SendOperation


class PartitionedSend:
    """A send that begins when all its partitions are ready."""

    cancelled = False

    def __init__(
        self,
        engine: Engine,
        context: Context,
        dest: int,
        tag: int,
        source: Source,
        partitions: int,
    ) -> None:
        self.threads = engine.threads
        self._engine = engine
        self._context = context
        self._dest = dest
        self._tag = tag
        self._source = source
        self._missing = set(range(partitions))
        self._sending: SendOperation | None = None
        self.done = False

    @entry
    def ready(self, partition: int) -> None:
        """Mark a partition as ready; MPIException ERR_ARG: ready already, or it does not exist."""
        if partition not in self._missing:
            raise error(
                "ERR_ARG", f"partition {partition} is ready already, or does not exist"
            )

        self._missing.remove(partition)
        if not self._missing:
            # On the collective id with a tag of its own, so that it meets no other message
            # (impi.rank.api.p2p.psend).
            self._sending = self._engine.send(
                self._context, self._dest, self._tag, self._source, collective=True
            )

    @any_thread
    def advance(self) -> bool:
        self.done = self._sending is not None and self._sending.advance()
        return self.done
