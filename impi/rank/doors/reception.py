"""Accepts connections until all awaited numbers are here, each with its proof where one is due.

A connection begins with a head of fixed size; the caller's ``claim`` reads the number in it and
says which secret belongs to that number. With a secret, the nonce of
:class:`~impi.protocol.proofs.Knock` follows the head, our answer goes out, and the closing proof
comes. Without one, the head is all.

Invariants: only a proof, or a head that needs none, gives a number away. No connection delays
another: all are read without waiting, each has :data:`~impi.rank.doors.strangers.AGE_S` seconds,
and there are never more than :data:`~impi.rank.doors.strangers.MOST`. The clock is looked at in
every turn.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from impi.base.errors import HostRefused, PeerError
from impi.base.records import fresh, record
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper
from impi.rank.doors.introduce import new_nonce
from impi.rank.doors.strangers import MOST, Refusals, Strangers


@record
class Claim:
    """The number that a connection says it is, and what it must prove."""

    number: int
    secret: bytes = b""
    """Empty: no proof is due."""
    about: bytes = b""
    """What both ends must agree on."""
    warning: str = ""
    """What to say when it is let in."""
    refusal: HostRefused | None = None
    """The error that ends the job, in place of letting it in."""


Claiming: TypeAlias = Callable[[bytes, str], Claim]
"""Reads a head from an address (numeric; "this node": a Unix socket); PeerError: it cannot be."""

_UNKNOWN: Claim = Claim(-1)


@record(frozen=False, eq=False)
class _Visitor:
    sock: socket.socket
    address: str
    name: str
    wanted: int
    heard: bytearray = fresh(default_factory=bytearray)
    claim: Claim = _UNKNOWN
    keeper: Keeper | None = None


def receive(
    listeners: Sequence[socket.socket],
    awaited: Collection[int],
    head: int,
    claim: Claiming,
    deadline: float,
    say: Callable[[str], None],
) -> dict[int, socket.socket]:
    """Return connected sockets by number, that do not block; fewer at the deadline.

    Args:
        listeners: they stay open, and no longer block.
        awaited: the numbers to wait for.
        head: octets with which a connection begins.
        claim: see :data:`Claiming`.
        deadline: on the monotonic clock.
        say: prints one sentence about connections that were closed, or let in with a warning.

    Raises:
        HostRefused: the claim of a connection has a refusal.
    """
    # Awaited ones may all come at once, and have proved nothing yet, either.
    here = Reception(listeners, head, claim, say, MOST + 1024)
    try:
        while not here.links.keys() >= set(awaited) and (left := deadline - time.monotonic()) > 0:
            here.turn(left)
        here.tell_of_ended()
    except BaseException:
        for sock in here.links.values():
            sock.close()
        raise
    finally:
        here.close()
    return here.links


class Reception:
    """What :func:`receive` does, turn by turn, for an owner with a loop; close it at the end.

    The owner may take connections out of :attr:`links` between two turns.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        head: int,
        claim: Claiming,
        say: Callable[[str], None],
        most: int = MOST,
    ) -> None:
        self._listeners = {sock.fileno(): sock for sock in listeners}
        self._head = head
        self._claim = claim
        self._say = say
        self._refusals = Refusals(say)
        self._strangers: Strangers[int] = Strangers(most=most)
        self._visitors: dict[int, _Visitor] = {}
        self._ended: list[tuple[_Visitor, str, str]] = []
        """Connections that have ended early. A lost process ends so: its job tells why first."""
        self._poll = select.poll()
        self.links: dict[int, socket.socket] = {}
        """The connections that have proved their numbers, by these."""
        for descriptor, sock in self._listeners.items():
            sock.setblocking(False)
            self._poll.register(descriptor, select.POLLIN)

    def close(self) -> None:
        """Close the connections that have not said what they are; the listeners stay open."""
        for descriptor in list(self._visitors):
            self._forget(descriptor).sock.close()
        self._strangers.close()
        self._refusals.summary()

    def turn(self, left: float) -> None:
        """Wait for something, for ``left`` seconds at most, and handle it."""
        for descriptor, _ in self._poll.poll(1000 * min(left, self._strangers.patience) + 1):
            if descriptor in self._listeners:
                self._accept(self._listeners[descriptor])
            elif descriptor in self._visitors:
                self._read(descriptor)
        for descriptor in self._strangers.overdue():
            self._refuse(descriptor, "has not said in time what it is")

    def _accept(self, listener: socket.socket) -> None:
        accepted = self._strangers.accept(listener)
        if accepted is not None:
            sock, address, port = accepted
            descriptor = sock.fileno()
            self._visitors[descriptor] = _Visitor(sock, address, f"{address}:{port}", self._head)
            self._strangers.add(descriptor, address)
            self._poll.register(descriptor, select.POLLIN)
        while (surplus := self._strangers.surplus()) is not None:
            self._refuse(surplus, "was closed to make room for others")

    def _read(self, descriptor: int) -> None:
        visitor = self._visitors[descriptor]
        try:
            piece = visitor.sock.recv(visitor.wanted - len(visitor.heard))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        visitor.heard += piece
        self._strangers.spoke(descriptor)
        if piece and len(visitor.heard) < visitor.wanted:
            return
        octets, visitor.heard = bytes(visitor.heard), bytearray()
        try:
            if self._introduced(visitor, octets):
                self._admit(descriptor)
        except PeerError as error:
            if piece:
                self._refuse(descriptor, error.message, str(error))
            else:
                self._forget(descriptor).sock.close()
                if len(self._ended) < MOST:
                    self._ended.append((visitor, error.message, str(error)))

    def _introduced(self, visitor: _Visitor, octets: bytes) -> bool:
        """Take the next step of an introduction with all its octets; whether it was the last."""
        claim = visitor.claim
        if claim is _UNKNOWN:
            visitor.claim = self._claim(octets, visitor.address)
            visitor.wanted = NONCE_SIZE
            return not visitor.claim.secret
        if len(octets) < visitor.wanted:
            raise PeerError(f"a connection says it is number {claim.number}, and ends without its proof")
        if visitor.keeper is None:
            visitor.keeper = Keeper(claim.secret, claim.about, octets, new_nonce())
            visitor.wanted = PROOF_SIZE
            with contextlib.suppress(OSError):  # the next read tells
                visitor.sock.send(visitor.keeper.answer)
            return False
        if not visitor.keeper.accepts(octets):
            raise PeerError(f"a connection says it is number {claim.number}, and does not know this job's secret")
        return True

    def _admit(self, descriptor: int) -> None:
        claim = self._visitors[descriptor].claim
        if claim.number in self.links:
            raise PeerError(f"a connection claims to be number {claim.number}, but that one has a connection already")
        if claim.refusal is not None:
            raise claim.refusal
        if claim.warning:
            self._say(claim.warning)
        self.links[claim.number] = self._forget(descriptor).sock

    def _refuse(self, descriptor: int, kind: str, sentence: str = "") -> None:
        visitor = self._forget(descriptor)
        visitor.sock.close()
        self._tell(visitor, kind, sentence or kind)

    def _tell(self, visitor: _Visitor, kind: str, sentence: str) -> None:
        self._refusals.tell(visitor.address, kind, f"connection of {visitor.name} refused: {sentence}")

    def tell_of_ended(self) -> None:
        for visitor, kind, sentence in self._ended:
            self._tell(visitor, kind, sentence)

    def _forget(self, descriptor: int) -> _Visitor:
        self._poll.unregister(descriptor)
        self._strangers.discard(descriptor)
        return self._visitors.pop(descriptor)
