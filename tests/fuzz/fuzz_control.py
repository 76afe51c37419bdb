"""Fuzzes impirun's control socket: strangers without the token, and members that say odd things."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
from collections import Counter
from random import Random

from forger import Forger, is_shown
from fuzz_run import Crash, Octets, without_numbers

from impi.launch.client import control as module
from impi.launch.client.control import Control
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE, Keeper, Knock
from impi.rank.doors.introduce import MARK
from impi.rank.vendors.meeting import CONTROL_HEAD

__all__ = ["play"]

_TOKEN = "5eed" * 8
_SECRET = bytes.fromhex(_TOKEN)
_SIZE, _AGENTS = 3, 2
_WORDS = (b"finalized", b"abort 3", b"\x1b[2J\xff", b"x" * 500)
_ODD: tuple[object, ...] = (
    0,
    -1,
    1.0,
    True,
    None,
    "",
    "0",
    "\x1b[2J\n",
    [],
    [0],
    {},
    {"a": 1},
    2**70,
    float("nan"),
    "x" * 300,
)
_ROLES: tuple[object, ...] = (
    "joining",
    "rank0",
    "pure",
    "host",
    "input",
    "\x1b[31m",
    None,
    [],
    7,
)


class _Game:
    """One input."""

    def __init__(
        self,
        rng: Random,
        reached: Counter[str],
        control: Control,
        selector: selectors.BaseSelector,
    ) -> None:
        self.rng, self.reached, self.control, self.selector = (
            rng,
            reached,
            control,
            selector,
        )
        self.forger = Forger(rng, _EARLIER)
        self.open: list[socket.socket] = []
        self.strangers: list[tuple[socket.socket, list[bytes]]] = []
        self.theirs: list[socket.socket] = []
        """Our ends of the connections of those who do not know the token."""
        self.deep = False

    def come(self, *, member: bool) -> socket.socket:
        theirs, ours = socket.socketpair()
        if not member:
            self.theirs.append(ours)
        for sock in (theirs, ours):
            sock.setblocking(False)
        self.open.append(theirs)
        vars(self.control.entrance._strangers)["accept"] = lambda _listener: (
            ours,
            # Wrong tokens of one address make the next one from there wait.
            f"198.51.100.{len(self.open)}" if member else "192.0.2.66",
            7,
        )
        self.control.entrance._accept(ours)
        return theirs

    def turn(self) -> None:
        for key, _ in self.selector.select(0):
            key.data()
        for connection in self.control.entrance:
            known = connection.step in (module._Step.LINE, module._Step.KNOWN)
            if known and any(connection.sock is sock for sock in self.theirs):
                raise Crash("somebody without the token is let in")
        held = [len(c.received) for c in self.control.entrance]
        if max(held, default=0) > module._CHUNK + 2 * module._MAX_WORD:
            raise Crash(f"impirun holds {max(held)} octets of a connection")

    def send(self, sock: socket.socket, octets: bytes) -> None:
        for piece in self.forger.pieces(octets):
            Octets.fed += len(piece)
            with contextlib.suppress(OSError):
                sock.send(piece)
            self.turn()

    def heard(self, sock: socket.socket) -> bytes:
        with contextlib.suppress(OSError):
            return sock.recv(4096)
        return b""

    def lie(self) -> None:
        """Somebody without the token connects, and then says the next thing."""
        if len(self.strangers) < 4:
            head = CONTROL_HEAD if self.rng.random() < 0.9 else self.forger.octets(8)
            script = [
                head + self.forger.octets(NONCE_SIZE),
                b"?",
                self.line(),
                b"[" * 2000,
            ]
            self.strangers.append((self.come(member=False), script))
        sock, script = self.strangers[int(self.rng.random() * len(self.strangers))]
        if script:
            part = script.pop(0)
            forged = part == b"?"
            self.send(sock, self.forger.octets(PROOF_SIZE) if forged else part)
            self.deep |= forged
            self.forger.hears(self.heard(sock))

    def line(self) -> bytes:
        """A line of JSON: a proc's, with odd values here and there; or none."""
        rng = self.rng
        hello: dict[str, object] = {
            "role": rng.choice(_ROLES[:5] if rng.random() < 0.8 else _ROLES),
            "rank": int(rng.random() * _SIZE),
            "number": int(rng.random() * _AGENTS),
            "pid": int(rng.random() * 9),
            "node": "here",
            "address": {"node": "here"},
        }
        for name in list(hello):
            if rng.random() < 0.1:
                hello[name] = rng.choice(_ODD)
            elif rng.random() < 0.05:
                del hello[name]
        whole = json.dumps(hello).encode() + b"\n"
        others = (
            rng.randbytes(40) + b"\n",
            b"[" * 20_000 + b"\n",
            b"7\n",
            whole[:-2] + b"\n",
            b"\xff\xfe\n",
            b"\n",
        )
        return whole if rng.random() < 0.8 else rng.choice(others)

    def enter(self) -> None:
        """A member comes, says a line, and more."""
        sock = self.come(member=True)
        knock = Knock(
            _SECRET, CONTROL_HEAD, MARK + self.rng.randbytes(NONCE_SIZE - len(MARK))
        )
        self.send(sock, CONTROL_HEAD + knock.nonce)
        answer = self.heard(sock)
        closing = knock.closing(answer)
        if closing is None:
            raise Crash("impirun does not prove itself")
        forged = self.forger.octets(ANSWER_SIZE)
        if forged != answer and knock.closing(forged) is not None:
            raise Crash("somebody else is taken for impirun")
        self.send(sock, closing)
        for octets in (CONTROL_HEAD + knock.nonce, answer, closing):
            self.forger.hears(octets)
        self.send(sock, self.line())
        while self.rng.random() < 0.5:
            self.send(sock, self.rng.choice(_WORDS))
        if self.rng.random() < 0.5:
            sock.close()
            self.turn()

    def play(self) -> bool:
        try:
            for _ in range(3 + int(self.rng.random() * 8)):
                if self.rng.random() < 0.6:
                    self.lie()
                else:
                    self.enter()
        finally:
            for sock in self.open:
                sock.close()
        for _ in range(3):
            self.turn()
        return self.deep


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: somebody without the token has sent a proof."""
    said: list[str] = []
    with selectors.DefaultSelector() as selector:
        fed: list[socket.socket] = []
        fetches, tls = rng.random() < 0.5, rng.random() < 0.2
        control = Control(
            "127.0.0.1",
            _SIZE,
            selector,
            said.append,
            agents=_AGENTS,
            feed=(lambda sock, _: fed.append(sock)) if fetches else None,
            tls=tls,
        )
        control.token = _TOKEN
        try:
            deep = _Game(rng, reached, control, selector).play()
            lost = control.losses.first
            if lost is not None and not is_shown(lost.word):
                raise Crash(f"not fit for a terminal: {lost.word}")
        finally:
            control.close()
            for sock in fed:
                sock.close()
    for sentence in said:
        if not is_shown(sentence):
            raise Crash(f"not fit for a terminal: {sentence}")
        why = sentence.partition("which ")[2] or sentence
        reached[
            "came where none was awaited"
            if why.startswith("came as")
            else without_numbers(why)
        ] += 1
    reached["members joined"] += len(control.joined)
    return deep


def _earlier() -> list[bytes]:
    """Return octets from an earlier proc that joins."""
    knock = Knock(_SECRET, CONTROL_HEAD, bytes(NONCE_SIZE))
    keeper = Keeper(_SECRET, CONTROL_HEAD, knock.nonce, b"\1" * NONCE_SIZE)
    closing = knock.closing(keeper.answer)
    assert closing is not None
    return [knock.nonce, keeper.answer, keeper.answer[:32], keeper.answer[32:], closing]


_EARLIER = _earlier()
