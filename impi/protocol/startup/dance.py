"""Connections between hosts after start-up: the higher host connects, the lower accepts (2.3.8).

Pairs within one client are left out, because their own MPI library connects them. The order of the
others is the loop of the clause.

A job with :attr:`impi.protocol.job.Job.is_lazy` has no dance. Two hosts connect when one of them
has the first message for the other, whichever that is (:class:`Encounters`). Both may connect at
once, so the accepting host answers with its own rank: only an answered connection is a channel.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

from impi.base.errors import PeerError, Truncated
from impi.base.records import record
from impi.protocol.job import Job

RANK_SIZE: Final = 4
"""Octets that the connecting side sends first: its host rank, in network order."""


@record
class Connect:
    """Connect to this host and send our own rank."""

    host: int


@record
class Accept:
    """Accept one connection, from any higher host that comes first."""


DanceStep: TypeAlias = Connect | Accept


def dance_steps(job: Job, me: int) -> list[DanceStep]:
    """Return the steps of host ``me``, in order.

    An :class:`Accept` is done once a *valid* connection (:func:`check_rank`) has come; an invalid
    one is closed and does not count.
    """
    # The loop of 2.3.8 over all hosts: connect below, accept above. Lower indices come first, so
    # every host connects before it accepts, and host 0, which only accepts, ends every chain of
    # waits.
    others = [host.index for host in job.hosts if host.client != job.hosts[me].client]
    return [Connect(host) if host < me else Accept() for host in others]


def encode_rank(me: int) -> bytes:
    """Return the first octets that the connecting host ``me`` sends."""
    return me.to_bytes(RANK_SIZE, "big")


def check_rank(job: Job, me: int, accepted: Collection[int], octets: bytes) -> int:
    """Return the host that an accepted connection claims to be, in its first four octets.

    Args:
        job: the job.
        me: our own host index.
        accepted: the hosts that have been accepted before.
        octets: the first octets of the connection.

    Raises:
        PeerError: it cannot be: close this connection, report it, and go on accepting.
    """

    if len(octets) < RANK_SIZE:
        raise Truncated(
            "a connection ended before its host rank", clause="2.3.8", octets=octets
        )

    # 2.3.8 says "a 32-bit value" and no octet order; all other integers are big-endian (1.2.1).
    octets = octets[:RANK_SIZE]

    rank = int.from_bytes(octets, "big")
    # Anybody can reach the port and send four octets. What cannot be a host of this job must not
    # take the place of one.
    if rank >= len(job.hosts):
        fault = f"the job has hosts 0 to {len(job.hosts) - 1} only"
    # In a lazy job either host of a pair may be the first that has a message. Our own rank fails at
    # the next test.
    elif rank <= me and not job.is_lazy:
        fault = f"only hosts above {me} connect to it"
    elif job.hosts[rank].client == job.hosts[me].client:
        fault = f"that is a host of client {job.hosts[me].client} too, whose hosts do not connect to each other"
    elif rank in accepted:
        fault = "that host has a connection already"
    else:
        return rank

    raise PeerError(
        f"a connection claims to be host {rank}, but {fault}",
        clause="2.3.8",
        octets=octets,
    )


class Encounters:
    """The hosts with which host ``me`` of a lazy job has a channel, or is about to have one.

    Both hosts of a pair may connect at once. Then the connection of the higher one stays, as in
    the dance; the lower one's is closed by the other without an answer.
    """

    def __init__(self, me: int) -> None:
        self._me = me
        self._calling: set[int] = set()
        self._met: set[int] = set()

    def has(self, host: int) -> bool:
        """Whether there is a channel, or one that is about to be answered."""
        return host in self._met

    def calls(self, host: int) -> bool:
        """Note that we want a channel; whether to connect: False, there is one, or it comes."""
        if host in self._met:
            return False

        # Calling is not yet a channel: the other host may be calling us at
        # this moment (:meth:`comes`).
        self._calling.add(host)

        return True

    def answered(self, host: int) -> None:
        """Note that our connection has the other host's answer: it is the channel."""
        self._calling.discard(host)
        self._met.add(host)

    def ended(self, host: int) -> None:
        """Note that our connection was closed without an answer, or could not be made."""
        self._calling.discard(host)

    def lost(self, host: int) -> None:
        """Note that their connection, which was to be the channel, could not be answered."""
        self._met.discard(host)

    def comes(self, host: int) -> bool:
        """Note a connection of another host, proved; whether it is the channel, to be answered."""
        # If both call, the lower host's connection must lose at both ends. The lower end sees ours
        # come and takes it; we, the higher end, refuse theirs here.
        if host in self._met or (host in self._calling and host < self._me):
            return False

        self._met.add(host)

        return True
