"""impirun's control socket, to which its procs connect (docs/how-it-works/start-up.md).

A connection begins with :data:`~impi.rank.vendors.meeting.CONTROL_HEAD` and a nonce; then both ends
prove that they know the token of this impirun (:mod:`impi.protocol.proofs`). Until then a
connection is a stranger, of which fixed numbers of octets are read and nothing is parsed. A proven
one sends one line of JSON: what it is. Where the job has TLS, it begins a TLS session before that
line.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from impi.base.errors import PeerError
from impi.base.records import fresh, record
from impi.base.remote.patience import Patience
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper, compare_digest
from impi.rank.doors.entrance import Entrance
from impi.rank.doors.introduce import new_nonce
from impi.rank.vendors.dial import listening, show_endpoint
from impi.rank.vendors.meeting import CONTROL_HEAD
from impi.rank.vendors.presence import EXIT, FINALIZED

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 24  # longest first line in octets: the list of some 200 000 procs
_MAX_WORD: Final = 100
_LOST_S: Final = 1.0
_TURN_S: Final = 0.05
_HANDSHAKE: Final = 0x16  # the first octet of a TLS session; JSON begins with another one
_RANK0: Final = "rank0"
_EXIT: Final = re.compile(re.escape(EXIT) + rb"(\d{1,3})")
_OPENING: Final = len(CONTROL_HEAD) + NONCE_SIZE


class _Step(Enum):
    HEAD = auto()
    PROOF = auto()
    LINE = auto()
    KNOWN = auto()


@record
class LostProc:
    """A proc of an MPI library that has ended without MPI_Finalize."""

    node: object
    pid: object
    word: str  # what it has called to end the job; empty: nothing
    at: float
    code: int | None = None  # its exit code; None: unknown

    @property
    def weight(self) -> int:
        """How much more it tells of the cause than another one that has ended before."""
        return 2 if self.word else 1 if self.code else 0


@record(frozen=False)
class _Connection:
    sock: socket.socket
    address: str
    port: int
    received: bytearray = fresh(default_factory=bytearray)
    step: _Step = _Step.HEAD
    keeper: Keeper | None = None
    stream: Stream | None = None  # the TLS session, if this process wants one
    session_proved: bool = False
    proc: tuple[object, object] | None = None
    rank: int | None = None  # rank in the client of a proc without one, in a resilient job


class Losses:
    """What the ends and the words of procs tell of what is lost."""

    def __init__(self) -> None:
        self.failure = ""  # why a process says that the job cannot go on; empty: none does
        self.first: LostProc | None = None
        self.finalized: set[tuple[object, object]] = set()  # node and pid of those that ended after MPI_Finalize
        self.alarmed = False  # whether vendor rank 0 has said that a peer of it is lost
        self.gone: dict[int, bytes] = {}  # the last word of each proc that has ended, by rank (see _Connection.rank)

    def note_end(self, connection: _Connection) -> None:
        """Note the first proc of an MPI library that ends in another way than by MPI_Finalize.

        MPI_Abort ends all procs, and others may be gone first: a last word goes before none, and an
        exit code before none or 0.
        """
        if connection.rank is not None:
            self.gone[connection.rank] = bytes(connection.received)
        if connection.proc is None:
            return
        if connection.received == FINALIZED:
            self.finalized.add(connection.proc)
            return
        exits = _EXIT.fullmatch(connection.received)
        words = "" if exits else connection.received.decode("ascii", "replace")
        word = "".join(c for c in words if c.isprintable())
        lost = LostProc(*connection.proc, word, time.monotonic(), int(exits[1]) if exits else None)
        if self.first is None or lost.weight > self.first.weight:
            self.first = lost


class Control:
    """Accepts the procs of one client, and no other process.

    Args:
        address: to listen on; all procs must reach it.
        size: number of procs.
        agents: number of host agents.
        selector: for its sockets; the data of a key is a callable for the owner's loop.
        warn: called with one sentence for each refused connection.
        feed: gets the socket of a proc that fetches standard input; None: there is no input.
        tasks: ranks whose starters come here by themselves (:mod:`impi.launch.client.outer`).
    """

    def __init__(
        self,
        address: str,
        size: int,
        selector: selectors.BaseSelector,
        warn: Callable[[str], None],
        *,
        agents: int = 0,
        feed: Callable[[socket.socket], None] | None = None,
        tasks: Collection[int] = (),
    ) -> None:
        self.size, self._feed = size, feed
        self._tasks = set(tasks)
        # The connections of starters that have come, by rank; their user closes them.
        self.starters: dict[int, socket.socket] = {}
        self._awaited = range(agents)
        self.token = os.urandom(16).hex()
        # Procs that have begun MPI_Init: (node, pid) under an MPI library, rank without one.
        self.joined: set[object] = set()
        self.rank0: dict[str, Any] | None = None  # facts from vendor rank 0; None: not here yet
        self.agents: dict[int, dict[str, Any]] = {}  # facts from each host agent, by number
        self.losses = Losses()
        # The connections that get an answer: of vendor rank 0, and of each agent by number.
        self._answered: dict[object, _Connection] = {}
        self._pure: dict[int, tuple[_Connection, object]] = {}
        self.entrance = Entrance(
            listening(address, 1024),
            selector,
            size + agents,
            make=_Connection,
            read=self._read,
            show=show_endpoint,
            warn=warn,
        )

    @property
    def endpoint(self) -> str:
        return self.entrance.endpoint

    @property
    def serves(self) -> bool:
        return len(self._awaited) > 0

    @property
    def complete(self) -> bool:
        return self.rank0 is not None and len(self.agents) == len(self._awaited)

    @property
    def lost_proc(self) -> str:
        """The first proc of an MPI library to end without MPI_Finalize, and how; empty: none."""
        lost = self.losses.first
        if lost is None:
            return ""
        title = self.rank_of(lost.pid) or f"a process of this client on {lost.node}"
        code = "" if lost.code is None else f"with exit code {lost.code}, "
        how = f"called {lost.word}" if lost.word else f"ended {code}without MPI_Finalize"
        return f"{title} (process {lost.pid}) {how}"

    def rank_of(self, pid: object) -> str:
        """Return the name of the proc with that process id; empty: none or several have it."""
        procs = (self.rank0 or {}).get("procs", [])
        found = [rank for rank, item in enumerate(procs) if item["pid"] == pid]
        return f"rank {found[0]} of this client" if len(found) == 1 else ""

    @property
    def finalized_ranks(self) -> set[int]:
        """The ranks whose procs have ended after MPI_Finalize, as impi tells it."""
        pids = {pid for _, pid in self.losses.finalized}
        return {rank for rank, item in enumerate((self.rank0 or {}).get("procs", [])) if item["pid"] in pids}

    def answer_agent(self, number: int, reply: dict[str, object]) -> None:
        self._send(self._answered[number], reply)

    def answer(self, reply: dict[str, object]) -> None:
        if _RANK0 in self._answered:
            self._send(self._answered[_RANK0], reply)

    def tell(self, news: dict[str, object]) -> None:
        for connection in self.entrance:
            if connection.proc is not None or connection.rank is not None:
                self._send(connection, news)

    def close(self) -> None:
        self.entrance.close()
        for sock in self.starters.values():
            sock.close()

    def await_lost(self, turn: Callable[[float], object]) -> None:
        """Wait a second at most for the ends of procs that are lost; ``turn`` runs the loop.

        An mpiexec can end before procs that it has killed, and before the one that has aborted.
        """
        patience = Patience(_LOST_S, self.size)
        while not (self.losses.first and self.losses.first.word) and self._procs_live() and not patience.ended():
            turn(_TURN_S)

    def _procs_live(self) -> bool:
        return any(connection.proc is not None for connection in self.entrance)

    def _read(self, connection: _Connection) -> None:
        wanted = {_Step.HEAD: _OPENING, _Step.PROOF: PROOF_SIZE}.get(connection.step, _CHUNK + len(connection.received))
        data = self.entrance.receive(connection, wanted - len(connection.received))
        if data is None:
            return
        if not data:
            self.losses.note_end(connection)
            self.entrance.drop(connection)
            return
        begins = connection.step is _Step.LINE and not connection.received and data[0] == _HANDSHAKE
        if (begins or connection.stream is not None) and not (data := self._decrypted(connection, data)):
            return
        if connection.step is _Step.KNOWN:
            self.losses.alarmed = self.losses.alarmed or connection is self._answered.get(_RANK0)
            connection.received = connection.received[-_MAX_WORD:] + data
            return
        connection.received += data
        self.entrance.spoke(connection)
        if connection.step is _Step.LINE:
            self._read_line(connection, data)
        elif len(connection.received) == wanted:
            octets, connection.received = bytes(connection.received), bytearray()
            self._prove(connection, octets)

    def _decrypted(self, connection: _Connection, data: bytes) -> bytes:
        """Return what a proven process says in its TLS session; nothing where it was refused."""
        from impi.protocol.startup.encrypted import Stream, session_proof

        stream = connection.stream = connection.stream or Stream(accepts=True)
        try:
            heard, answer = stream.receive(data)
            if heard and not connection.session_proved:
                ours, theirs = (
                    session_proof(bytes.fromhex(self.token), stream.binding, accepts=a) for a in (True, False)
                )
                if not compare_digest(heard, theirs):
                    raise PeerError("holds another TLS session: somebody is between")
                connection.session_proved = True
                heard, answer = b"", answer + stream.send(ours)
        except PeerError as error:
            self._refuse(connection, error.message)
            return b""
        with suppress(OSError):  # the next read tells
            connection.sock.send(answer)
        return heard

    def _prove(self, connection: _Connection, octets: bytes) -> None:
        if connection.keeper is not None:
            if connection.keeper.accepts(octets):
                connection.step = _Step.LINE
                self.entrance.welcome(connection)
            else:
                self.entrance.refuse(connection, "does not know this job's token", guess=True)
            return
        head, nonce = octets[: len(CONTROL_HEAD)], octets[len(CONTROL_HEAD) :]
        if head != CONTROL_HEAD:
            self._refuse(connection, "is no process of a job")
            return
        connection.keeper = Keeper(bytes.fromhex(self.token), CONTROL_HEAD, nonce, new_nonce())
        connection.step = _Step.PROOF
        with suppress(OSError):  # the next read tells
            connection.sock.send(connection.keeper.answer)

    def _read_line(self, connection: _Connection, data: bytes) -> None:
        if b"\n" in data:
            line, _, _ = connection.received.partition(b"\n")
            connection.received = bytearray()
            self._introduce(connection, bytes(line))
        elif len(connection.received) > _MAX_LINE:
            self._refuse(connection, "sent no end of line")

    def _introduce(self, connection: _Connection, line: bytes) -> None:
        try:
            hello = json.loads(line)
        except (ValueError, RecursionError):
            hello = None
        if not isinstance(hello, dict):
            self._refuse(connection, "sent no JSON object")
            return
        connection.step = _Step.KNOWN
        match hello.get("role"):
            case "joining" if isinstance(hello.get("node", ""), str) and isinstance(hello.get("pid"), int):
                connection.proc = (hello.get("node", ""), hello["pid"])
                self.joined.add(connection.proc)
            case "present" if hello.get("rank") in range(self.size):
                connection.rank = hello["rank"]
            case "rank0" if self.rank0 is None:
                self.rank0 = hello
                self._answered[_RANK0] = connection
            case "pure" if hello.get("rank") in range(self.size) and hello["rank"] not in self._pure:
                self._add_pure(connection, hello)
            case "host" if hello.get("number") in self._awaited and hello["number"] not in self.agents:
                self.agents[hello["number"]] = hello
                self._answered[hello["number"]] = connection
            case "failed" if isinstance(hello.get("reason"), str):
                self.losses.failure = self.losses.failure or "".join(filter(str.isprintable, hello["reason"]))
                self.entrance.forget(connection)
                connection.sock.close()
            case "input" if self._feed is not None:
                self.entrance.forget(connection)
                self._feed(connection.sock)
            case "starter" if hello.get("rank") in self._tasks:
                self._tasks.remove(hello["rank"])
                self.entrance.forget(connection)
                connection.sock.setblocking(True)
                self.starters[hello["rank"]] = connection.sock
            case role:
                self._refuse(connection, f"came as {role!r}, rank {hello.get('rank')!r}, where none was awaited")

    def _add_pure(self, connection: _Connection, hello: dict[str, Any]) -> None:
        self.joined.add(hello["rank"])
        self._pure[hello["rank"]] = (connection, hello.get("address"))
        if len(self._pure) == self.size:
            peers = [self._pure[rank][1] for rank in range(self.size)]
            for other, _ in self._pure.values():
                self._send(other, {"peers": peers})

    def _send(self, connection: _Connection, reply: dict[str, object]) -> None:
        line = json.dumps(reply).encode() + b"\n"
        if not self.entrance.send(connection, line if connection.stream is None else connection.stream.send(line)):
            self.entrance.drop(connection)  # that proc has ended, which its launcher tells

    def _refuse(self, connection: _Connection, why: str) -> None:
        self.entrance.refuse(connection, why, known=connection.step is _Step.KNOWN)
