"""Attributes cached on communicators (MPI 7.7), predefined ones, and the four of IMPI 2.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from impi.api import runtime
from impi.api.constants import APPNUM, HOST, IO, LASTUSEDCODE, TAG_UB, UNIVERSE_SIZE, WTIME_IS_GLOBAL
from impi.api.handles.keyvals import CopyFn, DeleteFn, Keyvals
from impi.engine.context import Context
from impi.semantics.constants import PROC_NULL
from impi.semantics.errors import error, table

# Our own keys, below all our other keys: mpi4py has no names for them.
IMPI_CLIENT_SIZE = 0x494D5001
"""Number of clients in the communicator."""
IMPI_CLIENT_COLOR = 0x494D5002
"""The caller's client, counted from 0 among those in the communicator."""
IMPI_HOST_SIZE = 0x494D5003
"""Number of hosts in the communicator."""
IMPI_HOST_COLOR = 0x494D5004
"""The caller's host, counted from 0 among those in the communicator."""

_keyvals: Final = Keyvals()


class Comm(Protocol):
    """The part of :class:`impi.api.comms.comm.Comm` that this module needs."""

    def _live(self) -> Context: ...

    def Get_rank(self) -> int:
        """Return the rank of the caller."""
        ...


class Attributes:
    """The attributes of one communicator; errors and callbacks are those of :class:`Keyvals`."""

    def __init__(self, values: dict[int, Any] | None = None) -> None:
        self._values: dict[int, Any] = {} if values is None else values

    @staticmethod
    def create_keyval(copy_fn: CopyFn, delete_fn: DeleteFn) -> int:
        """Return a new key."""
        return _keyvals.create(copy_fn, delete_fn)

    @staticmethod
    def free_keyval(keyval: int) -> int:
        """Free a key; its cached values stay until their communicator is freed."""
        _check(keyval)
        return _keyvals.free(keyval)

    def get(self, comm: Comm, keyval: int) -> Any:
        """Return the value, or None."""
        predefined = _PREDEFINED.get(keyval)
        return _keyvals.get(self._values, keyval) if predefined is None else predefined(comm)

    def set(self, comm: Comm, keyval: int, value: Any) -> None:
        """Cache a value; an old one is deleted first."""
        _check(keyval)
        _keyvals.set(comm, self._values, keyval, value)

    def delete(self, comm: Comm, keyval: int) -> None:
        """Delete a value."""
        _check(keyval)
        _keyvals.delete(comm, self._values, keyval)

    def copy(self, comm: Comm) -> Attributes:
        """Return the attributes of a duplicate, as each key's copy function decides."""
        return Attributes(_keyvals.copied(comm, self._values))

    def clear(self, comm: Comm) -> None:
        """Delete all values, newest first, when the communicator is freed."""
        _keyvals.clear(comm, self._values)


def _check(keyval: int) -> None:
    if keyval in _PREDEFINED:
        raise error("ERR_KEYVAL", f"attribute {keyval} is predefined and cannot be changed")


def _index(comm: Comm, of_rank: Callable[[int], int]) -> tuple[int, int]:
    """Return the number of different values, and the index of the caller's in world rank order."""
    context = comm._live()
    values = sorted({of_rank(world) for world in context.members})
    return len(values), values.index(of_rank(runtime.engine().rank))


def _clients(comm: Comm) -> tuple[int, int]:
    procs = runtime.engine().job.procs
    return _index(comm, lambda world: procs[world].client)


def _hosts(comm: Comm) -> tuple[int, int]:
    procs = runtime.engine().job.procs
    return _index(comm, lambda world: procs[world].host)


_PREDEFINED: dict[int, Callable[[Comm], Any]] = {
    TAG_UB: lambda comm: runtime.engine().job.tag_ub,
    HOST: lambda comm: PROC_NULL,
    IO: lambda comm: comm.Get_rank(),
    WTIME_IS_GLOBAL: lambda comm: 0,
    UNIVERSE_SIZE: lambda comm: runtime.engine().home,
    APPNUM: lambda comm: runtime.engine().client,
    LASTUSEDCODE: lambda comm: table.last_used,
    IMPI_CLIENT_SIZE: lambda comm: _clients(comm)[0],
    IMPI_CLIENT_COLOR: lambda comm: _clients(comm)[1],
    IMPI_HOST_SIZE: lambda comm: _hosts(comm)[0],
    IMPI_HOST_COLOR: lambda comm: _hosts(comm)[1],
}
