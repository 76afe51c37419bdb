"""Connections between hosts after start-up: the higher host connects, the lower accepts (2.3.8).

Pairs within one client are left out, because their own MPI library connects them. The order of the
others is the loop of the clause.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

from impi.errors import PeerError, Truncated
from impi.job import Job
from impi.records import record

RANK_SIZE: Final = 4
"""Octets that the connecting side sends first: its host rank, in network order."""


@record
class Connect:
    """Connect to this host and send our own rank."""

    host: int


@record
class Accept:
    """Accept one connection, from whatever host comes first."""


DanceStep: TypeAlias = Connect | Accept


def dance_steps(job: Job, me: int) -> list[DanceStep]:
    """Return what host ``me`` does, in order.

    An :class:`Accept` is done once a *valid* connection (:func:`check_rank`) has come; an invalid
    one is closed and does not count.
    """
    client = job.hosts[me].client
    others = [host.index for host in job.hosts if host.client != client]
    return [Connect(host) if host < me else Accept() for host in others]


def encode_rank(me: int) -> bytes:
    """Return the first octets that the connecting host ``me`` sends."""
    return me.to_bytes(RANK_SIZE, "big")


def check_rank(job: Job, me: int, accepted: Collection[int], octets: bytes) -> int:
    """The host that an accepted connection says it is in its first four octets.

    Args:
        job: the job.
        me: our own host index.
        accepted: the hosts that have been accepted before.
        octets: what the connection began with.

    Raises:
        PeerError: it cannot be: close this connection, report it, and go on accepting.
    """
    if len(octets) < RANK_SIZE:
        raise Truncated("a connection ended before its host rank", clause="2.3.8", octets=octets)
    octets = octets[:RANK_SIZE]
    rank = int.from_bytes(octets, "big")
    if rank >= len(job.hosts):
        fault = f"the job has hosts 0 to {len(job.hosts) - 1} only"
    elif rank <= me:
        fault = f"only hosts above {me} connect to it"
    elif job.hosts[rank].client == job.hosts[me].client:
        fault = f"that is a host of client {job.hosts[me].client} too, whose hosts do not connect to each other"
    elif rank in accepted:
        fault = "that host has a connection already"
    else:
        return rank
    raise PeerError(f"a connection claims to be host {rank}, but {fault}", clause="2.3.8", octets=octets)
