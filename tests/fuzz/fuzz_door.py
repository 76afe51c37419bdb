"""Fuzzes the doors of hosts, procs and agents: who does not know the key comes to nothing there.

The claims are those of the dance (:mod:`impi.rank.engine.channels.mesh`), of a proc's door and of
an agent's (:mod:`impi.rank.vendors.meeting`). Connections are socket pairs. Somebody has heard
earlier introductions with the same key, and hears all that goes on at this door.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from forger import Forger, is_shown
from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import HostRefused
from impi.protocol.job import Host, Job
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE, Keeper, Knock
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.dance import encode_rank
from impi.rank.doors import reception
from impi.rank.doors.introduce import MARK
from impi.rank.doors.reception import Claiming
from impi.rank.engine.channels import mesh
from impi.rank.vendors import meeting

__all__ = ["play"]

_TOKEN = "5eed" * 8
_KEY = b"the key of a job that nobody else has"
_CLIENT_OF = (0, 0, 1, 1, 2, 3)
"""Hosts 2 and 3 accept those of clients 2 and 3; client 3 knows no key."""
_ELSEWHERE = "192.0.2.66"
_AT_ONCE = -0.001
"""Seconds of a turn that does not wait: it adds a millisecond itself."""


def _job() -> Job:
    hosts = tuple(
        Host(
            index=i,
            client=client,
            ipv6=bytes(12) + bytes([192, 0, 2, i]),
            port=5000 + i,
            procs=(),
        )
        for i, client in enumerate(_CLIENT_OF)
    )
    return Job(
        version=(0, 0),
        nclients=4,
        hosts=hosts,
        procs=(),
        maxdatalen=1,
        tag_ub=32767,
        xsize=0,
        maxlinear=0,
        ackmark=1,
        hiwater=1,
    )


_JOB = _job()


class _Captured(Exception):
    """The claim of a door, and the size of its head."""

    def __init__(self, awaited: Sequence[int], head: int, claim: Claiming) -> None:
        super().__init__()
        self.awaited, self.head, self.claim = awaited, head, claim


def _captured(module: object, call: Callable[[], object]) -> _Captured:
    """The connections that a door hands to :func:`impi.rank.doors.reception.receive`."""

    def instead(
        _listeners: object,
        awaited: Sequence[int],
        head: int,
        claim: Claiming,
        *_more: object,
    ) -> object:
        raise _Captured(list(awaited), head, claim)

    before = vars(module)["receive"]
    setattr(module, "receive", instead)
    try:
        call()
    except _Captured as captured:
        return captured
    finally:
        setattr(module, "receive", before)
    raise AssertionError("the door does not receive")


@dataclass(frozen=True)
class _Place:
    """One door, as those see it who knock."""

    name: str
    secret: bytes
    awaited: tuple[int, ...]
    head: int
    claim: Claiming
    says: Callable[[int], bytes]
    """The head of a number."""
    about: Callable[[int], bytes]
    proving: frozenset[int] = field(default_factory=frozenset)
    """The side that has to prove that it knows the secret."""


def _of_client(name: str, me: int, others: Sequence[int]) -> _Place:
    with meeting.Door("127.0.0.1", 1) as door:
        found = _captured(meeting, lambda: door.admit(me, others, _TOKEN))
    return _Place(
        name=name,
        secret=bytes.fromhex(_TOKEN),
        awaited=tuple(found.awaited),
        head=found.head,
        claim=found.claim,
        says=lambda number: meeting._HEAD.pack(meeting._MAGIC, number),
        about=lambda number: meeting._about(number, me),
        proving=frozenset(found.awaited),
    )


def _of_host(me: int) -> _Place:
    proofs = mesh.Proofs(_JOB, me, Trust(_KEY, (0, 1, 2), strict=True))
    claims = mesh.claims(_JOB, me, proofs)
    with socket.socket() as listener:
        found = _captured(
            mesh,
            lambda: mesh._accept(_JOB, me, listener, time.monotonic() + 60, claims, ()),
        )
    return _Place(
        name=f"host {me}",
        secret=_KEY,
        awaited=tuple(found.awaited),
        head=found.head,
        claim=found.claim,
        says=encode_rank,
        about=lambda number: proofs.about(number, me),
        proving=frozenset(n for n in found.awaited if _CLIENT_OF[n] < 3),
    )


_PLACES = (
    _of_client("proc 1", 1, range(2, 5)),
    _of_client("the agent", meeting.AGENT, range(3)),
    _of_host(1),
    _of_host(2),
)


class _Hall(reception.Reception):
    """A reception without listeners: connections are put in."""

    def __init__(self, place: _Place) -> None:
        self.said: list[str] = []
        self._listeners = socket.socketpair()  # nobody ever comes there
        super().__init__(
            self._listeners[:1],
            place.head,
            place.claim,
            self.said.append,
            len(place.awaited),
        )
        self._coming: list[tuple[socket.socket, str, int]] = []
        vars(self.entrance._strangers)["accept"] = lambda _listener: self._coming.pop()

    def come(self, address: str) -> tuple[socket.socket, socket.socket]:
        """The visitor's end of a connection, and ours."""
        theirs, ours = socket.socketpair()
        for sock in (theirs, ours):
            sock.setblocking(False)
        self._coming.append((ours, address, 7))
        self.entrance._accept(ours)
        return theirs, ours

    @property
    def held(self) -> int:
        return max((len(visitor.heard) for visitor in self.entrance), default=0)

    def close(self) -> None:
        super().close()
        for sock in self._listeners:
            sock.close()


def _heard(sock: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return sock.recv(4096)
    return b""


class _Game:
    """One input."""

    def __init__(self, rng: Random, reached: Counter[str]) -> None:
        self.rng, self.reached = rng, reached
        self.place = _PLACES[int(rng.random() * len(_PLACES))]
        self.hall = _Hall(self.place)
        self.forger = Forger(rng, _EARLIER[self.place.name])
        self.open: list[socket.socket] = []
        self.liars: list[tuple[socket.socket, list[bytes]]] = []
        self.theirs: list[socket.socket] = []
        """Our ends of the connections of those who do not know the secret."""

    def lie(self) -> None:
        """Somebody without the secret connects."""
        sock, ours = self.hall.come(_ELSEWHERE)
        self.open.append(sock)
        self.theirs.append(ours)
        # Whoever claims to be a host that proves nothing ends the game: seldom.
        likely = (
            sorted(self.place.proving)
            if self.rng.random() < 0.95
            else self.place.awaited
        )
        number = (
            int(self.rng.random() * 8)
            if self.rng.random() < 0.1
            else self.rng.choice(likely)
        )
        head = (
            self.place.says(number)
            if self.rng.random() < 0.9
            else self.forger.octets(self.place.head)
        )
        nonce = self.forger.octets(NONCE_SIZE)
        self.liars.append((sock, [head + nonce, b"?", self.forger.octets(32)]))

    def lie_on(self) -> None:
        """It says the next thing, made of all that was heard until now."""
        sock, script = self.liars[int(self.rng.random() * len(self.liars))]
        if not script:
            return
        part = script.pop(0)
        for piece in self.forger.pieces(
            self.forger.octets(PROOF_SIZE) if part == b"?" else part
        ):
            Octets.fed += len(piece)
            with contextlib.suppress(OSError):
                sock.send(piece)
            self.turn()
        self.forger.hears(_heard(sock))
        if self.rng.random() < 0.1:
            sock.close()

    def turn(self) -> None:
        for _ in range(3):  # a head, what follows it, an end
            self.hall.turn(_AT_ONCE)
        if self.hall.held > NONCE_SIZE:
            raise Crash("a visitor makes the door hold more than it wants")
        if any(
            sock is link for sock in self.theirs for link in self.hall.links.values()
        ):
            raise Crash(f"somebody without the secret is let in at {self.place.name}")

    def knock(self, number: int) -> None:
        """One that is awaited comes, while others lie."""
        where = (
            ".".join(map(str, _JOB.hosts[number].ipv6[12:]))
            if self.place.head == 4
            else "this node"
        )
        sock, ours = self.hall.come(where)
        self.open.append(sock)
        secret = self.place.secret if number in self.place.proving else b""
        knock = Knock(
            secret,
            self.place.about(number),
            MARK + self.rng.randbytes(NONCE_SIZE - len(MARK)),
        )
        octets = self.place.says(number) + (knock.nonce if secret else b"")
        sock.send(octets)
        self.forger.hears(octets)
        self.turn()
        while self.liars and self.rng.random() < 0.5:
            self.lie_on()
        if secret:
            answer = _heard(sock)
            self.forger.hears(answer)
            self.impostor(knock)
            closing = knock.closing(answer)
            if closing is None:
                raise Crash("the door does not prove itself")
            sock.send(closing)
            self.turn()
            self.forger.hears(closing)  # only now: who hears it in time can pass it on
        if self.hall.links.get(number) is not ours:
            raise Crash(
                f"{number} is not let in at {self.place.name}: {self.hall.said}"
            )

    def impostor(self, knock: Knock) -> None:
        """Somebody else answers the one that knocks, by what was heard, not by the answer."""
        answer = self.forger.octets(ANSWER_SIZE)
        if (
            answer not in (heard := self.forger._heard)
            and knock.closing(answer) is not None
        ):
            raise Crash(f"an impostor is believed, of {len(heard)} pieces")

    def play(self) -> bool:
        try:
            for _ in range(1 + int(self.rng.random() * 3)):
                self.lie()
            for number in self.rng.sample(self.place.awaited, len(self.place.awaited)):
                if self.rng.random() < 0.5:
                    self.lie_on()
                self.knock(number)
            while any(script for _, script in self.liars):
                self.lie_on()
        except HostRefused as refusal:
            self.reached[f"{self.place.name}: {without_numbers(str(refusal))}"] += 1
        finally:
            for sock in (*self.open, *self.hall.links.values()):
                sock.close()
            self.turn_out()
        self.hall.tell_of_ended()
        self.hall.entrance.summary()
        for sentence in self.hall.said:
            if not is_shown(sentence):
                raise Crash(f"not fit for a terminal: {sentence}")
            self.reached[
                f"{self.place.name}: {without_numbers(sentence.partition('refused: ')[2])}"
            ] += 1
        return any("does not know" in sentence for sentence in self.hall.said)

    def turn_out(self) -> None:
        for _ in range(3):
            self.hall.turn(_AT_ONCE)
        self.hall.close()


def _earlier(place: _Place) -> list[bytes]:
    """All that is heard of an earlier introduction of each at a door."""
    heard = []
    for number in sorted(place.proving):
        knock = Knock(place.secret, place.about(number), bytes([number]) * NONCE_SIZE)
        keeper = Keeper(
            place.secret,
            place.about(number),
            knock.nonce,
            struct.pack(">I", number) * 8,
        )
        closing = knock.closing(keeper.answer)
        assert closing is not None
        heard += [
            knock.nonce,
            keeper.answer,
            keeper.answer[:32],
            keeper.answer[32:],
            closing,
        ]
    return [*heard, json.dumps({"role": "rank0"}).encode()]


_EARLIER = {place.name: _earlier(place) for place in _PLACES}


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: a forged proof was examined."""
    return _Game(rng, reached).play()
