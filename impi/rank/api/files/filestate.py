"""The object behind the handles of an open file: view, pointers, and accesses to the data.

How it works: each proc makes POSIX calls on a descriptor of its own, and messages only agree. An
access goes from the buffer to a *stream* of octets in the file's representation, from the view to
*pieces* of the file, and from there to the descriptor. Collective writes of short blocks go in two
phases (:mod:`.two_phase`), as do all collective calls if one client accesses the file for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from impi.base.records import record
from impi.protocol.semantics.errors import error
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.constants import (
    DISPLACEMENT_CURRENT,
    MODE_DELETE_ON_CLOSE,
    MODE_RDONLY,
    MODE_SEQUENTIAL,
    MODE_WRONLY,
    SEEK_CUR,
    SEEK_END,
    SEEK_SET,
)
from impi.rank.api.files.agreement import attempt, decided, gathered
from impi.rank.api.files.datareps import Representation, chosen, in_file
from impi.rank.api.files.descriptor import Descriptor, delete
from impi.rank.api.files.pointers import Explicit, Individual, Pointer, Shared
from impi.rank.api.files.two_phase import Exchange
from impi.rank.api.files.view import View
from impi.rank.api.handles import Errhandler, Info, State, initial
from impi.rank.api.types.buffers import UserBuffer, read_buffer
from impi.rank.api.types.datatypes import BYTE, Datatype

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

NATIVE: Final = "native"
# MPICH's hint, which Open MPI knows, too: enable, disable or automatic
_HINT: Final = "romio_cb_write"
SHORT: Final = 256
"""Average octets of a block, below which procs put collective writes together; measured
(docs/how-it-works/files.md)."""
_NOTHING: Final = memoryview(b"")


@record
class Opened:
    """The arguments and results of opening a file.

    ``users`` are the ranks with a descriptor, ``users[0]`` the one that acts for all. ``alike``:
    whether values have one form in the memory of all procs.
    """

    path: bytes
    amode: int
    users: tuple[int, ...]
    alike: bool
    start: int  # first position of all pointers, in octets


@record
class Viewed:
    """The arguments of the last Set_view, for Get_view."""

    etype: Datatype
    filetype: Datatype
    datarep: str


class FileState(State):
    """An open file.

    Args:
        team: a communicator of its procs, for this file alone.
        opened: how it was opened.
        descriptor: the file; None at procs for which others access it.
        companion: the path of the shared pointer.
        info: hints.
        parent: the error handler of new files.
    """

    __slots__ = (
        "atomic", "closed", "descriptor", "errhandler", "individual", "info",
        "opened", "representation", "shared", "split", "team", "together", "view", "viewed",
    )  # fmt: skip

    def __init__(
        self,
        team: Intracomm,
        opened: Opened,
        descriptor: Descriptor | None,
        companion: bytes,
        info: Info,
        parent: Errhandler,
    ) -> None:
        super().__init__()
        self.team, self.opened = team, opened
        self.descriptor = descriptor
        self.info = Info.Create(info)
        self.errhandler = initial(parent)
        self.individual = Individual(opened.start)
        self.shared = Shared(companion, opened.start)
        # The name of the call that has begun a split collective, and the octets it has moved.
        self.split: tuple[str, int] | None = None
        self.atomic = self.closed = False
        self.representation: Representation = chosen(NATIVE, alike=True)
        self.viewed = Viewed(BYTE, BYTE, NATIVE)
        # The default view (MPI 4.1, 14.3): the file as a row of bytes.
        self.view = View(0, BYTE.typemap, BYTE.typemap)
        # Whether collective writes go through impi.rank.api.files.two_phase
        self.together = self.served

    @property
    def served(self) -> bool:
        """Whether some procs access the file for others."""
        size: int = self.team.size
        return len(self.opened.users) < size

    @property
    def root(self) -> int:
        return self.opened.users[0]

    def own(self) -> Descriptor:
        """Return the descriptor; Exception ``ERR_UNSUPPORTED_OPERATION``: others have it."""
        if self.descriptor is None:
            raise error(
                "ERR_UNSUPPORTED_OPERATION",
                "by the hint impi_io_client procs of another client access the file, so this one takes part in "
                "collective calls only",
            )

        return self.descriptor

    def hint(self, info: Info) -> None:
        """Take hints; they count from the next :meth:`set_view` on."""
        self.info.update(info)

    # ---- view ------------------------------------------------------------------------------------

    def set_view(
        self, disp: int, etype: Datatype, filetype: Datatype, datarep: str, info: Info
    ) -> None:
        """Change the view and set all pointers to 0; collective."""

        # One proc's mistake is an error at all procs: a view that some have and some have not would
        # make every later collective call wrong.
        made, failure = attempt(lambda: self._made(disp, etype, filetype, datarep))
        average, unit = (made[1].average, made[1].etype.extent) if made else (0, 0)

        rows = gathered(self.team, (average, unit, datarep), failure)
        if len({row[1:] for row in rows}) > 1:
            raise error(
                "ERR_NOT_SAME",
                "procs give views of different data representations or extents of etypes",
            )

        assert made is not None, "a view of no proc has failed"

        self.representation, view = made
        if self.opened.amode & MODE_SEQUENTIAL:
            # One proc reads the pointer for all: another access could move it in between.
            now = decided(
                self.team,
                self.root,
                lambda: self.view.place(self.shared.position * self.unit),
            )
            view = View(now, view.etype, view.filetype)

        self.view = view
        self.viewed = Viewed(Datatype(etype), Datatype(filetype), datarep)
        self.hint(info)
        self.individual = Individual()
        self.shared.begin(0)
        # Decided by the views of all, which all know here: so all choose the same way.
        hint = self.info.get(_HINT, "automatic")
        short = any(0 < average < SHORT for average, _, _ in rows)
        wanted = hint == "enable" or (hint != "disable" and short)
        self.together = self.served or (wanted and self.team.size > 1)

    def _made(
        self, disp: int, etype: Datatype, filetype: Datatype, datarep: str
    ) -> tuple[Representation, View]:
        for datatype in (etype, filetype):
            datatype._live()
            datatype._check_committed()

        if self.opened.amode & MODE_SEQUENTIAL:
            if disp != DISPLACEMENT_CURRENT:
                raise error(
                    "ERR_ARG",
                    "the displacement in a sequential file must be MPI_DISPLACEMENT_CURRENT",
                )

            disp = 0  # the position is known once all are here

        representation = chosen(datarep, alike=self.opened.alike)

        view = View(
            disp,
            in_file(etype._live(), representation),
            in_file(filetype._live(), representation),
        )
        if not self.opened.amode & MODE_RDONLY:
            view.check_writable()

        return representation, view

    @property
    def unit(self) -> int:
        """Octets of an etype in the stream."""
        return self.view.etype.size

    # ---- pointers --------------------------------------------------------------------------------

    def sought(self, offset: int, whence: int, now: int) -> int:
        """Return the position after a Seek from position ``now``; Exception ``ERR_ARG``."""
        if whence == SEEK_SET:
            base = 0
        elif whence == SEEK_CUR:
            base = now
        elif whence == SEEK_END:
            # Rounded up: an etype that is cut by the end of the file counts.
            base = -(-self.view.octets_below(self.own().size) // self.unit)
        else:
            raise error(
                "ERR_ARG", f"{whence} is neither SEEK_SET, SEEK_CUR nor SEEK_END"
            )

        if base + offset < 0:
            raise error("ERR_ARG", f"position {base + offset} lies before the view")

        return base + offset

    def seek_shared(self, offset: int, whence: int) -> None:
        self.check_random()

        requests = gathered(self.team, (offset, whence))
        if len(set(requests)) > 1:
            raise error("ERR_NOT_SAME", f"procs seek differently: {requests}")

        now = self.shared
        target = decided(
            self.team,
            self.root,
            lambda: self.sought(
                offset, whence, now.position if whence == SEEK_CUR else 0
            ),
        )
        self.shared.begin(target)

    def explicit(self, offset: int) -> Pointer:
        self.check_random()
        return Explicit(offset)

    def own_pointer(self) -> Pointer:
        self.check_random()
        return self.individual

    def check_random(self) -> None:
        """Raise ``ERR_UNSUPPORTED_OPERATION`` if the file is sequential."""
        if self.opened.amode & MODE_SEQUENTIAL:
            raise error(
                "ERR_UNSUPPORTED_OPERATION",
                "a file of MPI_MODE_SEQUENTIAL has its shared pointer only",
            )

    # ---- data ------------------------------------------------------------------------------------

    def check_mode(self, *, writes: bool) -> None:
        """Raise ``ERR_READ_ONLY`` or ``ERR_ACCESS`` if the access mode forbids it."""
        if writes and self.opened.amode & MODE_RDONLY:
            raise error("ERR_READ_ONLY", "the file was opened with MPI_MODE_RDONLY")

        if not writes and self.opened.amode & MODE_WRONLY:
            raise error("ERR_ACCESS", "the file was opened with MPI_MODE_WRONLY")

    def _prepared(self, buf: BufferSpec, *, writes: bool) -> tuple[UserBuffer, int]:
        self.check_mode(writes=writes)
        buffer = read_buffer(buf, readonly=writes)

        etypes, rest = divmod(self.representation.nbytes(buffer), self.unit)
        if rest:
            raise error(
                "ERR_IO",
                f"the data is not made of whole etypes: {rest} of {self.unit} octets are left over",
            )

        return buffer, etypes

    def transfer(self, buf: BufferSpec, pointer: Pointer, *, writes: bool) -> int:
        """Access the file alone; return the octets of memory."""
        # No message: MPI lets a collective call return before the others have come, so this serves
        # _all calls, too, unless the access is exchanged.
        descriptor = self.own()
        buffer, etypes = self._prepared(buf, writes=writes)

        return self._accessed(
            descriptor, buffer, pointer.advance(etypes) * self.unit, writes=writes
        )

    def collectively(self, buf: BufferSpec, pointer: Pointer, *, writes: bool) -> int:
        """Access the file as all procs do; return the octets of memory."""

        # Reads go through messages only for procs without a descriptor: one call reads many near
        # pieces as it is.
        if not (self.together if writes else self.served):
            return self.transfer(buf, pointer, writes=writes)

        # A proc with a mistake goes on without data, since the others wait for it in the exchange.
        prepared, failure = attempt(lambda: self._prepared(buf, writes=writes))
        begin = pointer.advance(prepared[1]) * self.unit if prepared else 0

        return self._exchanged(
            prepared[0] if prepared else None, begin, failure, writes=writes
        )

    def ordered(self, buf: BufferSpec, *, writes: bool) -> int:
        """Access the file at the shared pointer, in the order of ranks; collective."""

        # One proc moves the pointer for all: n procs that lock the companion in turn would need n
        # rounds of the file system to keep the order of ranks.
        prepared, failure = attempt(lambda: self._prepared(buf, writes=writes))
        counts = gathered(self.team, prepared[1] if prepared else 0, failure)
        assert prepared is not None, "an access of no proc has failed"
        first = decided(self.team, self.root, lambda: self.shared.advance(sum(counts)))

        begin = (first + sum(counts[: self.team.rank])) * self.unit
        if self.served:
            return self._exchanged(prepared[0], begin, None, writes=writes)

        return self._accessed(self.own(), prepared[0], begin, writes=writes)

    def _exchanged(
        self,
        buffer: UserBuffer | None,
        begin: int,
        failure: Exception | None,
        *,
        writes: bool,
    ) -> int:
        exchange = Exchange(
            self.team, self.opened.users, self.descriptor, atomic=self.atomic
        )
        length = 0 if buffer is None else self.representation.nbytes(buffer)

        pieces = self.view.pieces(begin, length)
        if writes:
            octets, fault = attempt(
                lambda: self.representation.to_file(buffer) if buffer else _NOTHING
            )
            exchange.write(pieces, octets or _NOTHING, failure or fault)
            return 0 if buffer is None else buffer.count * buffer.datatype.typemap.size

        room = memoryview(bytearray(length))
        n = exchange.read(pieces, room, failure)

        return 0 if buffer is None else self.representation.from_file(room[:n], buffer)

    def _accessed(
        self, descriptor: Descriptor, buffer: UserBuffer, begin: int, *, writes: bool
    ) -> int:
        pieces = self.view.pieces(begin, self.representation.nbytes(buffer))
        if not pieces.offsets:
            return 0

        if writes:
            descriptor.write(
                pieces, self.representation.to_file(buffer), atomic=self.atomic
            )
            return buffer.count * buffer.datatype.typemap.size

        room = self.representation.landing(buffer)
        if room is None:
            room = memoryview(bytearray(self.representation.nbytes(buffer)))

        n = descriptor.read(pieces, room, atomic=self.atomic)

        return self.representation.from_file(room[:n], buffer)

    # ---- size and end ----------------------------------------------------------------------------

    def resize(self, size: int, *, reserve: bool) -> None:
        self.check_mode(writes=True)
        if size < 0:
            raise error("ERR_ARG", f"a file cannot have {size} octets")

        decided(
            self.team,
            self.root,
            lambda: self.own().reserve(size) if reserve else self.own().resize(size),
        )

    def sync(self) -> None:
        if self.descriptor is not None:
            self.descriptor.sync()

    def close(self) -> None:
        if self.split is not None:
            raise error("ERR_IO", f"{self.split[0]}_begin has no {self.split[0]}_end")

        # A Sync first (MPI 4.1, 14.2.2: as if it were called). All leave together, so that no proc
        # removes the companion or the file under another one's access.
        _, failure = attempt(self.sync)

        self.closed = True
        try:
            gathered(self.team, None, failure)
        finally:
            if self.descriptor is not None:
                self.descriptor.close()

            self.shared.close(remove=self.team.rank == self.root)

        if self.opened.amode & MODE_DELETE_ON_CLOSE:
            decided(self.team, self.root, lambda: delete(self.opened.path))

        self.team.Free()
