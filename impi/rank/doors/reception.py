"""Accepts connections until all awaited numbers are here, each with its proof where one is due.

A connection begins with a head of fixed size; the caller's ``claim`` reads the number in it and
says which secret belongs to that number. With a secret, the nonce of
:class:`~impi.protocol.proofs.Knock` follows the head, our answer goes out, and the closing proof
comes. Without one, the head is all.

Invariants: only a proof, or a head that needs none, gives a number away. No connection delays
another: all are read without waiting, and their number and age have bounds
(:class:`~impi.rank.doors.entrance.Entrance`). The clock is looked at in every turn.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, TypeAlias

from impi.base.errors import HostRefused, PeerError
from impi.base.records import fresh, record
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper
from impi.rank.doors.entrance import Entrance
from impi.rank.doors.introduce import new_nonce


@record
class Claim:
    """The number that a connection claims, and the proof that is due."""

    number: int
    secret: bytes = b""
    """Empty: no proof is due."""
    about: bytes = b""
    """Octets that both ends must agree on."""
    warning: str = ""
    """The sentence for the user when the connection is let in; empty: none."""
    refusal: HostRefused | None = None
    """The error that ends the job, in place of letting it in."""


Claiming: TypeAlias = Callable[[bytes, str], Claim]
"""Reads a head from an address (numeric; "this node": a Unix socket); PeerError: it cannot be."""

_UNKNOWN: Claim = Claim(-1)
_MOST_ENDED: Final = 128
_REFUSED: Final = "connection of {peer} refused: "


@record(frozen=False, eq=False)
class _Visitor:
    sock: socket.socket
    address: str
    port: int
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
    here = Reception(listeners, head, claim, say, len(awaited))
    try:
        while (
            not here.links.keys() >= set(awaited)
            and (left := deadline - time.monotonic()) > 0
        ):
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
    """:func:`receive` turn by turn, for an owner with a loop; close it at the end.

    The owner may take connections out of :attr:`links` between two turns. ``members``: how many
    connections are awaited.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        head: int,
        claim: Claiming,
        say: Callable[[str], None],
        members: int,
    ) -> None:
        self._claim = claim
        self._say = say
        self._ended: list[tuple[_Visitor, str, str]] = []
        """Connections that have ended early. A lost process ends so: its job tells why first."""
        self._selector = selectors.PollSelector()  # it needs no descriptor
        self.links: dict[int, socket.socket] = {}
        """The connections that have proved their numbers, by these."""
        first, *others = listeners

        self.entrance: Entrance[_Visitor] = Entrance(
            first,
            self._selector,
            members,
            make=partial(_Visitor, wanted=head),
            read=self._read,
            show=_show,
            warn=say,
            told=_REFUSED + "it {why}",
        )
        for listener in others:
            self.entrance.listen(listener)

    def close(self) -> None:
        """Close the connections that have not said what they are; the listeners stay open."""
        self.entrance.leave()
        self.entrance.close()
        self._selector.close()

    def turn(self, left: float) -> None:
        """Wait for something, for ``left`` seconds at most, and handle it."""
        for key, _ in self._selector.select(min(left, self.entrance.patience)):
            key.data()

        self.entrance.turn()

    def _read(self, visitor: _Visitor) -> None:
        # Only the octets that are due: what follows belongs to whoever takes the connection over.
        piece = self.entrance.receive(visitor, visitor.wanted - len(visitor.heard))
        if piece is None:
            return

        visitor.heard += piece

        self.entrance.spoke(visitor)
        if piece and len(visitor.heard) < visitor.wanted:
            return

        # All octets of this step are here, or the connection has ended.
        octets, visitor.heard = bytes(visitor.heard), bytearray()
        try:
            if self._introduced(visitor, octets):
                self._admit(visitor)
        except PeerError as error:
            if piece:
                self._refuse(visitor, error)
            else:
                self.entrance.drop(visitor)
                if len(self._ended) < _MOST_ENDED:
                    self._ended.append((visitor, error.message, str(error)))

    def _introduced(self, visitor: _Visitor, octets: bytes) -> bool:
        """Take the next step of an introduction with all its octets; whether it was the last."""

        claim = visitor.claim
        if claim is _UNKNOWN:
            visitor.claim = self._claim(octets, visitor.address)
            visitor.wanted = NONCE_SIZE
            return not visitor.claim.secret

        if len(octets) < visitor.wanted:
            raise PeerError(
                f"a connection says it is number {claim.number}, and ends without its proof"
            )

        if visitor.keeper is None:
            # This end proves itself first. Its proof serves in no other conversation, as it covers
            # the nonces of both.
            visitor.keeper = Keeper(claim.secret, claim.about, octets, new_nonce())

            visitor.wanted = PROOF_SIZE
            with contextlib.suppress(OSError):  # the next read tells
                visitor.sock.send(visitor.keeper.answer)

            return False

        if not visitor.keeper.accepts(octets):
            wrong = f"a connection says it is number {claim.number}, and does not know this job's secret"
            self._refuse(visitor, PeerError(wrong), guess=True)
            return False

        return True

    def _admit(self, visitor: _Visitor) -> None:
        claim = visitor.claim
        if claim.number in self.links:
            raise PeerError(
                f"a connection claims to be number {claim.number}, but that one has a connection already"
            )

        if claim.refusal is not None:
            raise claim.refusal

        if claim.warning:
            self._say(claim.warning)

        # Out of the entrance's hands, which would close it for its age.
        self.entrance.forget(visitor)
        self.links[claim.number] = visitor.sock

    def _refuse(
        self, visitor: _Visitor, error: PeerError, *, guess: bool = False
    ) -> None:
        self.entrance.refuse(
            visitor, error.message, sentence=_sentence(visitor, str(error)), guess=guess
        )

    def tell_of_ended(self) -> None:
        for visitor, kind, sentence in self._ended:
            self.entrance.tell(visitor, kind, _sentence(visitor, sentence))


def _show(address: str, port: int) -> str:
    return f"{address}:{port}"


def _sentence(visitor: _Visitor, why: str) -> str:
    return _REFUSED.format(peer=_show(visitor.address, visitor.port)) + why
