"""Windows whose memory several procs share (MPI 4.1, 12.2.3): procs of one client on one node.

How it works, the same for every vendor: a file in /dev/shm is the memory; ``Engine.neighbours`` are
the procs that can map it. The file has no name: the others open it as one of its creator's in
/proc. So nothing is left behind once the procs have ended, in whatever way.

Locks are those of the file (``fcntl``): the kernel takes them back from a proc that ends. Octet
``rank`` of the file stands for the lock of a rank, octet ``size + rank`` for accumulations into its
memory, whatever lies there.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import operator
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.constants import WIN_FLAVOR_SHARED
from impi.rank.api.handles.info import Info
from impi.rank.api.p2p.request import Request
from impi.rank.api.types.datatypes import BYTE
from impi.rank.api.windows.winstate import (
    WindowState,
    Wish,
    check_disp_unit,
    check_size,
    others,
    raise_first,
)

_FOLDER: Final = "/dev/shm"
_APART: Final = "alloc_shared_noncontig"
_POST_TAG: Final = 1
_COMPLETE_TAG: Final = 2
# First sleep between two looks at a lock; the next ones are longer
_NAP_S: Final = 20e-6
_LONGEST_NAP_S: Final = 1e-3


class SharedFile:
    """A file without a name that several procs have mapped.

    Args:
        descriptor: of the file, which this object owns.
        nbytes: its size.
    """

    def __init__(self, descriptor: int, nbytes: int) -> None:
        self._descriptor = descriptor
        # Locks of a file exclude other procs, not other threads of this one
        self._own = Lock()
        # The memory. It stays as long as anything refers to it, also after close().
        self.view = (
            memoryview(mmap.mmap(descriptor, nbytes))
            if nbytes
            else memoryview(bytearray())
        )

    @classmethod
    def create(cls, nbytes: int) -> SharedFile:
        """Create a file of ``nbytes`` octets, all 0. Raises OSError."""
        descriptor = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            if nbytes:
                # Else a later access would be a SIGBUS
                os.posix_fallocate(descriptor, 0, nbytes)

            return cls(descriptor, nbytes)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def open(cls, path: str, nbytes: int) -> SharedFile:
        """Map the file that another proc has at :attr:`path`. Raises OSError."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return cls(descriptor, nbytes)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def path(self) -> str:
        """The path by which other procs can open the file until :meth:`close`."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def try_lock(self, first: int, count: int, *, exclusive: bool) -> bool:
        # Never blocks: the holder may need this proc's messages before it unlocks.
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.lockf(self._descriptor, kind | fcntl.LOCK_NB, count, first)
        except BlockingIOError:
            return False

        return True

    def unlock(self, first: int, count: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, count, first)

    @contextlib.contextmanager
    def locked(self, octet: int) -> Iterator[None]:
        """Lock an octet for a moment. It may block: a holder of such a lock never waits."""
        with self._own:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, octet)
            try:
                yield
            finally:
                self.unlock(octet, 1)

    def close(self) -> None:
        """Close the file; its memory stays."""
        os.close(self._descriptor)


def allocate(size: int, disp_unit: int, info: Info, comm: Intracomm) -> SharedState:
    """Return the window of :meth:`Win.Allocate_shared` on several procs; raises like it."""

    size, disp_unit = operator.index(size), operator.index(disp_unit)

    neighbours = runtime.engine().neighbours
    for rank, world in enumerate(comm._live().members):
        if world not in neighbours:
            raise error(
                "ERR_RMA_SHARED",
                f"rank {rank} does not share memory with this process: first split the communicator by "
                "Split_type(COMM_TYPE_SHARED)",
            )

    # Calls on the window and on the communicator may come in any order, and it may be freed first.
    team = Intracomm._wrap(communicator.duplicate(comm._alive()))
    try:
        wishes: list[Wish] = team.allgather(_wish(size, disp_unit, info))
        raise_first([wish.mistake for wish in wishes], team.rank)
        offsets, nbytes = layout(
            [wish.size for wish in wishes], apart=all(wish.hint for wish in wishes)
        )

        return SharedState(team, _mapped(team, nbytes), offsets, wishes)
    except MPIException:
        team.Free()
        raise


def layout(sizes: Sequence[int], *, apart: bool) -> tuple[list[int], int]:
    """Return the first octet of each rank and the size of all; ``apart``: each begins at a page."""
    spans = (
        [-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes]
        if apart
        else sizes
    )
    *offsets, nbytes = accumulate(spans, initial=0)

    return offsets, nbytes


def _wish(size: int, disp_unit: int, info: Info) -> Wish:
    mistake = None
    try:
        check_size(size)
        check_disp_unit(disp_unit)
    except MPIException as failure:
        mistake = ("ERR_SIZE" if size < 0 else "ERR_DISP", failure.detail)

    return Wish(size, disp_unit, bool(info) and info.Get(_APART) == "true", mistake)


def _mapped(team: Intracomm, nbytes: int) -> SharedFile:
    """Create the file at rank 0 and map it everywhere."""

    file, mistake = None, None
    if team.rank == 0:
        file, mistake = _attempt(lambda: SharedFile.create(nbytes), nbytes)

    path: str = team.bcast(file.path if file is not None else "")
    # The file has no name. The path leads to it as long as rank 0 has it open, which the allgather
    # below makes sure of.
    if team.rank != 0 and path:
        file, mistake = _attempt(lambda: SharedFile.open(path, nbytes), nbytes)

    # A window exists at all procs or at none, so all hear of a mistake before anyone returns.
    mistakes = team.allgather(mistake)
    if any(mistakes) and file is not None:
        file.close()

    raise_first(mistakes, team.rank)
    assert file is not None, "the memory of no proc has failed"

    return file


def _attempt(
    make: Callable[[], SharedFile], nbytes: int
) -> tuple[SharedFile | None, tuple[str, str] | None]:
    try:
        return make(), None
    except OSError as failure:
        return None, (
            "ERR_NO_MEM",
            f"{nbytes} octets of shared memory in {_FOLDER}: {failure.strerror}",
        )


class SharedState(WindowState):
    """A window that several procs share.

    Args:
        team: a communicator of its procs, for this window alone.
        file: the memory of all.
        offsets: first octet of the memory of each rank.
        wishes: the arguments of each rank.
    """

    __slots__ = ("_file", "_offsets", "_sizes", "_team", "_under_way", "_units")

    def __init__(
        self,
        team: Intracomm,
        file: SharedFile,
        offsets: Sequence[int],
        wishes: Sequence[Wish],
    ) -> None:
        self._team, self._file, self._offsets = team, file, offsets
        self._sizes = [wish.size for wish in wishes]
        self._units = [wish.disp_unit for wish in wishes]
        self._under_way: list[Request] = []  # messages that end the epoch of Post
        rank = team.rank
        super().__init__(
            team._live().members,
            rank,
            self._part(rank),
            self._units[rank],
            WIN_FLAVOR_SHARED,
        )

    def _part(self, rank: int) -> memoryview:
        return self._file.view[
            self._offsets[rank] : self._offsets[rank] + self._sizes[rank]
        ]

    def segment(self, rank: int) -> tuple[memoryview, int]:
        if rank == PROC_NULL:
            rank = next((rank for rank, size in enumerate(self._sizes) if size), 0)

        return self._part(rank), self._units[rank]

    def exclusively(self, rank: int) -> contextlib.AbstractContextManager[object]:
        return self._file.locked(len(self.members) + rank)

    # ---- active target ---------------------------------------------------------------------------

    def fence(self, *, begins: bool) -> None:
        # Accesses are loads and stores, complete when they return: the barrier is all.
        self._team.Barrier()

    def post(self, ranks: Collection[int], *, checked: bool) -> None:
        # MPI_Win_post must not wait (MPI 4.1, 12.5.2). MPI_Win_wait and MPI_Win_test look at these
        # requests.
        told = others(ranks, self.rank)
        self._under_way = [self._receive(rank, _COMPLETE_TAG) for rank in told]
        self._under_way += [self._send(rank, _POST_TAG) for rank in told]

    def start(self, ranks: Collection[int], *, checked: bool) -> None:
        # MPI_Win_start may wait for the Posts, and here it must: loads and stores follow without a
        # call.
        Request.Waitall(
            [self._receive(rank, _POST_TAG) for rank in others(ranks, self.rank)]
        )

    def complete(self, ranks: Collection[int]) -> None:
        Request.Waitall(
            [self._send(rank, _COMPLETE_TAG) for rank in others(ranks, self.rank)]
        )

    def await_accesses(self) -> None:
        Request.Waitall(self._under_way)

    def accesses_done(self) -> bool:
        return Request.Testall(self._under_way)

    def _send(self, rank: int, tag: int) -> Request:
        return self._team.Isend(_nothing(), rank, tag)

    def _receive(self, rank: int, tag: int) -> Request:
        return self._team.Irecv(_nothing(), rank, tag)

    # ---- passive target --------------------------------------------------------------------------

    def lock(self, rank: int | None, *, exclusive: bool) -> None:
        first, count = self._octets(rank)
        _await(lambda: self._file.try_lock(first, count, exclusive=exclusive))

    def unlock(self, rank: int | None) -> None:
        self._file.unlock(*self._octets(rank))

    def _octets(self, rank: int | None) -> tuple[int, int]:
        return (0, len(self.members)) if rank is None else (rank, 1)

    # ---- end -------------------------------------------------------------------------------------

    def release(self) -> None:
        self._team.Free()
        self._file.close()


def _nothing() -> Any:
    return [bytearray(), BYTE]


def _await(ready: Callable[[], bool]) -> None:
    """Serve messages until ``ready()``, which nothing announces."""
    nap, engine = _NAP_S, runtime.engine()
    while not ready():
        if not engine.turns.progress():
            engine.threads.outside(engine.turns.doze, nap)

        nap = min(nap * 1.25, _LONGEST_NAP_S)
