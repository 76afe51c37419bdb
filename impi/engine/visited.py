"""The part of the engine for procs of other jobs, which come and go while the job runs.

Each proc gives them ranks behind those of its own job, in the order in which it meets them. So
these ranks are known inside a proc only: on the wire ``(address, pid)`` names a proc (IMPI 3.2).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from impi.job import Host, Job, Proc
from impi.records import replaced

if TYPE_CHECKING:
    from impi.engine.channels import Channels
    from impi.engine.context import Context
    from impi.engine.lazy_dance import LazyDance
    from impi.engine.operations import Operation
    from impi.startup.challenge import Trust
    from impi.transfer import Transfer


class Visited:
    """Base of :class:`impi.engine.engine.Engine`."""

    job: Job
    transfer: Transfer
    _channels: Channels
    _contexts: dict[int, Context]
    _host_of: list[int]
    _hosts: tuple[int, ...]
    _flush: Callable[[int], None]
    _active: list[Operation]

    def __init__(self, job: Job) -> None:
        self.home = len(job.procs)
        """Procs of our job; higher ranks are of other jobs."""
        self.launched = {"vendor": "pure", "prefix": ""}
        """Options by which this proc's client was started."""
        self.names: tuple[str, str] | None = None
        """The server of names for this proc, as ``host:port``, and its key in hexadecimal."""
        self.dance: LazyDance | None = None
        """How hosts of this job are reached that have no channel yet; None: all have one."""
        self.encrypted = False
        """Whether channels of this job are encrypted."""
        self.clients_met: dict[tuple[bytes, int], int] = {}
        """Numbers of other jobs' clients here, by address and process id of their first proc."""

    def belongs(self, invitation: Mapping[str, object], trust: Trust | None) -> None:
        """Store what jobs that meet this one have to know: options of its client, and TLS."""
        self.launched = {name: str(invitation.get(name, "")) for name in ("vendor", "prefix")}
        told = invitation.get("names")
        self.names = (str(told[0]), str(told[1])) if isinstance(told, list) else None
        self.encrypted = trust is not None and bool(trust.tls)

    def connect_later(self, host: int, listener: socket.socket, address: str, trust: Trust | None) -> None:
        """Have channels with hosts of this lazy job at the first message (:mod:`.lazy_dance`)."""
        from impi.engine.lazy_dance import LazyDance  # other jobs need not load it

        self.dance = LazyDance(self.job, host, listener, address, trust, self._connected)
        self._channels.add_poller(self.dance.fileno(), self.dance.take_up, others=True)

    def _connected(self, host: int, sock: socket.socket) -> None:
        self._hosts += (host,)
        self.transfer.open(host)
        self._channels.admit(host, sock)

    def admit(
        self, hosts: Sequence[Host], procs: Sequence[Proc], sockets: dict[int, socket.socket], tag_ub: int
    ) -> None:
        """Add hosts of another job, numbered behind the known ones; see :meth:`Transfer.admit`."""
        self.job = replaced(self.job, hosts=(*self.job.hosts, *hosts), procs=(*self.job.procs, *procs))
        self._host_of += [proc.host for proc in procs]
        self._hosts += tuple(sockets)
        self.transfer.admit(self.job, hosts, tag_ub)
        for host, sock in sockets.items():
            self._channels.admit(host, sock)

    def part(self, context: Context) -> None:
        """Say FINI to procs of other jobs that no open communicator has, after ``context``."""
        if not self.has_others(context):
            return
        kept = {world for one in self._contexts.values() for world in (*one.members, *one.peers)}
        for world in sorted({*context.members, *context.peers} - kept):
            if world >= self.home and self.reaches(world):
                host = self._host_of[world]
                self.transfer.dismiss(host)
                self._flush(host)
                self._active.append(_Leaving(self, host))

    @property
    def parting(self) -> bool:
        """Whether a proc of another job may still get our FINI, or has not said its own yet.

        Communicators close some time after the program has freed them, the last one with FINI.
        """
        return any(isinstance(one, _Leaving) for one in self._active) or any(
            context.freed and self.has_others(context) for context in self._contexts.values()
        )

    def has_others(self, context: Context) -> bool:
        """Whether a proc of another job is in a communicator, in either group."""
        return len(self._host_of) > self.home and max(*context.members, *context.peers) >= self.home

    def reaches(self, world: int) -> bool:
        """Whether there is a way to a proc: it is of our job, or has a channel."""
        return world < self.home or self._host_of[world] in self.transfer.hosts

    def left(self, host: int) -> bool:
        """Close the channel of a host if both have said FINI; return whether they have."""
        if not self.transfer.parted(host):
            return False
        self.transfer.forget(host)
        self._channels.dismiss(host)
        self._hosts = tuple(other for other in self._hosts if other != host)
        return True


class _Leaving:
    """The end of a channel with a host of another job, as an operation of the engine."""

    __slots__ = ("_engine", "_host", "cancelled", "done")

    def __init__(self, engine: Visited, host: int) -> None:
        self._engine = engine
        self._host = host
        self.cancelled = False
        self.done = False

    def advance(self) -> bool:
        """Look whether both have said FINI."""
        self.done = self.done or self._engine.left(self._host)
        return self.done
