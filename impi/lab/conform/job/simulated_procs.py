"""The simulated procs of a job: their channels, their credit, and the packets that came for them.

A :class:`Path` joins one simulated proc and one under test. :meth:`SimulatedProcs.read` cuts
the octets of all channels into packets. PROTOACKs are counted, sent and answered here,
unless a test takes that over (:attr:`Path.manual`). All other packets wait in
:attr:`Path.inbox` until a step takes them.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from impi.lab.conform.job.encoding import HEADER_SIZE, Fields, packet
from impi.lab.conform.job.wiring import RecordedWire, Wiring
from impi.lab.conform.outcomes import Broken
from impi.lab.dissect import (
    PACKET_TYPES,
    Layout,
    Packet,
    WireProc,
    carried,
    unpack_packet,
)

SCRIPT_TAG, REPORT_TAG = 30000, 30001
"""Tags of lines for interpreters, and of their reports."""
_UNCOUNTED: Final = ("PROTOACK", "FINI")


@dataclass(slots=True)
class Link:
    """The channel of one simulated host and one under test."""

    ours: int
    theirs: int
    wire: RecordedWire | None = None
    finished: bool = False  # FINI has come
    said_fini: bool = False
    # octets that are not a packet: the packets behind them cannot be found
    fault: Broken | None = None
    taken: int = 0  # octets of the stream that were cut into packets


@dataclass(slots=True)
class Path:
    """Both directions between a simulated proc and one under test."""

    ours: WireProc
    theirs: WireProc
    inbox: deque[Packet] = field(default_factory=deque)
    # PROTOACKs that came while ``manual``
    acks: deque[Packet] = field(default_factory=deque)
    outstanding: int = 0  # packets sent and not acknowledged
    unacknowledged: int = 0  # packets received since our last PROTOACK
    manual: bool = False  # the test sends and expects PROTOACKs itself

    def fields(self, kind: str, **more: int) -> Fields:
        """Return a header from here; ``lsrank`` is the rank in MPI_COMM_WORLD unless given."""
        ends = {
            "src": (self.ours.ipv6, self.ours.pid),
            "dest": (self.theirs.ipv6, self.theirs.pid),
        }
        return Fields(kind=kind, **ends, **{"lsrank": self.ours.rank, **more})  # type: ignore[arg-type]


class SimulatedProcs:
    """Sends and receives the packets of all simulated procs.

    Args:
        wiring: serves the channels.
        layout: the job.
        client: the number of the client under test.
        limits: the job's ``maxdatalen``, ``ackmark`` and ``hiwater``.
        patience_s: seconds for anything that is awaited.
    """

    def __init__(
        self,
        wiring: Wiring,
        layout: Layout,
        client: int,
        limits: tuple[int, int, int],
        patience_s: float,
    ) -> None:
        self.wiring = wiring
        self.layout = layout
        self.datalen, self.ackmark, self.hiwater = limits
        self.patience_s = patience_s
        self.ours = [proc for proc in layout.procs if proc.client != client]
        self.theirs = [proc for proc in layout.procs if proc.client == client]
        hosts = layout.hosts
        self.links = {
            # Only between the two sides: simulated hosts have no channels among
            # each other.
            (one.index, other.index): Link(one.index, other.index)
            for one in hosts
            for other in hosts
            if one.client != client and other.client == client
        }
        self.paths = {
            (one.rank, other.rank): Path(one, other)
            for one in self.ours
            for other in self.theirs
        }
        self._by_name = {(proc.ipv6, proc.pid): proc.rank for proc in layout.procs}
        # Called for each packet, before it goes to an inbox; True: it was taken.
        self.heard: Callable[[Path, Packet], bool] = lambda _path, _packet: False
        self.log: list[str] = []  # the conversation, a line for each packet
        self._began = time.monotonic()

    # -- octets in

    def read(self) -> None:
        """Cut the octets that have come on all channels into packets."""
        # A stream with a fault is not cut any further: behind it no boundary is known.
        for link in self.links.values():
            if link.wire is not None and link.fault is None:
                self._cut(link, link.wire)

    def _cut(self, link: Link, wire: RecordedWire) -> None:
        while len(wire.incoming) >= 4:
            (kind,) = struct.unpack_from(">I", wire.incoming)
            if kind >= len(PACKET_TYPES):
                link.fault = Broken(
                    f"a packet of type {kind}, which does not exist",
                    expected="a type from 0 to 7",
                    actual=str(kind),
                    # Asked of four octets already: a client under test may never
                    # send the rest of a header.
                    octets=bytes(wire.incoming[:HEADER_SIZE]),
                    clause="3.5",
                )
                return

            head = bytes(wire.incoming[:HEADER_SIZE])

            data = carried(head)
            # Half a packet waits for its rest. IMPI has no limit on how it is
            # cut into segments.
            if data < 0 or len(wire.incoming) < HEADER_SIZE + data:
                return

            now = time.time()
            octets = wire.take(HEADER_SIZE + data)
            found = unpack_packet(
                octets, 0, times=(now, now), hosts=(link.theirs, link.ours)
            )
            link.taken += len(octets)

            self._take(link, found)
            if link.fault is not None:
                return

    def _take(self, link: Link, found: Packet) -> None:
        # Noted before it is judged, so that a report shows also what was wrong.
        self._note("<-", found)
        if found.kind == "FINI":
            # FINI names no procs (IMPI 3.8): it belongs to the channel.
            link.finished = True
            return

        src, dest = self._by_name.get(found.src), self._by_name.get(found.dest)

        # Unknown procs get the number -1, which no path has.
        path = self.paths.get(
            (-1 if dest is None else dest, -1 if src is None else src)
        )
        # An agent of several procs must send each packet by the channel of its own hosts.
        if path is None or (path.theirs.host, path.ours.host) != (
            link.theirs,
            link.ours,
        ):
            link.fault = Broken(
                "a packet names procs that are not those of its channel",
                expected=f"procs of host {link.theirs} and host {link.ours}",
                actual=found.describe(self.layout),
                clause="3.2",
            )
            return

        if found.kind == "PROTOACK":
            # A PROTOACK stands for ackmark packets, whichever they were (3.6).
            path.outstanding -= self.ackmark
            if path.manual:
                path.acks.append(found)

            return

        # Every packet but PROTOACK counts, whether a step wants it or not (IMPI 3.6).
        path.unacknowledged += 1
        if not path.manual and path.unacknowledged >= self.ackmark:
            self.acknowledge(path)

        # Lines and reports of interpreters use the same credit as tests do, but no inbox.
        if not self.heard(path, found):
            path.inbox.append(found)

    # -- octets out

    def acknowledge(self, path: Path) -> None:
        """Send a PROTOACK (3.6)."""
        path.unacknowledged -= self.ackmark
        self.send(
            path,
            Fields(
                kind="PROTOACK",
                src=(path.ours.ipv6, path.ours.pid),
                dest=(path.theirs.ipv6, path.theirs.pid),
            ),
        )

    def send(
        self, path: Path, fields: Fields, data: bytes = b"", *, wait: bool = True
    ) -> None:
        """Send a packet, once there is credit for it (3.6); ``wait`` false: without credit, too.

        Raises:
            Broken: the PROTOACKs that it needs do not come.
        """

        # Without credit a packet must wait, unless the test wants to break just that.
        if fields.kind not in _UNCOUNTED:
            if wait and not self.until(lambda: path.outstanding < self.hiwater):
                raise Broken(
                    f"rank {path.theirs.rank} does not acknowledge the packets of rank {path.ours.rank}",
                    expected=f"a PROTOACK for every {self.ackmark} packets",
                    actual=f"none within {self.patience_s:g} s, {path.outstanding} packets after the last",
                    clause="3.6",
                )

            path.outstanding += 1

        octets = packet(fields, data)
        if fields.kind in PACKET_TYPES:
            self._note("->", unpack_packet(octets, 0, times=(0.0, 0.0), hosts=(0, 0)))

        self.raw(path, octets)

    def raw(self, path: Path, octets: bytes) -> None:
        link = self.links[path.ours.host, path.theirs.host]
        # A channel that is closed takes nothing more. Whoever waits for an
        # answer will tell.
        if link.wire is not None and not link.wire.closed:
            link.wire.send(octets)

    def finish(
        self, link: Link, more: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Send FINI (3.8); ``more`` has values of fields that it does not use."""
        if link.wire is not None and not link.said_fini:
            link.said_fini = True
            link.wire.send(packet(Fields(kind="FINI", **more)))  # type: ignore[arg-type]

    # -- waits

    def until(self, ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Serve all channels until ``ready``; False: it was not in time.

        Raises:
            Broken: a channel brought octets that are not a packet of IMPI.
        """

        def served() -> bool:
            # A fault of any channel ends the wait at once, whatever is awaited.
            self.read()
            for link in self.links.values():
                if link.fault is not None:
                    raise link.fault

            return ready()

        return self.wiring.wait(
            served, self.patience_s if timeout_s is None else timeout_s
        )

    def unclaimed(self) -> Iterator[tuple[Path, Packet]]:
        for path in self.paths.values():
            for found in path.inbox:
                yield path, found

    def release(self) -> None:
        """Take PROTOACKs back from tests, and send those that are owed."""
        for path in self.paths.values():
            # Acknowledge what tests have left, or the other side would stop at
            # its hiwater.
            path.manual = False
            while path.unacknowledged >= self.ackmark:
                self.acknowledge(path)

    def _note(self, arrow: str, found: Packet) -> None:
        told = found.describe(self.layout)
        if found.tag in (SCRIPT_TAG, REPORT_TAG) and found.kind in ("DATA", "DATASYNC"):
            text = found.payload.decode("ascii", "backslashreplace")
            rank = self._by_name.get(found.dest if arrow == "->" else found.src)
            told = f"rank {rank} {'is told' if arrow == '->' else 'reports'}: {text}"

        self.log.append(f"{time.monotonic() - self._began:8.3f} {arrow} {told}")
