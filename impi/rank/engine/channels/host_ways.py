"""Ways from a proc to all others: which host's channel leads there, and what goes through it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from impi.protocol.job import Host, Job, Proc
from impi.protocol.transfer import Transfer

if TYPE_CHECKING:
    from impi.protocol.startup.challenge import Trust
    from impi.rank.engine.channels.channels import Channels
    from impi.rank.engine.channels.lazy_dance import LazyDance


class Ways:
    """The transfer machine of a proc, its channels, and the hosts that these lead to.

    Args:
        job: the negotiated facts.
        rank: this proc's rank in MPI_COMM_WORLD.
        hosts: those to which there is a channel.
        agent: whether our host is a separate agent process: then the only channel leads there.
    """

    channels: Channels
    """Set once, after construction: the taker of the channels' messages needs these ways first."""

    def __init__(
        self, job: Job, rank: int, hosts: Sequence[int], *, agent: bool
    ) -> None:
        self.home = len(job.procs)
        """Number of procs of our job; higher ranks are of other jobs."""
        self.transfer = Transfer(job, rank, agent=agent)
        own = job.procs[rank].host
        self.host_of = [own if agent else proc.host for proc in job.procs]
        """The host whose channel leads to each world rank."""
        self.hosts = tuple(hosts)
        """Hosts to which there is a channel."""
        self.dance: LazyDance | None = None
        """Connects to hosts of this job that have no channel yet; None: all have one."""

    def connect_later(
        self,
        job: Job,
        host: int,
        listener: socket.socket,
        address: str,
        trust: Trust,
        tell: Callable[[str], None],
    ) -> None:
        """Have channels with hosts of this lazy job at the first message (:mod:`.lazy_dance`)."""
        # Other jobs need not load it
        from impi.rank.engine.channels.lazy_dance import LazyDance

        self.dance = LazyDance(
            job, host, listener, address, trust, self._connected, tell
        )
        # Others: a connection may come while the proc sleeps, so no wait may block in one channel.
        self.channels.add_poller(self.dance.fileno(), self.dance.take_up, others=True)

    def _connected(self, host: int, sock: socket.socket) -> None:
        self.hosts += (host,)
        self.transfer.hosts.open(host)
        self.channels.admit(host, sock)

    def admit(
        self,
        job: Job,
        hosts: Sequence[Host],
        procs: Sequence[Proc],
        sockets: dict[int, socket.socket],
        tag_ub: int,
    ) -> None:
        """Add hosts of another job, which stand in ``job`` now; see :meth:`Hosts.admit`."""

        self.host_of += [proc.host for proc in procs]
        self.hosts += tuple(sockets)

        self.transfer.hosts.admit(job, hosts, tag_ub)
        for host, sock in sockets.items():
            self.channels.admit(host, sock)

    def reaches(self, world: int) -> bool:
        """Whether there is a way to a proc: it is of our job, or has a channel."""
        return world < self.home or self.host_of[world] in self.transfer.hosts.channels

    def drop(self, host: int) -> None:
        self.hosts = tuple(other for other in self.hosts if other != host)

    def left(self, host: int) -> bool:
        """Close the channel of a host if both have said FINI; return whether they have."""

        # IMPI 3.8: a socket that is closed before could cost the other end octets that it has not
        # read.
        if not self.transfer.hosts.parted(host):
            return False

        self.transfer.hosts.forget(host)
        self.channels.dismiss(host)
        self.drop(host)

        return True
