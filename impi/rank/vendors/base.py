"""The contract of a vendor: move octets between the procs of one client.

A vendor never sees a type, an operation or a constant of ours. None of its own reaches the wire or
a pickle. Every implementation passes one contract suite (``tests/rank/vendors/test_base.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, Protocol

from impi.protocol.semantics.constants import INT_MAX
from impi.protocol.semantics.errors import MPIException

# fmt: off
__all__ = [
    "INT_MAX", "REDUCIBLE", "REDUCTIONS", "Arrival", "Counter", "LibraryStatus", "LocalCollectives", "LocalComm",
    "NativeComm", "Pending", "Sending", "Vendor",
]
# fmt: on

REDUCIBLE: Final = frozenset(
    ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"]
)
"""Elements that :class:`LocalCollectives` reduces: numpy's kind and octets, native order."""
REDUCTIONS: Final = frozenset(
    ["MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR"]
)
"""Operations of reductions, named as in MPI, which defines the elements of each."""


class Pending(Protocol):
    """A local send or receive under way."""

    def test(self) -> bool:
        """Drive the vendor and return whether it is complete; may be called again afterwards."""


class Sending(Pending, Protocol):
    """A local send under way."""

    @property
    def cancelled(self) -> bool:
        """Whether the message was taken back; known once the send is complete."""

    def cancel(self) -> None:
        """Take the message back if no receive has matched it, and if the vendor can."""


class Arrival(Protocol):
    """A message taken off the vendor's queue; it must be received exactly once."""

    source: int
    """Rank of the sender in the :class:`LocalComm`."""
    tag: int
    nbytes: int
    octets: memoryview | None
    """The message, if it is in this process; it may then be copied in place of :meth:`receive`."""

    def receive(self, buffer: memoryview) -> Pending:
        """Receive into ``buffer`` (>= ``nbytes`` writable octets); completes a synchronous send."""


class LocalCollectives(Protocol):
    """The library's own collectives, started by all members in one order.

    Buffers stay untouched until done. Ranks are those of the :class:`LocalComm`. Pieces of one
    operation have equal or known sizes; together they are, like every buffer, below 2^31 octets.
    """

    def barrier(self) -> Pending:
        """Start a barrier; done when all have started it."""

    def bcast(self, data: memoryview, root: int) -> Pending:
        """Broadcast ``data`` of the root into ``data`` elsewhere."""

    def gather(self, piece: memoryview, into: memoryview | None, root: int) -> Pending:
        """Gather all pieces in rank order into the root's ``into``."""

    def scatter(
        self, pieces: memoryview | None, into: memoryview, root: int
    ) -> Pending:
        """Scatter the root's pieces, one for each rank, in rank order."""

    def allgather(self, piece: memoryview, into: memoryview) -> Pending:
        """Gather all pieces in rank order, on every rank."""

    def allgatherv(
        self, piece: memoryview, into: memoryview, sizes: Sequence[int]
    ) -> Pending:
        """Gather all pieces, of ``sizes`` octets, in rank order, on every rank."""

    def alltoall(self, pieces: memoryview, into: memoryview) -> Pending:
        """Send a piece to each rank and receive one from each, in rank order."""

    def reduce(
        self,
        data: memoryview,
        into: memoryview | None,
        element: str,
        op: str,
        root: int,
    ) -> Pending:
        """Reduce :data:`REDUCIBLE` elements into the root's ``into``; op of :data:`REDUCTIONS`."""

    def allreduce(
        self, data: memoryview, into: memoryview, element: str, op: str
    ) -> Pending:
        """Reduce like :meth:`reduce`, into every ``into``."""

    def reduce_scatter(
        self,
        data: memoryview,
        into: memoryview,
        sizes: Sequence[int],
        element: str,
        op: str,
    ) -> Pending:
        """Reduce; each rank gets its part, of ``sizes`` elements, in rank order."""


class Counter(Protocol):
    """Counts sending calls."""

    messages: int


class LibraryStatus(Protocol):
    """A status of the MPI library, as its own mpi4py object."""

    source: int
    tag: int

    def Get_elements(self, datatype: object) -> int:
        """Return the number of basic elements that have come."""


class NativeComm(Protocol):
    """A communicator of the MPI library, as its own mpi4py object, on user memory.

    Callers poll requests with ``Test`` and add their sends to ``counter``. Blocking calls are
    allowed only in :class:`impi.rank.engine.job.progress_thread.ProgressThread`, which serves
    channels.
    """

    comm: Any
    """An ``mpi4py.MPI.Intracomm``."""
    byte: Any
    """The library's MPI_BYTE."""
    any_tag: int
    """The library's MPI_ANY_TAG."""
    failure: type[Exception]
    """The exception class of the library's calls."""
    counter: Counter
    overruns: bool
    """Whether a message too long for its buffer is written beyond it; probe first then."""
    multiple: bool
    """Whether the library provides MPI_THREAD_MULTIPLE."""

    def constant(self, name: str) -> Any:
        """Return the library's datatype or operation MPI_``name``; None: the library has none."""

    def reduction(self, op: str, element: str) -> tuple[Any, Any]:
        """Return the library's operation and datatype; :data:`REDUCTIONS`, :data:`REDUCIBLE`."""

    def status(self) -> LibraryStatus:
        """Return a new status of the library."""

    def arrival(self, message: object, status: LibraryStatus) -> Arrival:
        """Return a matched message of the library as in :meth:`LocalComm.improbe`."""

    def translated(self, failure: Exception) -> MPIException:
        """Return ``failure`` as our own exception."""


class LocalComm(Protocol):
    """The native communicator of one client's procs in an IMPI communicator."""

    rank: int
    size: int
    collectives: LocalCollectives | None
    """None: the vendor has no collectives."""
    native: NativeComm | None
    """None: the vendor is not an MPI library."""

    def isend(self, dest: int, tag: int, data: memoryview, *, sync: bool) -> Sending:
        """Start a send; ``data`` stays untouched until done. ``sync``: done when received."""

    def improbe(self) -> Arrival | None:
        """Take the next message off the queue, of any source and tag, in order of arrival.

        A message may be seen only after the next :meth:`Vendor.progress`.
        """

    def subset(self, ranks: Sequence[int], cid: int) -> LocalComm:
        """Create a communicator of the members ``ranks``, in that order; only they call this.

        ``cid``: context id of the shadowed IMPI communicator, unique on each member.
        """

    def duplicate(self, cid: int) -> tuple[LocalComm, Pending]:
        """Start a duplicate for the communicator ``cid``; usable once the operation is complete.

        Collective: several may be under way, in one order on all members.
        """

    def free(self) -> None:
        """Free the communicator; all its messages have been received."""


class Vendor(Protocol):
    """One proc's view of the transport of its client."""

    name: str
    world: LocalComm
    """All procs of this client, in the vendor's rank order."""
    tag_ub: int
    """The largest tag of :meth:`LocalComm.isend`."""
    messages: int
    """Messages sent by this proc through the library."""
    withdraw: Callable[[Arrival], bool]
    """Takes a message out of the queue of the engine, which sets this, for a sender that wants it
    back; False: a receive has matched it."""

    def allgather(self, data: bytes) -> list[bytes]:
        """Return every proc's ``data`` in rank order; blocks, for start-up. Lengths may differ."""

    def fileno(self) -> int | None:
        """Return a descriptor that is readable when :meth:`progress` has work; None: poll."""

    def progress(self) -> None:
        """Move octets if that needs a call. Never blocks."""

    def describe(self) -> dict[str, str]: ...

    def abort(self, code: int) -> NoReturn:
        """End every proc of this client at once."""

    def finalize(self) -> None:
        """Leave the library (collective); the last call."""
