"""Listeners in an owner's loop, and their connections: strangers first, then members.

For impirun's control socket, its process manager and relays, whose connections stay open. An owner
says what a connection has to prove; until :meth:`Entrance.welcome` it is one of
:class:`~impi.rank.doors.strangers.Strangers`, bounded in number and age.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from impi.rank.doors.strangers import MOST, Refusals, Strangers

_SEND_S: Final = 10.0


class Readers(Protocol):
    """The part of a selector that an entrance needs."""

    def register(self, fileobj: socket.socket, events: int, data: Callable[[], object]) -> object: ...
    def unregister(self, fileobj: socket.socket) -> object: ...


class Caller(Protocol):
    """The owner's record of a connection; the entrance reads these attributes."""

    sock: socket.socket
    address: str
    port: int


C = TypeVar("C", bound=Caller)


def _close(caller: Caller) -> None:
    caller.sock.close()


class Entrance(Generic[C]):
    """Accepts connections at its listeners, and closes those that prove nothing in time.

    Args:
        listener: is this object's from now on; :meth:`listen` adds others.
        selector: for its sockets; the data of a key is a callable for the owner's loop.
        members: how many connections are awaited.
        make: makes the record of a connection, from its socket, its address and its port.
        read: called with a record whose socket is readable; None: the record reads it by itself.
        show: address and port as people write them.
        warn: prints a sentence for the user.
        end: closes the connection of a record.
        told: the sentence on a connection that is closed: with ``here``, ``peer`` and ``why``.
    """

    def __init__(
        self,
        listener: socket.socket,
        selector: Readers,
        members: int,
        *,
        make: Callable[[socket.socket, str, int], C],
        read: Callable[[C], None] | None,
        show: Callable[[str, int], str],
        warn: Callable[[str], None],
        end: Callable[[C], object] = _close,
        told: str = "closed a connection to {here} from {peer}, which {why}",
    ) -> None:
        self._listeners: list[socket.socket] = []
        self._selector = selector
        self._end = end
        self._told = told
        self._make = make
        self._read = read
        self._show = show
        self._warn = warn
        self._callers: dict[int, C] = {}
        # Members may all come at once, and have proved nothing yet, either.
        self._strangers: Strangers[int] = Strangers(most=MOST + members)
        self._refusals = Refusals(warn)
        self.endpoint = show(*listener.getsockname()[:2])
        """``address:port`` of the listener."""
        self.listen(listener)

    def listen(self, listener: socket.socket) -> None:
        """Accept at a listener from now on; it is this object's."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))

    def __iter__(self) -> Iterator[C]:
        """Iterate over the connections there are now; they may be closed meanwhile."""
        return iter(list(self._callers.values()))

    @property
    def patience(self) -> float:
        """Seconds until :meth:`close_silent` has something to do; infinite: nothing."""
        return self._strangers.patience

    def close_silent(self) -> None:
        """Close connections that have had their time to prove what they are."""
        for key in self._strangers.overdue():
            self.refuse(self._callers[key], "has not said in time what it is")

    def close(self) -> None:
        for caller in self:
            self.drop(caller)
        self.shut()
        self._strangers.close()
        self._refusals.summary()

    def shut(self) -> None:
        """Accept nobody any more."""
        while self._listeners:
            listener = self._listeners.pop()
            self._selector.unregister(listener)
            listener.close()

    def receive(self, caller: C, most: int) -> bytes | None:
        """Return what has come; empty: the end, None: nothing, or it was closed in this turn."""
        if id(caller) not in self._callers:
            return None
        try:
            return caller.sock.recv(most)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""  # a reset is an end

    def spoke(self, caller: C) -> None:
        """Note that a stranger has said something: those that have not are closed first."""
        self._strangers.spoke(id(caller))

    def welcome(self, caller: C) -> None:
        """Take a connection for a member: it has proved what it is."""
        self._strangers.discard(id(caller))

    def send(self, caller: C, data: bytes) -> bool:
        """Send all of ``data``; False: the connection has ended, and the owner drops it."""
        try:
            caller.sock.settimeout(_SEND_S)
            caller.sock.sendall(data)
            caller.sock.setblocking(False)
        except OSError:
            return False
        return True

    def refuse(self, caller: C, why: str, *, known: bool = False) -> None:
        """Close a connection and say why; ``known``: of a member, each time anew."""
        peer = self._show(caller.address, caller.port)
        sentence = self._told.format(here=self.endpoint, peer=peer, why=why)
        if known:
            self._warn(sentence)
        else:
            self._refusals.tell(caller.address, why, sentence)
        self.drop(caller)

    def drop(self, caller: C) -> None:
        """Close a connection. Idempotent."""
        if self.forget(caller):
            self._end(caller)

    def forget(self, caller: C) -> bool:
        """Leave a socket to somebody else; whether it was here."""
        if self._callers.pop(id(caller), None) is None:
            return False
        self._strangers.discard(id(caller))
        if self._read is not None:
            self._selector.unregister(caller.sock)
        return True

    def _accept(self, listener: socket.socket) -> None:
        accepted = self._strangers.accept(listener)
        if accepted is not None:
            caller = self._make(*accepted)
            self._callers[id(caller)] = caller
            self._strangers.add(id(caller), caller.address)
            if (read := self._read) is not None:
                self._selector.register(caller.sock, selectors.EVENT_READ, lambda: read(caller))
        while (surplus := self._strangers.surplus()) is not None:
            self.refuse(self._callers[surplus], "was closed to make room for others")
