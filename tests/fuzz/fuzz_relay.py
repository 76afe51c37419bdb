"""Fuzzes a relay's own port: strangers without the secret, and owners that say odd things."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import Counter
from random import Random

from forger import Forger, is_shown
from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import PeerError
from impi.launch.relay.far_end import Relay, _Visit
from impi.launch.relay.splice import MARK, OWNER, TOKEN_SIZE
from impi.protocol.options import ServerOptions
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE, Keeper, Knock
from impi.protocol.startup.encrypted import Stream, session_proof
from impi.rank.doors.introduce import MARK as NONCE_MARK

__all__ = ["play"]

_KEY = b"the key of a relay that nobody else has"
_TOKEN = b"of a visitor, 16"
_TOKENS = (OWNER, _TOKEN, b"of none, 16 long")
_TURNS = 6
"""Kinds of input of the loop: a head, its answer, a proof, a line, an end."""
_ODD: tuple[object, ...] = (
    0,
    -1,
    2,
    1.5,
    True,
    None,
    "",
    "1",
    [],
    {},
    2**70,
    float("nan"),
    _TOKEN.hex(),
    "\x1b[2J\n",
)


class _Game:
    """One input."""

    def __init__(self, rng: Random, reached: Counter[str], relay: Relay) -> None:
        self.rng, self.reached, self.relay = rng, reached, relay
        self.forger = Forger(rng, _EARLIER)
        self.open: list[socket.socket] = []
        self.strangers: list[tuple[socket.socket, list[bytes]]] = []
        self.theirs: set[int] = set()
        """Our ends of the connections of those who do not know the secret, by their descriptors."""
        self.deep = False
        self.visit = relay._visits[_TOKEN] = _Visit(
            asyncio.get_running_loop().create_future()
        )

    def come(self, *, member: bool) -> socket.socket:
        theirs, ours = socket.socketpair()
        if not member:
            self.theirs.add(ours.fileno())
        for sock in (theirs, ours):
            sock.setblocking(False)
        self.open.append(theirs)
        door = self.relay._door
        assert door is not None
        # Addresses of their own: wrong secrets of one make the next wait.
        vars(door.entrance._strangers)["accept"] = lambda _listener: (
            ours,
            f"192.0.2.{len(self.open)}",
            7,
        )
        door.entrance._accept(ours)
        return theirs

    async def send(self, sock: socket.socket, octets: bytes) -> None:
        for piece in self.forger.pieces(octets):
            Octets.fed += len(piece)
            with contextlib.suppress(OSError):
                sock.send(piece)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        fetched = self.visit.fetched
        if (
            fetched.done()
            and not fetched.exception()
            and fetched.result().fileno() in self.theirs
        ):
            raise Crash("somebody without the secret fetches a visitor")

    def heard(self, sock: socket.socket) -> bytes:
        with contextlib.suppress(OSError):
            return sock.recv(4096)
        return b""

    async def lie(self) -> None:
        """Somebody without the secret connects, and then says the next thing."""
        if len(self.strangers) < 4:
            head = MARK + self.rng.choice(_TOKENS)
            head = head if self.rng.random() < 0.9 else self.forger.octets(len(head))
            script = [head + self.forger.octets(NONCE_SIZE), b"?", self.line()]
            self.strangers.append((self.come(member=False), script))
        sock, script = self.strangers[int(self.rng.random() * len(self.strangers))]
        if script:
            part = script.pop(0)
            self.deep |= part == b"?"
            await self.send(
                sock, self.forger.octets(PROOF_SIZE) if part == b"?" else part
            )
            answer = self.heard(sock)
            if b"ports" in answer or b"error" in answer:
                raise Crash("somebody without the secret is let in")
            self.forger.hears(answer)

    def line(self) -> bytes:
        """A line of JSON: an owner's, with odd values here and there; or none."""
        word = {
            name: self.rng.choice(_ODD)
            for name in ("endpoints", "refuse", "visit")
            if self.rng.random() < 0.6
        }
        whole = json.dumps(word).encode() + b"\n"
        others = (
            self.rng.randbytes(40) + b"\n",
            b"[" * 2000 + b"\n",
            b"7\n",
            whole[:-2] + b"\n",
            b"\xff\xfe\n",
            b"\n",
        )
        return whole if self.rng.random() < 0.8 else self.rng.choice(others)

    async def enter(self) -> None:
        """A member comes, and says some lines."""
        sock, head = (
            self.come(member=True),
            MARK + self.rng.choice((OWNER, OWNER, _TOKENS[2])),
        )
        knock = Knock(
            _KEY, head, NONCE_MARK + self.rng.randbytes(NONCE_SIZE - len(NONCE_MARK))
        )
        await self.send(sock, head + knock.nonce)
        answer = self.heard(sock)
        closing = knock.closing(answer)
        if closing is None:
            raise Crash("a relay does not prove itself")
        forged = self.forger.octets(ANSWER_SIZE)
        if forged != answer and knock.closing(forged) is not None:
            raise Crash("somebody else is taken for a relay")
        await self.send(sock, closing)
        for octets in (head + knock.nonce, answer, closing):
            self.forger.hears(octets)
        if self.rng.random() < 0.8:
            await self.order(sock)
        while self.rng.random() < 0.5:
            await self.send(sock, self.line())

    async def order(self, sock: socket.socket) -> None:
        """An owner begins its session, and gives some orders in it, or holds another one."""
        stream = Stream(accepts=False)
        await self.send(sock, stream.send(b""))
        while not stream.ready and (answer := self.heard(sock)):
            await self.send(sock, stream.receive(answer)[1])
        if not stream.ready:
            return
        proof = session_proof(_KEY, stream.binding, accepts=False)
        if other := self.rng.random() < 0.2:
            proof = self.forger.octets(len(proof))
        said = [proof]
        while self.rng.random() < 0.7:
            said.append(self.line())
        for line in said:
            await self.send(sock, stream.send(line))
        with contextlib.suppress(PeerError):
            opened = b"ports" in stream.receive(self.heard(sock))[0]
            if opened and other:
                raise Crash("an owner of another session gives orders")
            self.reached["endpoints were opened"] += opened

    async def play(self) -> bool:
        try:
            for _ in range(3 + int(self.rng.random() * 6)):
                await (self.lie() if self.rng.random() < 0.7 else self.enter())
        finally:
            for sock in self.open:
                sock.close()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        return self.deep


async def _play(rng: Random, reached: Counter[str], said: list[str]) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with Relay(_KEY, listener, ServerOptions(), said.append) as relay:
            return await _Game(rng, reached, relay).play()


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: somebody without the secret has sent a proof."""
    said: list[str] = []
    deep = asyncio.run(_play(rng, reached, said))
    for sentence in said:
        if not is_shown(sentence):
            raise Crash(f"not fit for a terminal: {sentence}")
        reached[without_numbers(sentence.partition("refused: ")[2] or sentence)] += 1
    return deep


def _earlier() -> list[bytes]:
    """Return octets from an earlier owner that comes."""
    head = MARK + OWNER
    knock = Knock(_KEY, head, bytes(NONCE_SIZE))
    keeper = Keeper(_KEY, head, knock.nonce, b"\1" * NONCE_SIZE)
    closing = knock.closing(keeper.answer)
    assert closing is not None
    assert len(_TOKEN) == TOKEN_SIZE
    return [knock.nonce, keeper.answer, keeper.answer[:32], keeper.answer[32:], closing]


_EARLIER = _earlier()
