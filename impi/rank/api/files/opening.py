"""Opening of files (MPI 4.1, 14.2), and the proof that all procs see one file.

How it works: each proc tells the kernel that it runs on, and device and number of its file. If they
differ, the first proc writes a *token*, a hidden file beside the file, and all look for it. Where
it cannot write there, number, size and time of the files are compared.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.values.representation import own
from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.constants import (
    MODE_APPEND,
    MODE_CREATE,
    MODE_DELETE_ON_CLOSE,
    MODE_EXCL,
    MODE_RDONLY,
    MODE_RDWR,
    MODE_SEQUENTIAL,
    MODE_UNIQUE_OPEN,
    MODE_WRONLY,
)
from impi.rank.api.files.agreement import attempt, decided, gathered
from impi.rank.api.files.descriptor import Descriptor, delete, failure_of
from impi.rank.api.files.filestate import FileState, Opened
from impi.rank.api.files.pointers import companion_of
from impi.rank.api.handles import Errhandler, Info

if TYPE_CHECKING:
    from impi.rank.api.types.specs import FileName

IO_CLIENT: Final = "impi_io_client"
"""The hint: the client whose procs access the file for all."""
_WAYS: Final = {
    MODE_RDONLY: os.O_RDONLY,
    MODE_WRONLY: os.O_WRONLY,
    MODE_RDWR: os.O_RDWR,
}
# The first items of an identity (kernel, device, number): equal ones prove that two procs have one
# file. The other items, size and time, only allow it.
_SURE: Final = 3
_MORE: Final = MODE_DELETE_ON_CLOSE | MODE_UNIQUE_OPEN | MODE_APPEND | MODE_SEQUENTIAL
_KNOWN: Final = sum(_WAYS) | MODE_CREATE | MODE_EXCL | _MORE


@record
class _FileWish:
    """The arguments of one proc, and the form of values in its memory."""

    amode: int
    io_client: str
    form: bytes


@record
class _First:
    token: str
    made: bool
    start: int
    identity: tuple[object, ...]


def open_file(
    comm: Intracomm, filename: FileName, amode: int, info: Info, parent: Errhandler
) -> FileState:
    """Return the file of :meth:`File.Open`; raises like it."""

    if comm._live().is_inter:
        raise error("ERR_COMM", "a file is opened by an intracommunicator")

    # Calls on the file and on the communicator may come in any order, and it may be freed first.
    team = Intracomm._wrap(communicator.duplicate(comm._alive()))

    descriptors: list[Descriptor] = []
    try:
        opened, token = _opened(team, os.fsencode(filename), amode, info, descriptors)
    except BaseException:
        for descriptor in descriptors:
            descriptor.close()

        team.Free()
        raise

    companion = companion_of(opened.path, token)

    return FileState(
        team, opened, descriptors[0] if descriptors else None, companion, info, parent
    )


def _opened(
    team: Intracomm, path: bytes, amode: int, info: Info, descriptors: list[Descriptor]
) -> tuple[Opened, str]:
    # No proc leaves before all know of each other's mistakes: one that did would let the others
    # wait in the next collective call.
    wish = _FileWish(amode, info.get(IO_CLIENT, "") or "", own())
    _, failure = attempt(lambda: _check_mode(amode))

    wishes = gathered(team, wish, failure)
    if len({(each.amode, each.io_client) for each in wishes}) > 1:
        raise error(
            "ERR_NOT_SAME",
            f"procs open {os.fsdecode(path)} with different access modes or {IO_CLIENT}",
        )

    # One proc creates the file, then the others open it: with MODE_EXCL all but one would fail.
    users = _users(team, wish.io_client)
    root = users[0]
    first = decided(team, root, lambda: _open_first(path, amode, descriptors))

    blind = _blind(team, users, path, first, amode, descriptors)
    if blind:
        # A call that has failed leaves no file behind. One that existed before is not touched.
        if team.rank == root and first.made:
            with contextlib.suppress(MPIException):
                delete(path)

        raise error("ERR_NO_SUCH_FILE", _sentence(team, path, blind, root))

    alike = len({each.form for each in wishes}) == 1 and bool(wish.form)

    return Opened(path, amode, users, alike, first.start), first.token


def _blind(
    team: Intracomm,
    users: Sequence[int],
    path: bytes,
    first: _First,
    amode: int,
    descriptors: list[Descriptor],
) -> list[int]:
    """Open the file at all other users; return those that do not see the first one's."""

    seen, failure = True, None
    if team.rank in users[1:]:
        seen, failure = _open_next(path, amode, descriptors)

    identity = _identity(descriptors[0].number) if descriptors else first.identity
    rows = gathered(team, (seen, identity), failure)

    blind = [rank for rank, (saw, _) in enumerate(rows) if not saw]
    if not blind and len({identity[:_SURE] for _, identity in rows}) > 1:
        return _without_token(team, users, path, first.token, rows)

    return blind


def _check_mode(amode: int) -> None:
    if sum(bool(amode & way) for way in _WAYS) != 1 or amode & ~_KNOWN:
        raise error(
            "ERR_AMODE",
            "give exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR",
        )

    if amode & MODE_RDONLY and amode & (MODE_CREATE | MODE_EXCL):
        raise error(
            "ERR_AMODE",
            "MPI_MODE_CREATE and MPI_MODE_EXCL need a file that can be written",
        )

    if amode & MODE_RDWR and amode & MODE_SEQUENTIAL:
        raise error(
            "ERR_AMODE", "a file of MPI_MODE_SEQUENTIAL is either read or written"
        )


def _users(team: Intracomm, io_client: str) -> tuple[int, ...]:
    if not io_client:
        return tuple(range(team.size))

    engine, members = runtime.engine(), team._live().members

    users = tuple(
        rank
        for rank, world in enumerate(members)
        if str(engine.job.procs[world].client) == io_client
    )
    if not users:
        raise error(
            "ERR_INFO_VALUE",
            f"{IO_CLIENT}={io_client}: no proc that opens the file is of such a client",
        )

    return users


def _flags(amode: int) -> int:
    return next(flag for way, flag in _WAYS.items() if amode & way) | os.O_CLOEXEC


def _open_first(path: bytes, amode: int, descriptors: list[Descriptor]) -> _First:
    """Open the file for the first proc, and create it if the mode says so.

    Raises:
        Exception: the class of the system's failure, or ``ERR_BAD_FILE``: a directory.
    """

    name, made = os.fsdecode(path), False
    try:
        # O_EXCL even without MODE_EXCL: only so is it known whether this call has made the file.
        try:
            number = os.open(
                path,
                _flags(amode) | (os.O_CREAT | os.O_EXCL if amode & MODE_CREATE else 0),
                0o666,
            )
            made = bool(amode & MODE_CREATE)
        except FileExistsError:
            if amode & MODE_EXCL:
                raise

            number = os.open(path, _flags(amode))

        descriptors.append(Descriptor(number, name))
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise error("ERR_BAD_FILE", f"{name} is a directory")
    except OSError as failure:
        raise failure_of(failure, name) from failure

    # Measured by one proc for all (14.2.1: all pointers begin at the end of the file), as the file
    # may grow until the others have opened it.
    start = descriptors[0].size if amode & MODE_APPEND else 0

    return _First(secrets.token_hex(8), made, start, _identity(number))


def _open_next(
    path: bytes, amode: int, descriptors: list[Descriptor]
) -> tuple[bool, Exception | None]:
    """Open the file that another proc has; return whether it is there, and another failure."""
    try:
        descriptors.append(Descriptor(os.open(path, _flags(amode)), os.fsdecode(path)))
    except FileNotFoundError:
        return False, None
    except OSError as failure:
        return True, failure_of(failure, os.fsdecode(path))

    return True, None


def _identity(number: int) -> tuple[object, ...]:
    """Return kernel, device, number, size and time of change of a file; () of a device."""

    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        return ()

    # Device numbers mean something on one kernel only. Containers of one machine share the kernel,
    # and can share files.
    boot = ""
    with (
        contextlib.suppress(OSError),
        open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file,  # noqa: PTH123
    ):
        boot = file.read().strip()

    return (boot, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _without_token(
    team: Intracomm,
    users: Sequence[int],
    path: bytes,
    token: str,
    rows: Sequence[tuple[bool, tuple[object, ...]]],
) -> list[int]:
    """Return the users that do not see the token of the first one."""

    # The token is new in each call, so no client of NFS remembers that it was not there.
    root, beside = users[0], companion_of(path, token)

    def write() -> bool:
        try:
            os.close(
                os.open(
                    beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600
                )
            )
        except OSError:
            return False

        return True

    # A folder where nothing can be written. Number, size and time of change are those of the server
    # under NFS, while kernel and device differ.
    if not decided(team, root, write):
        return [rank for rank in users if rows[rank][1][2:] != rows[root][1][2:]]

    seen = gathered(team, os.access(beside, os.F_OK))
    if team.rank == root:
        delete(beside)

    return [rank for rank in users if not seen[rank]]


def _sentence(team: Intracomm, path: bytes, blind: Sequence[int], root: int) -> str:
    ranks = ", ".join(map(str, blind))
    who = f"rank {ranks} does" if len(blind) == 1 else f"ranks {ranks} do"
    client = runtime.engine().job.procs[team._live().members[root]].client

    return (
        f"{os.fsdecode(path)}: {who} not see the file that rank {root} has opened: put it on a file system of all "
        f"clients, or let one client access it for all by the hint {IO_CLIENT}, such as {client}"
    )
