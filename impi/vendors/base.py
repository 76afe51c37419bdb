"""What impi needs from an MPI library: to move octets between the procs of one client.

A vendor never sees a type, an operation or a constant of ours, and none of its own reaches the wire
or a pickle. Every implementation passes the same contract suite (``tests/vendors/test_contract.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, Protocol

from impi.semantics.constants import INT_MAX
from impi.semantics.errors import MPIException

# fmt: off
__all__ = [
    "INT_MAX", "REDUCIBLE", "REDUCTIONS", "Arrival", "Counter", "LocalCollectives", "LocalComm", "NativeComm",
    "Pending", "Vendor",
]
# fmt: on

REDUCIBLE: Final = frozenset(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"])
"""The elements that :class:`LocalCollectives` can reduce: numpy's kind and octets, in native order."""
REDUCTIONS: Final = frozenset(["MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR"])
"""The operations by which it can, as in MPI; which are defined for an element, MPI says."""


class Pending(Protocol):
    """A local send or receive under way."""

    def test(self) -> bool:
        """Whether it is complete (also drives the vendor's progress). May be asked again afterwards."""
        ...


class Arrival(Protocol):
    """A message taken off the vendor's queue; it must be received exactly once."""

    source: int
    """Rank of the sender in the :class:`LocalComm`."""
    tag: int
    nbytes: int

    def receive(self, buffer: memoryview) -> Pending:
        """Receive into ``buffer`` (at least ``nbytes`` writable octets); a synchronous send completes now."""
        ...


class LocalCollectives(Protocol):
    """The library's own collectives, started by all members in the same order; octets stay untouched until done.

    Ranks are those of the :class:`LocalComm`. All pieces of one operation have the same size, or known ones; together
    they, like every buffer, are less than 2^31 octets.
    """

    def barrier(self) -> Pending:
        """Done when all have started it."""
        ...

    def bcast(self, data: memoryview, root: int) -> Pending:
        """From ``data`` at the root into ``data`` elsewhere."""
        ...

    def gather(self, piece: memoryview, into: memoryview | None, root: int) -> Pending:
        """All pieces in rank order into the root's ``into``."""
        ...

    def scatter(self, pieces: memoryview | None, into: memoryview, root: int) -> Pending:
        """The root's pieces, in rank order, one for each."""
        ...

    def allgather(self, piece: memoryview, into: memoryview) -> Pending:
        """All pieces in rank order, everywhere."""
        ...

    def allgatherv(self, piece: memoryview, into: memoryview, sizes: Sequence[int]) -> Pending:
        """All pieces, of these numbers of octets, in rank order, everywhere."""
        ...

    def alltoall(self, pieces: memoryview, into: memoryview) -> Pending:
        """A piece from everybody for everybody, in rank order."""
        ...

    def reduce(self, data: memoryview, into: memoryview | None, element: str, op: str, root: int) -> Pending:
        """Into the root's ``into``, element by element, of :data:`REDUCIBLE` by one of :data:`REDUCTIONS`."""
        ...

    def allreduce(self, data: memoryview, into: memoryview, element: str, op: str) -> Pending:
        """The same everywhere."""
        ...

    def reduce_scatter(
        self, data: memoryview, into: memoryview, sizes: Sequence[int], element: str, op: str
    ) -> Pending:
        """To each rank its part of the reduction, of so many elements, in rank order."""
        ...


class Counter(Protocol):
    """Counts calls that send."""

    messages: int


class NativeComm(Protocol):
    """A communicator of the MPI library, through the library's own mpi4py, on the program's own memory.

    Callers ask a request by ``Test`` and count what they send in ``counter``. A blocking call is right only in
    :class:`impi.engine.progress_thread.ProgressThread`, which serves the channels meanwhile.
    """

    comm: Any
    """An ``mpi4py.MPI.Intracomm``."""
    byte: Any
    """The library's MPI_BYTE."""
    failure: type[Exception]
    """The exception of the library's calls."""
    counter: Counter
    overruns: bool
    """Whether a message longer than its receive buffer is written behind that; then messages are probed first."""
    multiple: bool
    """Whether the library gave MPI_THREAD_MULTIPLE."""

    def constant(self, name: str) -> Any:
        """The library's datatype or operation MPI_``name``; None: the library has none."""
        ...

    def status(self) -> Any:
        """A fresh status of the library."""
        ...

    def arrival(self, message: Any, status: Any) -> Arrival:
        """A matched message of the library, as :meth:`LocalComm.improbe` gives it."""
        ...

    def translated(self, failure: Exception) -> MPIException:
        """A ``failure`` as our own exception."""
        ...


class LocalComm(Protocol):
    """The native communicator of the procs of one client that belong to one IMPI communicator."""

    rank: int
    size: int
    collectives: LocalCollectives | None
    """None: the vendor has none of its own."""
    native: NativeComm | None
    """None: the vendor is no MPI library."""

    def isend(self, dest: int, tag: int, data: memoryview, *, sync: bool) -> Pending:
        """Start sending; ``data`` must stay untouched until done. ``sync``: done only once received."""
        ...

    def improbe(self) -> Arrival | None:
        """Take the next message off the queue, from any source with any tag, in the order of arrival."""
        ...

    def subset(self, ranks: Sequence[int], cid: int) -> LocalComm:
        """A new communicator of the members ``ranks`` (in that order), called by these members only.

        ``cid`` is the context id of the IMPI communicator it will shadow: unique among those of each member.
        """
        ...

    def duplicate(self, cid: int) -> tuple[LocalComm, Pending]:
        """Start to make another of the same members, to shadow the communicator ``cid``; used once that is complete.

        Called by all members; several may be under way, in the same order on each of them.
        """
        ...

    def free(self) -> None:
        """Give it back. All its messages have been received by then."""
        ...


class Vendor(Protocol):
    """One proc's view of the MPI library that runs its client."""

    name: str
    world: LocalComm
    """All procs of this client, in the vendor's rank order."""
    tag_ub: int
    """The largest tag that :meth:`LocalComm.isend` takes."""
    messages: int
    """How many messages this proc has sent through the library since the start."""

    def allgather(self, data: bytes) -> list[bytes]:
        """Everybody's ``data`` in rank order; blocking, used at start-up only. Lengths may differ."""
        ...

    def fileno(self) -> int | None:
        """A descriptor that is readable when :meth:`progress` has work, or None: the library must be polled."""
        ...

    def progress(self) -> None:
        """Move octets where that takes a call of its own. Never blocks."""
        ...

    def describe(self) -> dict[str, str]:
        """Library name, version and file, for the records."""
        ...

    def abort(self, code: int) -> NoReturn:
        """End every proc of this client at once."""
        ...

    def finalize(self) -> None:
        """Collective: leave the library. Nothing else may be called afterwards."""
        ...
