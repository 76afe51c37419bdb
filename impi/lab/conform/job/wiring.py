"""TCP connections whose octets are all recorded, served by one loop with deadlines.

One thread and one selector serve the whole job, so the record has one order. :meth:`Wiring.wait`
makes turns until something is so. Nothing blocks but :meth:`Wiring.turn`, and that no longer than
it is told. Deadlines count the time in which the tester itself ran, and grow with the load: a
client on a crowded machine is slow, not wrong.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from impi.base.errors import LabError
from impi.base.remote.patience import Patience, runnable
from impi.lab.conform.job.encoding import ipv6
from impi.lab.dissect import Connection, Stream

_CHUNK: Final = 1 << 18
MOST: Final = 256 << 20
"""Octets that one connection may bring before it is closed: a flood is not a test."""
_MOST_SILENT: Final = 256
"""Connections of others that have said too little: the oldest is closed for the next one."""
RANK_SIZE: Final = 4
"""Octets with which a host begins (2.3.8); a client begins with more."""
_TURN_S: Final = 0.05
# Most time that one turn counts against a peer: in the rest the tester had no processor, and
# perhaps the peer had none either.
_LONGEST_TURN_S: Final = 2 * _TURN_S


class _Recorded:
    """The octets of one side of a connection, with their times."""

    def __init__(self) -> None:
        self.octets = bytearray()
        self.ended_at: float | None = None
        # Where each piece begins, and when it came
        self._marks: list[tuple[int, float]] = []

    def add(self, octets: bytes) -> None:
        self._marks.append((len(self.octets), time.time()))
        self.octets += octets

    def end(self) -> None:
        self.ended_at = time.time()

    def stream(self) -> Stream:
        return Stream(bytes(self.octets), self._marks, fin_time=self.ended_at)


class RecordedWire:
    """One connection; ``incoming`` has all octets that came and are not taken yet."""

    def __init__(self, sock: socket.socket, *, opened_by_us: bool) -> None:
        sock.setblocking(False)
        # Small packets must leave at once: a delayed one could pass for a packet that is missing.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.opened_by_us = opened_by_us
        self.opened = time.time()
        self.incoming = bytearray()
        self.most = MOST
        self.pace = 0  # octets that are sent at a time; 0: as many as there are
        self._out = bytearray()
        self._theirs = _Recorded()

        self._ours = _Recorded()
        try:
            self._own, self._peer = (
                _endpoint(sock.getsockname()),
                _endpoint(sock.getpeername()),
            )
        except OSError:  # the peer has reset the connection already
            sock.close()
            raise

    @property
    def ended(self) -> bool:
        return self._theirs.ended_at is not None

    @property
    def closed(self) -> bool:
        return self._ours.ended_at is not None

    @property
    def pending(self) -> bool:
        return bool(self._out) and not self.closed and not self.ended

    @property
    def heard(self) -> int:
        return len(self._theirs.octets)

    def send(self, octets: bytes) -> None:
        self._out += octets
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes of the queue; at a pace, no more than that many octets."""

        # Nothing to send, or no peer to send it to: both ends of a connection count.
        if not self.pending:
            return

        part = bytes(self._out[: self.pace or len(self._out)])
        try:
            taken = self.sock.send(part)
        except BlockingIOError:
            return
        except OSError:
            self._end()
            return

        # Recorded is what the kernel took, and when: the rest is still ours.
        self._ours.add(part[:taken])
        del self._out[:taken]

    def receive(self) -> None:
        try:
            octets = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # A reset ends the stream as a close does. What came before it still counts.
            octets = b""

        if not octets:
            self._end()
            return

        self._theirs.add(octets)

        self.incoming += octets
        # Recorded up to here, so that a report can show what came.
        if self.heard > self.most:
            self.close()
            self._end()

    def take(self, count: int) -> bytes:
        octets = bytes(self.incoming[:count])
        del self.incoming[:count]
        return octets

    def close(self) -> None:
        if not self.closed:
            self._ours.end()
            with contextlib.suppress(OSError):
                self.sock.close()

    def _end(self) -> None:
        if not self.ended:
            self._theirs.end()

    def recorded(self) -> Connection:
        """Return all that both sides said, as :mod:`impi.lab.dissect` reads it."""
        theirs, ours = self._theirs.stream(), self._ours.stream()
        if self.opened_by_us:
            return Connection(self._own, self._peer, self.opened, ours, theirs)

        return Connection(self._peer, self._own, self.opened, theirs, ours)


class _Turns:
    """A clock of turns: a long turn counts no more than :data:`_LONGEST_TURN_S`."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._sum = 0.0

    def now(self) -> float:
        # A turn may take long because the tester itself was not run. That
        # time is not a delay of the client.
        last, self._last = self._last, time.monotonic()
        self._sum += min(self._last - last, _LONGEST_TURN_S)
        return self._sum


def _endpoint(name: tuple[str, int]) -> tuple[bytes, int]:
    packed = ipv6(name[0])
    return (packed[12:] if packed[:12] == bytes(12) else packed), name[1]


class Wiring:
    """All connections and listeners of one job.

    Args:
        procs: of the implementation, which may keep a processor busy each while they wait.
        threads: counts what runs or wants to on this machine.
        cores: processors of it; None: those that this process may use.
    """

    def __init__(
        self,
        procs: int = 1,
        threads: Callable[[], int] = runnable,
        cores: int | None = None,
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self.wires: list[RecordedWire] = []
        # The tester itself runs while it counts
        self._crowd = (procs + 1, threads, cores)

    def listen(
        self, address: str, accepted: Callable[[RecordedWire], None], port: int = 0
    ) -> int:
        """Listen there, call ``accepted`` for each connection; return the port.

        Raises:
            LabError: this machine does not have the address, or the port is taken.
        """

        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A fixed port must serve the next job, though connections of the
            # last one linger.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(64)
        except OSError as error:
            listener.close()
            raise LabError(f"no listener at {address} port {port}: {error}") from error

        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, accepted)
        found: int = listener.getsockname()[1]

        return found

    def connect(
        self, address: str, port: int, source: str = "", timeout_s: float = 3.0
    ) -> RecordedWire | None:
        """Connect, from the address ``source`` if one is given; None: no answer, or a reset."""
        try:
            sock = socket.create_connection(
                (address, port), timeout_s, (source, 0) if source else None
            )
            wire = RecordedWire(sock, opened_by_us=True)
        except (OSError, OverflowError):  # a client may say any number as its port
            return None

        return self._add(wire)

    def _add(self, wire: RecordedWire) -> RecordedWire:
        # a new socket may get the descriptor of a closed one, which is still registered
        self._forget_closed()
        self.wires.append(wire)
        self._selector.register(wire.sock, selectors.EVENT_READ, wire)

        return wire

    def forget(self, wire: RecordedWire) -> None:
        """Close a connection that is not part of the job's record."""
        wire.close()
        self._forget_closed()
        if wire in self.wires:
            self.wires.remove(wire)

    def turn(self, timeout_s: float) -> None:
        """Serve whatever is ready; wait at most ``timeout_s`` seconds for something."""
        # Sockets that ended in the last turn must go before the kernel
        # gives their numbers again.
        self._forget_closed()
        for wire in self.wires:
            if wire.closed or wire.ended:
                continue

            wire.flush()

            # Write readiness is asked for only with something to send, or every
            # turn would return at once.
            wanted = selectors.EVENT_READ | (
                selectors.EVENT_WRITE if wire.pending else 0
            )
            # a connection that ends in this turn is left out from the next one on
            if self._selector.get_key(wire.sock).events != wanted:
                self._selector.modify(wire.sock, wanted, wire)

        for key, events in self._selector.select(max(0.0, timeout_s)):
            # No wire: a listener, whose data is the function to call.
            if not isinstance(key.data, RecordedWire):
                self._make_room()
                with contextlib.suppress(OSError):
                    sock, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    key.data(self._add(RecordedWire(sock, opened_by_us=False)))
            elif events & selectors.EVENT_READ and not key.data.closed:
                key.data.receive()

    def _make_room(self) -> None:
        silent = [
            wire
            for wire in self.wires
            if not (wire.opened_by_us or wire.heard >= RANK_SIZE or wire.closed)
        ]
        # So that an accept needs no more descriptors than there are.
        if len(silent) >= min(_MOST_SILENT, os.sysconf("SC_OPEN_MAX") // 4):
            self.forget(silent[0])

    def _forget_closed(self) -> None:
        for wire in self.wires:
            if wire.closed or wire.ended:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(wire.sock)

    def patience(self, seconds: float) -> Patience:
        """Return a deadline that a crowded machine lengthens: its peers are slow, not wrong."""
        procs, threads, cores = self._crowd
        return Patience(
            seconds, procs, clock=_Turns().now, threads=threads, cores=cores
        )

    def wait(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Serve until ``ready``; False: it was not so in time (:meth:`patience`)."""
        patience = self.patience(timeout_s)
        # The test comes before the deadline: what has come counts, even if
        # it came late.
        while not ready():
            if patience.ended():
                # Octets that came while the tester had no processor are not late
                self.turn(0.0)
                return ready()

            self.turn(min(max(patience.left, 0.001), _TURN_S))

        return True

    def recorded(self) -> list[Connection]:
        return [wire.recorded() for wire in self.wires]

    def close(self) -> None:
        for key in list((self._selector.get_map() or {}).values()):
            if not isinstance(key.data, RecordedWire):
                key.fileobj.close()  # type: ignore[union-attr]

        for wire in self.wires:
            wire.close()

        self._selector.close()
