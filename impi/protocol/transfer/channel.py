"""One channel: its output in order, and the state of finalization at both ends.

How it works: packets wait in the lanes of their :class:`~.path.Path`. Paths that may send stand in
a round (``_ready``) and give one packet each in turn. A packet that leaves its lane becomes a
:class:`~.path.Flight`; flights are written in order, as views of the caller's memory. PROTOACKs
wait in ``_urgent`` and go before every flight that TCP has not begun (IMPI 3.6).

Packets leave their lanes late, when about 1 MiB is in flight at most: a packet in a lane can still
be cancelled, overtaken by a PROTOACK, or take its turn with others. A flight cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from impi.base.errors import LocalProtocolError
from impi.protocol.job import Host
from impi.protocol.transfer.message import Outgoing
from impi.protocol.transfer.path import Flight, Path
from impi.protocol.transfer.reader import Reader
from impi.protocol.wire import addresses
from impi.protocol.wire.packets import Header, PacketType, pack_header

_MOST_VIEWS: Final = 64  # Views of one writing system call; every kernel takes more

# Octets in flight that keep TCP busy; later packets stay where order and fate can still change.
_ENOUGH: Final = 1 << 20

_FINI: Final = pack_header(Header(int(PacketType.FINI)))


def host_name(host: Host) -> str:
    """Return the name of a host in messages: ``host 3 of client 1 (10.0.0.2 port 4711)``."""
    return f"host {host.index} of client {host.client} ({addresses.to_text(host.ipv6)} port {host.port})"


class Channel:
    """The connection with one remote host, or with our own agent, seen from one local process."""

    __slots__ = (
        "_fini",
        "_flights",
        "_octets",
        "_ready",
        "_urgent",
        "ending",
        "fini_received",
        "fini_sent",
        "finishing",
        "host",
        "lost",
        "name",
        "paths",
        "reader",
        "work",
    )

    def __init__(self, host: Host, paths: Iterable[Path], name: str) -> None:
        self.host = host
        self.name = name
        self.paths = tuple(paths)
        self.reader = Reader()
        self.work = 0
        """Items queued and not yet handed to TCP: acknowledgements, messages, continuations."""
        self.finishing = False
        self.fini_sent = False
        self.fini_received = False
        self.lost = False
        """Whether the host is gone without FINI; octets that were read before may still be here."""
        self.ending = False
        """Whether FINI has come or must be sent; then :meth:`Inbound.parse` takes every packet."""
        self._fini: Flight | None = None
        self._ready: deque[Path] = deque()
        self._urgent: deque[Path] = deque()
        self._flights: deque[Flight] = deque()
        self._octets = 0

    @property
    def closed(self) -> bool:
        """Both sides have said FINI: the connection may be closed (IMPI 3.8)."""
        return self.fini_sent and self.fini_received

    @property
    def only_acknowledges(self) -> bool:
        """Our FINI is on its way: acknowledgements are all that may follow (IMPI 3.8)."""
        return self._fini is not None

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, held back or half sent, and no FINI is still to go."""
        return self.work == 0 and (not self.finishing or self.fini_sent)

    @property
    def writable(self) -> bool:
        # Paths without credit are not in the round: packets that they hold back are not a reason
        # to wake up.
        return bool(self._flights or self._urgent or self._ready) or self._fini_due()

    def requeue(self, octets: bytes, *, begun: bool) -> None:
        """Queue the rest of a packet that bypassed the queues; ``begun``: TCP took the start."""

        # At the end means at the head: a packet bypasses the queues only while they are empty.
        flight = Flight.of_header(octets)
        flight.begun = begun
        self.work += 1
        self._octets += flight.left
        self._flights.append(flight)

    def wake(self, path: Path) -> None:
        """Let ``path`` take part in the round, if it has anything to send and credit for it."""
        # A flag instead of a search: a channel with an agent has a path for each remote proc.
        if not path.awake and path.sendable and not self.closed:
            path.awake = True
            self._ready.append(path)

    def acknowledge(self, path: Path) -> None:
        """Queue a PROTOACK: ahead of everything but a packet already begun (IMPI 3.6)."""
        # The path stands for its packet, which is made only when it can be written.
        if not self.closed:
            self.work += 1
            path.counter.held += 1
            self._urgent.append(path)

    def close(self) -> None:
        """Drop what is queued: once both FINIs are exchanged, the peer may close at any time."""

        self._urgent.clear()
        self._flights.clear()
        self._ready.clear()
        self._octets = 0
        self.work = 0

    def views(self) -> list[memoryview]:
        if self._urgent:
            self._place_urgent()

        # Packets leave their lanes only here, when TCP has room: the later, the longer they can be
        # cancelled or overtaken.
        if self._ready or self.finishing:
            self._refill()

        # Header and user data as they lie, for one gathering write: nothing is joined.
        out: list[memoryview] = []
        for flight in self._flights:
            out += flight.views[: _MOST_VIEWS - len(out)]
            if len(out) == _MOST_VIEWS:
                break

        return out

    def sent(self, nbytes: int) -> None:
        """Note that TCP took the first ``nbytes`` octets of :meth:`views`."""
        # TCP may take any part of it. Which packet ends where is known here alone.
        if not 0 <= nbytes <= self._octets:
            raise LocalProtocolError(
                f"{nbytes} octets cannot have been sent to {self.name}: {self._octets} were due"
            )

        self._octets -= nbytes
        while nbytes:
            flight = self._flights[0]
            if nbytes < flight.left:
                flight.consume(nbytes)
                return

            nbytes -= flight.left
            self._flights.popleft()
            self._landed(flight)

    def _landed(self, flight: Flight) -> None:
        # Here is the one place where a send of one packet becomes done, and where an
        # acknowledgement becomes one that the source may have (credit.py, rule 4).
        if flight.ends_work:
            self.work -= 1

        owner = flight.owner
        if owner is not None and flight.final:
            owner.handed = True
            owner.settle()
        elif flight.acknowledges is not None:
            flight.acknowledges.held -= 1
        elif flight is self._fini:
            self.fini_sent = True

    def _place_urgent(self) -> None:
        # A packet that TCP has in part must end first, or the stream would lose its frame.
        at = 1 if self._flights and self._flights[0].begun else 0
        # From the last to the first, each placed before the former: so they go out in the
        # order in which they fell due.
        while self._urgent:
            path = self._urgent.pop()
            flight = Flight.of_header(path.bare(PacketType.PROTOACK))
            flight.acknowledges = path.counter
            self._octets += flight.left
            self._flights.insert(at, flight)

    def _refill(self) -> None:
        # Bounded in octets (`_ENOUGH`), and in flights, since one system
        # call takes no more of them.
        while (
            self._ready and self._octets < _ENOUGH and len(self._flights) < _MOST_VIEWS
        ):
            path = self._ready.popleft()
            flight = path.next()
            self._octets += flight.left

            self._flights.append(flight)
            # One packet each, then the next path: a round.
            if path.sendable:
                self._ready.append(path)
            else:
                path.awake = False

        # 3.8: behind every lane, also those that wait for credit: acknowledgements alone follow.
        if self._fini_due():
            self._fini = Flight.of_header(_FINI)
            self.work += 1
            self._octets += self._fini.left
            self._flights.append(self._fini)

    def _fini_due(self) -> bool:
        # A message that waits for its SYNCACK stands in no lane, and does not hold FINI back.
        # MPI_Finalize follows the completion of all sends; :meth:`Inbound._on_syncack` reports a
        # program that broke this.
        return (
            self.finishing
            and self._fini is None
            and not any(path.lanes.queued for path in self.paths)
        )

    def withdraw(self, path: Path, message: Outgoing) -> None:
        path.lanes.firsts.remove(message)

        self.work -= 1
        # The round calls :meth:`Path.next` without looking again, which
        # needs something in the lanes.
        if path.awake and not path.lanes.queued:
            path.awake = False
            self._ready.remove(path)
