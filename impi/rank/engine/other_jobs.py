"""Procs of other jobs, which come and go while the job runs.

Each proc gives them ranks behind those of its own job, in the order in which it meets them. So
these ranks are known inside a proc only: on the wire ``(address, pid)`` names a proc (IMPI 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impi.protocol.startup.challenge import Trust
    from impi.rank.engine.channels.host_ways import Ways
    from impi.rank.engine.context import Context
    from impi.rank.engine.matchers import Matching


class OtherJobs:
    """The other jobs that a proc meets, and the facts of ours that they need.

    Called within entries of the engine only.
    """

    def __init__(self, matching: Matching, ways: Ways) -> None:
        self._matching = matching
        self._ways = ways
        self.launched = {"vendor": "pure", "prefix": ""}
        """Options by which this proc's client was started."""
        self.names: tuple[str, str] | None = None
        """The server of names for this proc, as ``host:port``, and its key in hexadecimal."""
        self.encrypted = False
        """Whether channels of this job are encrypted."""
        self._key, self._proving = b"", 0
        self.clients_met: dict[tuple[bytes, int], int] = {}
        """Numbers of other jobs' clients here, by address and process id of their first proc."""

    def belongs(self, invitation: Mapping[str, object], trust: Trust) -> None:
        """Store the facts that jobs that meet this one need: options of its client, and TLS."""

        self.launched = {
            name: str(invitation.get(name, "")) for name in ("vendor", "prefix")
        }
        told = invitation.get("names")
        self.names = (str(told[0]), str(told[1])) if isinstance(told, list) else None
        self.encrypted = bool(trust.tls)
        self._key, self._proving = trust.key, len(trust.clients)

    def key_of(self, context: Context, nclients: int) -> bytes:
        """Return a secret that the procs of a communicator alone have; empty: there is none.

        That is the key of this job, unless procs of another are in there, or a client has no key.
        """
        if self.has_members(context) or self._proving < nclients:
            return b""

        return self._key

    def part(self, context: Context) -> None:
        """Say FINI to procs of other jobs that no open communicator has, after ``context``."""

        # MPI 4.1, 11.10.4: jobs are connected as long as a communicator joins them. FINI per
        # channel, and only for procs that no other open communicator has.
        if not self.has_members(context):
            return

        ways = self._ways

        kept = {
            world
            for one in self._matching.contexts.values()
            for world in (*one.members, *one.peers)
        }
        for world in sorted({*context.members, *context.peers} - kept):
            if world >= ways.home and ways.reaches(world):
                host = ways.host_of[world]
                ways.transfer.hosts.dismiss(host)
                ways.channels.flush(host)
                self._matching.active.append(_Leaving(ways, host))

    @property
    def parting(self) -> bool:
        """Whether a proc of another job may still get our FINI, or has not said its own yet.

        Communicators close some time after the program has freed them, the last one with FINI.
        """
        return any(isinstance(one, _Leaving) for one in self._matching.active) or any(
            context.api.freed and self.has_members(context)
            for context in self._matching.contexts.values()
        )

    def has_members(self, context: Context) -> bool:
        """Whether a proc of another job is in a communicator, in either group."""
        home = self._ways.home
        return (
            len(self._ways.host_of) > home
            and max(*context.members, *context.peers) >= home
        )


class _Leaving:
    """The end of a channel with a host of another job, as an operation of the engine."""

    __slots__ = ("_host", "_ways", "cancelled", "done")

    def __init__(self, ways: Ways, host: int) -> None:
        self._ways = ways
        self._host = host
        self.cancelled = False
        self.done = False

    def advance(self) -> bool:
        self.done = self.done or self._ways.left(self._host)
        return self.done
