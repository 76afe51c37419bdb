"""An MPI library in memory, as its mpi4py looks: for routes and strategies without a real library.

A :class:`MemoryLibrary` is one proc's view of the native communicator of its client. It takes its
messages from the queues of :class:`engine_world.MemoryComm`, so that routes through the library
meet those through the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from engine_world import MemoryComm, MemoryVendor

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.engine.engine import Engine

BYTE = "MPI_BYTE"


class LibraryError(Exception):
    """The exception of a call of the library."""


class _Status:
    def __init__(self) -> None:
        self.source = self.tag = -1
        self.nbytes = 0

    def Get_elements(self, datatype: str) -> int:
        assert datatype is BYTE
        return self.nbytes

    def fill(self, source: int, tag: int, nbytes: int) -> None:
        self.source, self.tag, self.nbytes = source, tag, nbytes


class _Request:
    def __init__(self, test: Callable[[_Status | None], bool]) -> None:
        self._test = test

    def Test(self, status: _Status | None = None) -> bool:
        return self._test(status)


class _Message:
    def __init__(self, arrival: Any) -> None:
        self.arrival = arrival

    def Irecv(self, place: list[Any]) -> _Request:
        buffer, count, datatype = place
        assert datatype is BYTE and count >= self.arrival.nbytes
        pending = self.arrival.receive(memoryview(buffer)[:count])
        return _Request(lambda status: pending.test())


class MemoryLibrary:
    """The ``mpi4py.MPI.Intracomm`` that routes and strategies use; see vendors' NativeComm.

    Args:
        comm: the native communicator, as the engine sees it.
        overruns: whether a receive that is too short is written over, as in Open MPI.
        meeting: where blocking collectives meet: shared by the members.
    """

    byte = BYTE
    any_tag = -1
    failure = LibraryError
    multiple = True

    def __init__(self, comm: MemoryComm, overruns: bool, meeting: Meeting) -> None:
        self.comm = self
        self.counter = comm
        self.overruns = overruns
        self.calls: list[str] = []
        self._comm = comm
        self._meeting = meeting

    def constant(self, name: str) -> Any:
        return name

    def status(self) -> _Status:
        return _Status()

    def arrival(self, message: _Message, status: _Status) -> Any:
        return message.arrival

    def translated(self, failure: Exception) -> MPIException:
        return error(str(failure), "found by the library")

    # mpi4py's names

    def Isend(self, place: list[Any], dest: int, tag: int) -> _Request:
        buffer, count, datatype = place
        assert datatype is BYTE
        self.calls.append("Isend")
        pending = self._comm.isend(dest, tag, memoryview(buffer)[:count], sync=False)
        return _Request(lambda status: pending.test())

    def Irecv(self, place: list[Any], source: int, tag: int) -> _Request:
        buffer, count, datatype = place
        assert datatype is BYTE
        self.calls.append("Irecv")
        done: list[int] = []

        def test(status: _Status | None) -> bool:
            if not done:
                arrival = self._comm.take(source, tag)
                if arrival is None:
                    return False
                if arrival.nbytes > count:
                    arrival.receive(memoryview(bytearray(arrival.nbytes)))
                    raise LibraryError("ERR_TRUNCATE")
                arrival.receive(memoryview(buffer)[: arrival.nbytes])
                done.append(arrival.nbytes)
            if status is not None:
                status.fill(source, tag, done[0])
            return True

        return _Request(test)

    def Improbe(self, source: int, tag: int, status: _Status) -> _Message | None:
        self.calls.append("Improbe")
        arrival = self._comm.take(source, tag)
        if arrival is None:
            return None
        status.fill(arrival.source, arrival.tag, arrival.nbytes)
        return _Message(arrival)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """A blocking collective: it returns once all members are in it."""

        def call(*args: Any) -> None:
            self.calls.append(name)
            self._meeting.enter(self._comm.rank, name, args)

        return call


class Meeting:
    """Blocking collectives of threads as members; the last to come does the work."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size, action=self._carry_out)
        self._args: dict[int, tuple[str, tuple[Any, ...]]] = {}
        self._failure: LibraryError | None = None

    def enter(self, rank: int, name: str, args: tuple[Any, ...]) -> None:
        self._args[rank] = (name, args)
        self._barrier.wait(20)
        if self._failure is not None:
            raise self._failure

    def _carry_out(self) -> None:
        names = {name for name, _ in self._args.values()}
        assert len(names) == 1, names
        args = [self._args[rank][1] for rank in range(len(self._args))]
        self._failure = None
        try:
            _COLLECTIVES[names.pop()](args)
        except LibraryError as failure:
            self._failure = failure


def _barrier(args: Sequence[Any]) -> None:
    assert not any(args)


def _bcast(args: Sequence[Any]) -> None:
    roots = {root for _, root in args}
    assert len(roots) == 1, roots
    octets = _octets(args[roots.pop()][0])
    for spec, _ in args:
        if len(_octets(spec)) != len(octets):
            raise LibraryError("ERR_TRUNCATE")
        _octets(spec)[:] = octets


def _allgather(args: Sequence[Any]) -> None:
    whole = b"".join(bytes(_octets(send)) for send, _ in args)
    for _, into in args:
        _octets(into)[:] = whole


_COLLECTIVES = {"Barrier": _barrier, "Bcast": _bcast, "Allgather": _allgather}


_WIDTHS = {BYTE: 1, "INT": 4, "DOUBLE": 8}


def _octets(spec: Any) -> memoryview:
    """``buf``, ``[buf, type]`` or ``[buf, count, type]``."""
    if not isinstance(spec, list):
        return memoryview(spec).cast("B")
    view = memoryview(spec[0]).cast("B")
    return view if len(spec) == 2 else view[: spec[1] * _WIDTHS[spec[2]]]


def give_library(
    engine: Engine, meetings: dict[int, Meeting], *, overruns: bool
) -> None:
    """Give the engine's later communicators a library; ``meetings`` is every proc's."""
    vendor = engine.vendor
    assert isinstance(vendor, MemoryVendor)

    def library(comm: MemoryComm) -> MemoryLibrary:
        return MemoryLibrary(
            comm, overruns, meetings.setdefault(comm.cid, Meeting(comm.size))
        )

    assert isinstance(vendor.world, MemoryComm)
    vendor.world.library = library
