"""The hosts of other clients as one process sees them: their channels, and paths to their procs.

How it works: packets name procs by (address, pid) (IMPI 3.2), the engine names them by rank in
MPI_COMM_WORLD, sockets belong to hosts. This module has the tables between the three, and ``busy``:
the hosts for which something is queued, so that the engine need not ask every channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from impi.base.errors import LocalProtocolError
from impi.protocol.job import Host, Job, Proc
from impi.protocol.transfer.channel import Channel, host_name
from impi.protocol.transfer.path import Path


class Hosts:
    """Channels by global host index, paths by rank; hosts come and go.

    With ``agent`` the only channel leads to the host of ``me``, a separate process that routes.
    """

    def __init__(self, job: Job, me: Proc, *, agent: bool) -> None:
        self.job = job
        self.me = me
        self.tag_ub = job.tag_ub
        """The largest tag that any proc may send."""
        self.channels: dict[int, Channel] = {}
        self.paths: dict[int, Path] = {}
        self.ranks = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
        """Ranks of the procs of the job by address and pid, which name them in packets."""
        self.reverse: dict[bytes, Path] = {}
        """Paths by the 48 octets that name both ends in a header of the peer."""
        self.busy: set[int] = set()
        """Hosts for which something is queued, even if held back for credit; read only."""

        # In a lazy job :meth:`open` adds each channel with the first message. Otherwise all exist
        # from the start, as in the dance (2.3.8).
        remote = (
            []
            if job.is_lazy
            else [host for host in job.hosts if host.client != me.client]
        )
        if agent:
            own = job.hosts[me.host]
            self._add(
                own,
                [rank for host in remote for rank in host.procs],
                f"our agent, {host_name(own)}",
            )
        else:
            for host in remote:
                self._add(host, host.procs, host_name(host))

    def _add(self, host: Host, procs: Iterable[int], name: str) -> None:
        paths = [
            Path(self.me, self.job.procs[rank], host.index, self.job) for rank in procs
        ]

        self.channels[host.index] = Channel(host, paths, name)
        for path in paths:
            self.paths[path.rank] = path
            self.reverse[path.reverse] = path

    def admit(self, job: Job, hosts: Sequence[Host], tag_ub: int) -> None:
        """Add channels with hosts of another job.

        Args:
            job: our job, with these hosts and their procs behind its own.
            hosts: the new ones; every one of their procs has a path from now on.
            tag_ub: the largest tag that their procs may send.
        """
        self.job = job

        # The other job agreed on a limit of its own, by which its procs may send to us.
        self.tag_ub = max(self.tag_ub, tag_ub)
        for host in hosts:
            self._add(host, host.procs, host_name(host))
            for proc in (job.procs[rank] for rank in host.procs):
                self.ranks[proc.ipv6, proc.pid] = proc.rank

    def open(self, index: int) -> None:
        """Add the channel with a host of a lazy job, to which this process is connected now."""
        host = self.job.hosts[index]
        self._add(host, host.procs, host_name(host))

    def dismiss(self, host: int) -> None:
        """Say FINI to a host once all queued packets have gone (IMPI 3.8)."""

        channel = self.channel(host)
        if channel.closed:
            return

        # Busy even with empty queues: the engine asks busy hosts only, and
        # FINI is not queued but due.
        channel.finishing = channel.ending = True
        self.busy.add(host)

    def parted(self, host: int) -> bool:
        """Whether FINI has gone and come on the channel of a host: :meth:`forget` may follow."""
        return self.channel(host).closed

    def forget(self, host: int) -> None:
        """Remove the channel of a host that has :meth:`parted`, and the paths of its procs."""
        self.busy.discard(host)
        for path in self.channels.pop(host).paths:
            del self.paths[path.rank], self.reverse[path.reverse]

    def abandon(self, host: int) -> None:
        """Behave as if FINI had gone and come: the host is lost, and the job goes on without.

        Messages that were to go there are never done; those that have come whole can be accepted.
        """

        # Not forget(): the engine still asks for the path of a lost proc. And `lost` lets packets
        # that were read before be looked at, although FINI seems to have come: they may hold whole
        # messages, which MPI lets the program receive.
        channel = self.channel(host)
        channel.fini_sent = channel.fini_received = channel.ending = channel.lost = True
        channel.close()
        self.busy.discard(host)

    def channel(self, host: int) -> Channel:
        """Return the channel with a host. Raises LocalProtocolError: there is none."""
        try:
            return self.channels[host]
        except KeyError:
            raise LocalProtocolError(
                f"there is no channel with host {host}: not a host of another client"
            ) from None

    def path(self, rank: int) -> Path:
        """Return the path to a rank of another client. Raises LocalProtocolError: there is none."""
        try:
            return self.paths[rank]
        except KeyError:
            raise LocalProtocolError(
                f"rank {rank} is not a process of another client, so no packets go there"
            ) from None

    def queued(self, path: Path) -> None:
        channel = self.channels[path.host]
        # An acknowledgement that is not awaited any more: both FINIs are said
        if channel.closed:
            path.lanes.acks.clear()
            return

        channel.work += 1
        channel.wake(path)
        self.busy.add(path.host)

    def refresh(self, channel: Channel) -> None:
        if channel.idle:
            self.busy.discard(channel.host.index)
        else:
            self.busy.add(channel.host.index)
