"""impirun's control socket, to which its procs connect (docs/how-it-works/start-up.md).

A connection begins with :data:`~impi.vendors.meeting.CONTROL_HEAD` and a nonce; then both ends
prove that they know the token of this impirun (:mod:`impi.proofs`). Until then a connection is a
stranger, of which fixed numbers of octets are read and nothing is parsed. A proven one sends one
line of JSON: what it is. Where the job has TLS, it begins a TLS session before that line.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from impi.doors.introduce import new_nonce
from impi.doors.strangers import MOST, Refusals, Strangers
from impi.errors import PeerError
from impi.proofs import NONCE_SIZE, PROOF_SIZE, Keeper, compare_digest
from impi.records import fresh, record
from impi.remote.patience import Patience
from impi.vendors.dial import listening, show_endpoint
from impi.vendors.meeting import CONTROL_HEAD
from impi.vendors.presence import FINALIZED

if TYPE_CHECKING:
    from impi.startup.encrypted import Stream

_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 24
"""Longest first line in octets: the list of some 200 000 procs."""
_MAX_WORD: Final = 100
"""Most octets of a proc's last word."""
_SEND_S: Final = 10.0
_LOST_S: Final = 1.0
_TURN_S: Final = 0.05
_HANDSHAKE: Final = 0x16
"""The first octet of a TLS session; JSON begins with another one."""
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
    word: str
    """Its last word; empty: none."""
    at: float


@record(frozen=False)
class _Connection:
    sock: socket.socket
    address: str
    port: int
    received: bytearray = fresh(default_factory=bytearray)
    step: _Step = _Step.HEAD
    keeper: Keeper | None = None
    stream: Stream | None = None
    """The TLS session, if this process wants one."""
    session_proved: bool = False
    proc: tuple[object, object] | None = None
    """Node and process id of a proc under an MPI library."""
    rank: int | None = None
    """Rank in the client of a proc without one, in a resilient job."""


class Control:
    """Accepts the procs of one client, and no other process.

    Args:
        address: to listen on; all procs must reach it.
        size: number of procs.
        agents: number of host agents.
        selector: for its sockets; the data of a key is a callable for the owner's loop.
        warn: called with one sentence for each refused connection.
        feed: gets the socket of a proc that fetches standard input; None: there is no input.
        tasks: ranks whose starters come here by themselves (:mod:`impi.launch.outer`).
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
        self._size = size
        self.serves = agents > 0
        """Whether there are host agents."""
        self._feed = feed
        self._tasks = set(tasks)
        self.starters: dict[int, socket.socket] = {}
        """The connections of starters that have come, by rank; their user closes them."""
        self._missing = list(range(agents))
        """Numbers of the host agents that are not connected."""
        self._selector = selector
        self._warn = warn
        self.token = os.urandom(16).hex()
        self.joined: set[object] = set()
        """Procs that have begun MPI_Init: (node, pid) under an MPI library, rank without one."""
        self.rank0: dict[str, Any] | None = None
        """Facts from vendor rank 0; None: not here yet."""
        self.agents: dict[int, dict[str, Any]] = {}
        """Facts from each host agent, by number."""
        self.first_lost: LostProc | None = None
        self.alarmed = False
        """Whether vendor rank 0 has said that a peer of it is lost."""
        self.gone: dict[int, bytes] = {}
        """The last word of each proc that has ended, by rank (see :attr:`_Connection.rank`)."""
        self._rank0_connection: _Connection | None = None
        self._agent_connections: dict[int, _Connection] = {}
        self._pure: dict[int, tuple[_Connection, object]] = {}
        self._connections: dict[int, _Connection] = {}
        self._strangers: Strangers[int] = Strangers(most=MOST + size + agents)
        self._refusals = Refusals(warn)
        self._listener = listening(address, 1024)
        self._listener.setblocking(False)
        self.endpoint = show_endpoint(address, self._listener.getsockname()[1])
        """``address:port``."""
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def complete(self) -> bool:
        """Whether all facts for the other clients are here."""
        return self.rank0 is not None and not self._missing

    def answer_agent(self, number: int, reply: dict[str, object]) -> None:
        """Answer a host agent with the job and its host index."""
        self._send(self._agent_connections[number], reply)

    def answer(self, reply: dict[str, object]) -> None:
        """Answer vendor rank 0 with the job or an error."""
        if self._rank0_connection is not None:
            self._send(self._rank0_connection, reply)

    def tell(self, news: dict[str, object]) -> None:
        """Tell all procs that live, in a resilient job."""
        for connection in list(self._connections.values()):
            if connection.proc is not None or connection.rank is not None:
                self._send(connection, news)

    def close(self) -> None:
        """Close all its sockets."""
        for connection in [*self._connections.values()]:
            self._drop(connection)
        for sock in self.starters.values():
            sock.close()
        self._selector.unregister(self._listener)
        self._listener.close()
        self._strangers.close()
        self._refusals.summary()

    def await_lost(self, turn: Callable[[float], object]) -> None:
        """Wait a second at most for the ends of procs that are lost; ``turn`` runs the loop.

        An mpiexec can end before procs that it has killed, and before the one that has aborted.
        """
        patience = Patience(_LOST_S, self._size)
        while not (self.first_lost and self.first_lost.word) and self._procs_live() and not patience.ended():
            turn(_TURN_S)

    def _procs_live(self) -> bool:
        return any(connection.proc is not None for connection in self._connections.values())

    @property
    def patience(self) -> float:
        """Seconds until :meth:`close_silent` has something to do; infinite: nothing."""
        return self._strangers.patience

    def close_silent(self) -> None:
        """Close connections that have had their time to prove what they are."""
        for descriptor in self._strangers.overdue():
            self._refuse(self._connections[descriptor], "has not said in time what it is")

    def _accept(self) -> None:
        accepted = self._strangers.accept(self._listener)
        if accepted is not None:
            connection = _Connection(*accepted)
            descriptor = connection.sock.fileno()
            self._connections[descriptor] = connection
            self._strangers.add(descriptor, connection.address)
            self._selector.register(connection.sock, selectors.EVENT_READ, lambda: self._read(connection))
        while (surplus := self._strangers.surplus()) is not None:
            self._refuse(self._connections[surplus], "was closed to make room for others")

    def _read(self, connection: _Connection) -> None:
        if connection.sock.fileno() not in self._connections:
            return  # closed in this turn, to make room
        wanted = {_Step.HEAD: _OPENING, _Step.PROOF: PROOF_SIZE}.get(connection.step, _CHUNK + len(connection.received))
        try:
            data = connection.sock.recv(wanted - len(connection.received))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._note_end(connection)
            self._drop(connection)
            return
        begins = connection.step is _Step.LINE and not connection.received and data[0] == _HANDSHAKE
        if (begins or connection.stream is not None) and not (data := self._decrypted(connection, data)):
            return
        if connection.step is _Step.KNOWN:
            self.alarmed = self.alarmed or connection is self._rank0_connection
            connection.received = connection.received[-_MAX_WORD:] + data
            return
        connection.received += data
        self._strangers.spoke(connection.sock.fileno())
        if connection.step is _Step.LINE:
            self._read_line(connection, data)
        elif len(connection.received) == wanted:
            octets, connection.received = bytes(connection.received), bytearray()
            self._prove(connection, octets)

    def _decrypted(self, connection: _Connection, data: bytes) -> bytes:
        """Return what a proven process says in its TLS session; nothing where it was refused."""
        from impi.startup.encrypted import Stream, session_proof

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

    def _note_end(self, connection: _Connection) -> None:
        """Note the first proc of an MPI library that ends in another way than by MPI_Finalize.

        MPI_Abort ends all procs, and others may be gone first: a last word goes before none.
        """
        if connection.rank is not None:
            self.gone[connection.rank] = bytes(connection.received)
        first = self.first_lost is None or (bool(connection.received) and not self.first_lost.word)
        if connection.proc is not None and first and connection.received != FINALIZED:
            words = connection.received.decode("ascii", "replace")
            node, pid = connection.proc
            word = "".join(c for c in words if c.isprintable())
            self.first_lost = LostProc(node, pid, word, time.monotonic())

    def _prove(self, connection: _Connection, octets: bytes) -> None:
        """Take the next step of a stranger's introduction, with all its octets."""
        if connection.keeper is not None:
            if connection.keeper.accepts(octets):
                connection.step = _Step.LINE
                self._strangers.discard(connection.sock.fileno())
            else:
                self._refuse(connection, "does not know this job's token")
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
        """Look for the end of the line in what is new."""
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
            case "present" if hello.get("rank") in range(self._size):
                connection.rank = hello["rank"]
            case "rank0" if self.rank0 is None:
                self.rank0 = hello
                self._rank0_connection = connection
            case "pure" if hello.get("rank") in range(self._size) and hello["rank"] not in self._pure:
                self._add_pure(connection, hello)
            case "host" if hello.get("number") in self._missing:
                self._missing.remove(hello["number"])
                self.agents[hello["number"]] = hello
                self._agent_connections[hello["number"]] = connection
            case "input" if self._feed is not None:
                self._forget(connection)
                self._feed(connection.sock)
            case "starter" if hello.get("rank") in self._tasks:
                self._tasks.remove(hello["rank"])
                self._forget(connection)
                connection.sock.setblocking(True)
                self.starters[hello["rank"]] = connection.sock
            case role:
                self._refuse(connection, f"came as {role!r}, rank {hello.get('rank')!r}, where none was awaited")

    def _add_pure(self, connection: _Connection, hello: dict[str, Any]) -> None:
        self.joined.add(hello["rank"])
        self._pure[hello["rank"]] = (connection, hello.get("address"))
        if len(self._pure) == self._size:
            peers = [self._pure[rank][1] for rank in range(self._size)]
            for other, _ in self._pure.values():
                self._send(other, {"peers": peers})

    def _send(self, connection: _Connection, reply: dict[str, object]) -> None:
        try:
            connection.sock.settimeout(_SEND_S)
            line = json.dumps(reply).encode() + b"\n"
            connection.sock.sendall(line if connection.stream is None else connection.stream.send(line))
            connection.sock.setblocking(False)
        except OSError:
            self._drop(connection)  # that proc has ended, which its launcher tells

    def _refuse(self, connection: _Connection, why: str) -> None:
        peer = show_endpoint(connection.address, connection.port)
        sentence = f"closed a connection to {self.endpoint} from {peer}, which {why}"
        if connection.step is _Step.KNOWN:
            self._warn(sentence)
        else:
            self._refusals.tell(connection.address, why, sentence)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.sock.fileno() in self._connections:
            self._forget(connection)
            connection.sock.close()

    def _forget(self, connection: _Connection) -> None:
        descriptor = connection.sock.fileno()
        del self._connections[descriptor]
        self._strangers.discard(descriptor)
        self._selector.unregister(connection.sock)
