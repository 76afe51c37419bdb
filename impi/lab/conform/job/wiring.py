"""TCP connections whose octets are all recorded, served by one loop with deadlines.

Nothing here blocks but :meth:`Wiring.turn`, and that for no longer than it is told.
"""

from __future__ import annotations

import contextlib
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
"""Octets that one connection may bring before it is closed: a flood is no test."""
_TURN_S: Final = 0.05
# Time that one turn costs a peer at most: in the rest of it the tester got no processor either.
_LONGEST_TURN_S: Final = 2 * _TURN_S


class _Recorded:
    """What one side of a connection has said."""

    def __init__(self) -> None:
        self.octets = bytearray()
        self.ended_at: float | None = None
        self._marks: list[tuple[int, float]] = []  # where each piece begins, and when it came

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
            self._own, self._peer = _endpoint(sock.getsockname()), _endpoint(sock.getpeername())
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
        """Send what the socket takes of the queue; at a pace, so many octets and no more."""
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
        self._ours.add(part[:taken])
        del self._out[:taken]

    def receive(self) -> None:
        try:
            octets = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self._end()
            return
        self._theirs.add(octets)
        self.incoming += octets
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
    """A clock for loops of turns: a long turn counts no more than :data:`_LONGEST_TURN_S`."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._sum = 0.0

    def now(self) -> float:
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

    def __init__(self, procs: int = 1, threads: Callable[[], int] = runnable, cores: int | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self.wires: list[RecordedWire] = []
        self._crowd = (procs + 1, threads, cores)  # the tester itself runs while it counts

    def listen(self, address: str, accepted: Callable[[RecordedWire], None], port: int = 0) -> int:
        """Listen there, call ``accepted`` for each connection; return the port.

        Raises:
            LabError: this machine does not have the address, or the port is taken.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
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

    def connect(self, address: str, port: int, source: str = "", timeout_s: float = 3.0) -> RecordedWire | None:
        """Connect, from the address ``source`` if one is given; None: no answer, or a reset."""
        try:
            sock = socket.create_connection((address, port), timeout_s, (source, 0) if source else None)
            wire = RecordedWire(sock, opened_by_us=True)
        except (OSError, OverflowError):  # a port may be said to be anything
            return None
        return self._add(wire)

    def _add(self, wire: RecordedWire) -> RecordedWire:
        self._forget_closed()  # their descriptors may be those of new sockets
        self.wires.append(wire)
        self._selector.register(wire.sock, selectors.EVENT_READ, wire)
        return wire

    def forget(self, wire: RecordedWire) -> None:
        """Close a connection that is no part of the job's record."""
        wire.close()
        self._forget_closed()
        self.wires.remove(wire)

    def turn(self, timeout_s: float) -> None:
        """Serve whatever is ready; wait at most so many seconds for something."""
        self._forget_closed()
        for wire in self.wires:
            if wire.closed or wire.ended:
                continue
            wire.flush()
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if wire.pending else 0)
            if self._selector.get_key(wire.sock).events != wanted:  # an end is seen at the next turn
                self._selector.modify(wire.sock, wanted, wire)
        for key, events in self._selector.select(max(0.0, timeout_s)):
            if not isinstance(key.data, RecordedWire):
                with contextlib.suppress(OSError):
                    sock, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    key.data(self._add(RecordedWire(sock, opened_by_us=False)))
            elif events & selectors.EVENT_READ and not key.data.closed:
                key.data.receive()

    def _forget_closed(self) -> None:
        for wire in self.wires:
            if wire.closed or wire.ended:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(wire.sock)

    def patience(self, seconds: float) -> Patience:
        """Return a deadline that a crowded machine lengthens: it is slow, its peers not wrong."""
        procs, threads, cores = self._crowd
        return Patience(seconds, procs, clock=_Turns().now, threads=threads, cores=cores)

    def wait(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Serve until ``ready``; False: it was not within so many seconds (:meth:`patience`)."""
        patience = self.patience(timeout_s)
        while not ready():
            if patience.ended():
                self.turn(0.0)  # what came while the tester was away
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
