"""Blocking messages between procs of one client: calls of their MPI library on user memory.

How it works: nothing is packed, queued or matched here. Each end may choose this route or
:class:`QueuedRoute` for each message: both make the same library calls, with one native tag (``2 *
tag``) and the same octets. A receive calls the library only while no receive is posted and no
message waits in the engine. So it is the oldest receive, and later ones get the messages
that the library leaves: MPI's order.

A shift doubles the tag of a send, because it refuses a tag that is not an integer, for nothing.

No call blocks in the library: :func:`impi.rank.engine.library_call.waiter` polls it, and in between
drives everything else of this proc.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from impi.protocol.semantics.constants import ANY_TAG
from impi.protocol.semantics.errors import error
from impi.rank.api.p2p.routes import QueuedRoute, Route, check_tag
from impi.rank.api.p2p.status import Status
from impi.rank.api.types.buffers import NATIVE, Plain, read
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.library_call import starter, waiter
from impi.rank.vendors.base import INT_MAX, LibraryStatus, NativeComm

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

_ONCE: Final = range(1)


def library_route(
    engine: Engine, context: Context, native: NativeComm, rank: int
) -> Route:
    """Return the route to a rank of the same client."""
    route = ProbingRoute if native.overruns else LibraryRoute
    return route(engine, context, native, rank)


class LibraryRoute(QueuedRoute):
    """Isend and Irecv of the library; leaves unusual datatypes and any source to the engine.

    A receive of any tag takes a matched probe of the library. The library's own wildcard would take
    the engine's messages between the same procs as well: their native tags are odd.
    """

    def __init__(
        self, engine: Engine, context: Context, native: NativeComm, rank: int
    ) -> None:
        super().__init__(engine, context, rank)
        self._plain = NATIVE  # inside a client nothing is converted
        self._native = native
        self._byte = native.byte
        self._failure = native.failure
        self._local = context.shadow.rank_of[rank]
        self._isend, self._irecv = native.comm.Isend, native.comm.Irecv
        self._improbe, self._any_tag = native.comm.Improbe, native.any_tag
        self._wait = waiter(engine, native.failure)
        self._start = starter(engine, context)
        self._posted_line, self._unexpected_line = context.matchers[0].lines()

    def send(self, spec: BufferSpec, tag: int) -> None:
        # The usual message passes one test. Everything else is sorted out by the engine's way, with
        # its checks and their sentences.
        data = read(spec, NATIVE, readonly=True)
        if (
            type(data) is not tuple
            or not 0 <= tag <= self._tag_ub
            or len(data[0]) > INT_MAX
        ):
            check_tag(self._engine, tag)
            return self._complete(self._started(data, tag))

        octets = data[0]
        place = [octets, len(octets), self._byte]

        # The testbed counts them: local messages must go by the library (IMPI 1.1).
        self._native.counter.messages += 1
        try:
            self._wait(self._isend(place, self._local, tag << 1).Test, place)
        except self._failure as found:
            raise self._native.translated(found) from None

        return None

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """Receive by the library and wait, unless an older receive or message is ours."""

        if (
            self._posted_line
            or self._unexpected_line
            or type(tag) is not int
            or not (0 <= tag <= self._tag_ub or tag == ANY_TAG)
        ):
            return super().receive(spec, tag, status)

        data = read(spec, NATIVE, readonly=False)
        if type(data) is not tuple or len(data[0]) > INT_MAX:
            return self._await(data, tag, status)

        if tag == ANY_TAG:
            return self._receive_probed(data, tag, status)

        return self._receive(data, tag, status)

    def _receive(self, data: Plain, tag: int, status: Status | None) -> None:
        octets = data[0]
        place = [octets, len(octets), self._byte]

        # Test and call in one entry: a turn of another thread could drain the message in between.
        request = self._start(self._irecv, place, self._local, tag + tag)
        # Another thread has posted, or drained a message, since the test
        if request is None:
            return self._await(data, tag, status)

        test = request.Test
        if status is not None:
            theirs = self._native.status()
            test = partial(test, theirs)

        try:
            self._wait(test, place)
        except self._failure:
            # The library knows that the message is too long, but not its length.
            if status is not None:
                status.fill(source=self._rank, tag=tag, nbytes=len(octets))

            raise error(
                "ERR_TRUNCATE",
                f"message from rank {self._rank} with tag {tag} truncated: it is longer than the {len(octets)} bytes "
                "that the receive buffer takes",
            ) from None

        if status is not None:
            status.fill(
                source=self._rank, tag=tag, nbytes=theirs.Get_elements(self._byte)
            )

        return None

    def _receive_probed(self, data: Plain, tag: int, status: Status | None) -> None:
        """Receive a message that a matched probe has found; its length is known first."""

        octets = data[0]
        theirs = self._native.status()  # of this call alone: other threads receive, too

        native_tag = self._any_tag if tag == ANY_TAG else tag + tag
        message = self._found(native_tag, theirs)
        if message is None:
            return self._await(data, tag, status)

        nbytes: int = theirs.Get_elements(self._byte)
        if nbytes > len(octets):
            # The engine's receive raises with the length of the message.
            self._hand_over(message, theirs)
            return self._await(data, tag, status)

        place = [octets, nbytes, self._byte]
        try:
            self._wait(message.Irecv(place).Test, place)
        except self._failure as found:
            raise self._native.translated(found) from None

        if status is not None:
            status.fill(source=self._rank, tag=theirs.tag >> 1, nbytes=nbytes)

        return None

    def _found(self, native_tag: int, theirs: LibraryStatus) -> Any:
        """Probe until the message is here; None: it is in the engine's queue, or takes long."""

        improbe, local = self._improbe, self._local
        posted, unexpected = self._posted_line, self._unexpected_line

        def look(times: range) -> object:
            for _ in times:
                message = improbe(local, native_tag, theirs)
                if message is None:
                    continue

                if not theirs.tag & 1:
                    return message

                # Any tag has found a message of the engine's own.
                self._hand_over(message, theirs)

            return None

        # The first polls are one entry: another thread's turn could take the message off the
        # library between test and probe.
        if (message := self._start(look, self._engine.turns.asks)) is not None:
            return message

        found: list[object] = []

        # Another thread's turn may drain the message meanwhile. Then the engine's queue has it, and
        # the caller receives it there.
        def ready() -> bool:
            if not (posted or unexpected) and (message := look(_ONCE)) is not None:
                found.append(message)

            return bool(posted or unexpected or found)

        return found[0] if self._engine.turns.ask(ready) and found else None

    def _hand_over(self, message: object, theirs: LibraryStatus) -> None:
        self._engine.match_probed(self._context, self._native.arrival(message, theirs))


class ProbingRoute(LibraryRoute):
    """Route for a library that writes beyond short buffers: a matched probe tells the length first.

    Open MPI 5.0 does, with a long message; the probe costs a call of the library more.
    """

    def _receive(self, data: Plain, tag: int, status: Status | None) -> None:
        self._receive_probed(data, tag, status)
