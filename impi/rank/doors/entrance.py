"""Listeners in an owner's loop, and their connections: strangers first, then members.

The one rule for all doors: the server's, impirun's control socket, its process manager's, those of
relays, hosts, agents and ports. An owner says what a connection has to prove; until
:meth:`Entrance.welcome` it is one of :class:`~impi.rank.doors.strangers.Strangers`, bounded in
number and age. There is room before a connection is accepted: a stranger is closed for it. Who
guesses is slowed: :class:`~impi.rank.doors.strangers.Guesses` say how long nothing of the next ones
is read. Who is closed without a word tries again (:func:`~impi.rank.doors.introduce.again`).
"""

from __future__ import annotations

import select
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from impi.rank.doors.strangers import Guesses, Refusals, Strangers, endpoint_of

_SEND_S: Final = 10.0
# Connections that are accepted in one turn: each turn of an owner costs more
_AT_ONCE: Final = 16


class Readers(Protocol):
    """The part of a selector that an entrance needs."""

    def register(
        self, fileobj: socket.socket, events: int, data: Callable[[], object]
    ) -> object: ...
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
        members: number of awaited connections.
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
        self._strangers: Strangers[int] = Strangers(members)
        self._refusals = Refusals(warn)
        self._guesses = Guesses()
        # For each paused connection: the time before which nothing of it is read.
        self._paused: dict[int, float] = {}
        self.endpoint = show(*endpoint_of(listener.getsockname()))
        """``address:port`` of the listener."""
        self.listen(listener)

    def listen(self, listener: socket.socket) -> None:
        """Accept at a listener from now on; it is this object's."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._selector.register(
            listener, selectors.EVENT_READ, lambda: self._accept_some(listener)
        )

    def __iter__(self) -> Iterator[C]:
        """Iterate over the connections there are now; they may be closed meanwhile."""
        return iter(list(self._callers.values()))

    @property
    def patience(self) -> float:
        """Seconds until :meth:`turn` has something to do; infinite: nothing."""
        until = min(self._paused.values(), default=float("inf"))
        return min(self._strangers.patience, max(0.0, until - time.monotonic()))

    def turn(self) -> None:
        """Close connections that have proved nothing in time; begin to read paused ones."""
        for key in self._strangers.overdue():
            self.refuse(self._callers[key], "has not said in time what it is")

        now = time.monotonic()
        for key in [key for key, until in self._paused.items() if until <= now]:
            del self._paused[key]
            self._begin(self._callers[key])

    def close(self) -> None:
        for caller in self:
            self.drop(caller)

        self.shut()
        self._strangers.close()
        self.summary()

    def shut(self) -> None:
        """Accept no further connection."""
        for listener in self.leave():
            listener.close()

    def leave(self) -> list[socket.socket]:
        """Accept no further connection, and return the listeners to the caller."""
        left, self._listeners = self._listeners, []
        for listener in left:
            self._selector.unregister(listener)

        return left

    def summary(self) -> None:
        """Say how many more connections were closed than there are sentences."""
        self._refusals.summary()

    def receive(self, caller: C, most: int) -> bytes | None:
        """Return the octets that have come; empty: the end; None: nothing, or closed this turn."""
        if id(caller) not in self._callers:
            return None

        try:
            return caller.sock.recv(most)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""  # a reset is an end

    def reads(self, caller: C) -> bool:
        """Whether a connection is read from: its address has not guessed, or it has waited."""
        return id(caller) in self._callers and id(caller) not in self._paused

    def pause_s(self, caller: C) -> float:
        """Return how long a record that reads by itself has to wait before it does."""
        return self._guesses.pause_s(caller.address)

    def spoke(self, caller: C) -> None:
        """Note that a stranger has said something: those that have not are closed first."""
        self._strangers.spoke(id(caller))

    def welcome(self, caller: C) -> None:
        """Make a connection a member: it has proved itself."""
        self._strangers.discard(id(caller))

    def send(self, caller: C, data: bytes) -> bool:
        """Send all of ``data``; False: the connection has ended, and the owner drops it."""
        # Members read at once. One that does not must not stop the owner's loop for ever.
        try:
            caller.sock.settimeout(_SEND_S)
            caller.sock.sendall(data)
            caller.sock.setblocking(False)
        except OSError:
            return False

        return True

    def refuse(
        self,
        caller: C,
        why: str,
        *,
        sentence: str = "",
        known: bool = False,
        guess: bool = False,
    ) -> None:
        """Close a connection and say why.

        Args:
            caller: the connection.
            why: a predicate of it.
            sentence: what is told, in place of one with ``why``, which then is its kind.
            known: it is a member's, and each time is told.
            guess: it had a wrong secret; after some of these, others of its address have to wait.
        """

        if guess:
            self._guesses.add(caller.address)

        peer = self._show(caller.address, caller.port)

        sentence = sentence or self._told.format(here=self.endpoint, peer=peer, why=why)
        if known:
            self._warn(sentence)
        else:
            self.tell(caller, why, sentence)

        self.drop(caller)

    def tell(self, caller: C, kind: str, sentence: str) -> None:
        """Say a sentence on a connection; of more such ones of its address only the number."""
        self._refusals.tell(caller.address, kind, sentence)

    def drop(self, caller: C) -> None:
        """Close a connection. Idempotent."""
        if self.forget(caller):
            self._end(caller)

    def forget(self, caller: C) -> bool:
        """Leave a socket to somebody else; whether it was here."""

        if self._callers.pop(id(caller), None) is None:
            return False

        self._strangers.discard(id(caller))

        paused = self._paused.pop(id(caller), None) is not None
        # A paused connection was never registered.
        if self._read is not None and not paused:
            self._selector.unregister(caller.sock)

        return True

    def _begin(self, caller: C) -> None:
        if (read := self._read) is not None:
            self._selector.register(
                caller.sock, selectors.EVENT_READ, lambda: read(caller)
            )

    def _accept_some(self, listener: socket.socket) -> None:
        more = select.poll()

        more.register(listener, select.POLLIN)
        for _ in range(_AT_ONCE):
            self._accept(listener)
            if not more.poll(0):  # no stranger must go if none has come
                return

    def _accept(self, listener: socket.socket) -> None:
        self._make_room()

        accepted = self._strangers.accept(listener)
        if accepted is None:
            return

        caller = self._make(*accepted)
        self._callers[id(caller)] = caller
        self._strangers.add(id(caller), caller.address)

        pause_s = self._guesses.pause_s(caller.address)
        # It is accepted all the same: in the backlog it would stand before others.
        if pause_s and self._read is not None:
            self._paused[id(caller)] = time.monotonic() + pause_s
        else:
            self._begin(caller)

    def _make_room(self) -> None:
        if not self._strangers.full:
            return

        for key in self._paused:
            # Nothing of it was read: that is our doing, and it may have said all that is due.
            with suppress(OSError):
                if self._callers[key].sock.recv(1, socket.MSG_PEEK):
                    self._strangers.spoke(key)

        while (surplus := self._strangers.surplus()) is not None:
            self.refuse(self._callers[surplus], "was closed to make room for others")
