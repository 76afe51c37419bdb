"""Partitioned point-to-point communication of Comm (MPI 4.1, 4.2).

The partitions of one start travel as one message, sent when the last one is ready. So sender and
receiver may have different numbers of them. The message uses the collective context with a tag
above those of collectives, and never matches other point-to-point messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from impi.protocol.collectives.tags import PARTITIONED_TAG
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.handles.failing import guarded
from impi.rank.api.handles.info import INFO_NULL, Info
from impi.rank.api.p2p.request import Prequest, Request, null_receive, null_send
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import read_buffer
from impi.rank.engine.context import Context
from impi.rank.engine.partitioned import PartitionedSend

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


@guarded
class Partitioned:
    """Partitioned calls; :class:`impi.rank.api.comms.comm.Comm` inherits them."""

    if TYPE_CHECKING:

        def _checked(self, dest: int, tag: int) -> Context: ...
        def _checked_source(self, source: int, tag: int) -> Context: ...

    def Psend_init(
        self,
        buf: BufferSpec,
        partitions: int,
        dest: int,
        tag: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        """Make a persistent send of ``partitions`` equal parts of ``buf``, ready one by one."""

        context = self._checked(dest, tag)
        message = _divided(buf, partitions, readonly=True)

        def start() -> Request:
            if dest == PROC_NULL:
                return null_send()

            operation = PartitionedSend(
                runtime.engine(),
                context,
                dest,
                _wire_tag(tag),
                marshalling.source(message),
                partitions,
            )
            runtime.engine().turns.track(operation)

            return Request._of(operation, None, message)

        return Prequest._persistent(start, partitions)

    def Precv_init(
        self,
        buf: BufferSpec,
        partitions: int,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        info: Info = INFO_NULL,
    ) -> Prequest:
        """Make a persistent receive of ``partitions`` equal parts of ``buf``; no wildcards."""

        if source < 0 and source != PROC_NULL:
            raise error(
                "ERR_RANK", "a partitioned receive needs the rank of its source"
            )

        if tag < 0:
            raise error("ERR_TAG", "a partitioned receive needs a tag")

        context = self._checked_source(source, tag)
        message = _divided(buf, partitions, readonly=False)

        def start() -> Request:
            if source == PROC_NULL:
                return null_receive()

            # A target is for one message: it keeps the place of its octets.
            target = marshalling.target(message)
            operation = runtime.engine().receive(
                context, source, _wire_tag(tag), target, collective=True
            )

            return Request._of(operation, None, message)

        return Prequest._persistent(start, partitions)


def _wire_tag(tag: int) -> int:
    highest = runtime.engine().job.tag_ub - PARTITIONED_TAG
    if tag > highest:
        raise error(
            "ERR_TAG",
            f"tag {tag} is not in 0..{highest}, which partitioned communication can have",
        )

    return PARTITIONED_TAG + tag


def _divided(buf: BufferSpec, partitions: int, *, readonly: bool) -> Any:
    """Read a buffer; the count of the result is per partition."""
    if partitions < 1:
        raise error("ERR_ARG", f"{partitions} is not a number of partitions")

    message = read_buffer(buf, readonly=readonly, blocks=partitions)

    return marshalling.resized(message, message.count * partitions)
