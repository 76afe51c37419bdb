"""impirun's control socket, to which its procs connect (docs/how-it-works/start-up.md).

A connection goes through four steps (:class:`_Step`). It begins with
:data:`~impi.rank.vendors.meeting.CONTROL_HEAD` and a nonce. Then both ends prove that they know the
token of this impirun (:mod:`impi.protocol.proofs`). The proven peer sends one line of JSON with its
role; in a job with TLS it begins a TLS session before that line. From then on its connection means
that it lives: how it ends, and the last word on it, tell how the proc has ended (:class:`Losses`).

Every process of the machine can connect here. So from a stranger fixed numbers of octets are read,
nothing is parsed before the proof, and :class:`~impi.rank.doors.entrance.Entrance` bounds their
number and time.
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
from impi.launch.start.program import TaskLink
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper, compare_digest
from impi.rank.doors.entrance import Entrance
from impi.rank.doors.introduce import new_nonce
from impi.rank.vendors.dial import listening, show_endpoint
from impi.rank.vendors.meeting import CONTROL_HEAD
from impi.rank.vendors.presence import EXIT, FINALIZED

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

_CHUNK: Final = 1 << 16
# Longest first line in octets: the list of some 200 000 procs
_MAX_LINE: Final = 1 << 24
# Most octets of a last word; a known proc that sends more keeps the last ones
_MAX_WORD: Final = 100
# Longest wait for further lost procs, one of which may name the cause
_LOST_S: Final = 1.0
_TURN_S: Final = 0.05
# The first octet of a TLS session; JSON begins with another one
_HANDSHAKE: Final = 0x16
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
    # The function by which it has ended the job, such as MPI_Abort; empty: none
    word: str
    at: float  # time of its end, on the monotonic clock
    code: int | None = None  # its exit code; None: unknown

    @property
    def weight(self) -> int:
        """Rank among lost procs: one of higher weight tells more about the cause."""
        return 2 if self.word else 1 if self.code else 0


@record(frozen=False)
class _Connection:
    sock: socket.socket
    address: str
    port: int
    received: bytearray = fresh(default_factory=bytearray)
    step: _Step = _Step.HEAD
    keeper: Keeper | None = None
    stream: Stream | None = None  # the TLS session, if the peer has begun one
    session_proved: bool = False
    # Node and process id of a proc of an MPI library
    proc: tuple[object, object] | None = None
    # Rank in the client of a proc without a library, in a resilient job
    rank: int | None = None


class Losses:
    """Lost procs, as the ends of connections and the last words on them show."""

    def __init__(self) -> None:
        # The reason of a process that says that the job cannot go on; empty: none
        self.failure = ""
        # The lost proc that tells most about the cause
        self.first: LostProc | None = None
        # Node and pid of procs that ended after MPI_Finalize
        self.finalized: set[tuple[object, object]] = set()
        self.alarmed = False  # whether vendor rank 0 has said that it has lost a peer
        # Last word of each proc that has ended, by _Connection.rank
        self.gone: dict[int, bytes] = {}

    def note_end(self, connection: _Connection) -> None:
        """Note a proc of an MPI library that has ended without MPI_Finalize.

        MPI_Abort ends all procs, and innocent ones may end before the one that called it. So one
        with a last word replaces one without, and one with an exit code one without or with 0.
        """

        # Only procs of resilient jobs come with a rank here. Survival waits for the
        # exit status, too, and judges both.
        if connection.rank is not None:
            self.gone[connection.rank] = bytes(connection.received)

        # Agents have connections, too, and vendor rank 0 a second one: the ends of
        # these processes show elsewhere.
        if connection.proc is None:
            return

        if connection.received == FINALIZED:
            self.finalized.add(connection.proc)
            return

        # Three last words: FINALIZED, an exit code, or the name of a function such as MPI_Abort.
        # None: a crash or SIGKILL, for instance.
        exits = _EXIT.fullmatch(connection.received)
        words = "" if exits else connection.received.decode("ascii", "replace")
        # It goes into a sentence for the user's terminal, so control characters are left out.
        word = "".join(c for c in words if c.isprintable())

        lost = LostProc(
            *connection.proc, word, time.monotonic(), int(exits[1]) if exits else None
        )
        # Among equal weights the first stays: later ones may have been ended on account of it.
        if self.first is None or lost.weight > self.first.weight:
            self.first = lost


class Control:
    """Accepts the procs of one client, and no other process.

    Args:
        address: address to listen on, which all procs must reach.
        size: number of procs.
        agents: number of host agents.
        selector: gets the sockets; call the data of a ready key in your loop.
        warn: called with one sentence for each refused connection.
        feed: gets the socket of a proc that fetches standard input, and its TLS session, if it has
            one; None: there is no input.
        tasks: ranks whose starters connect here (:mod:`impi.launch.client.outer`).
        tls: whether what says anything outside of a TLS session is refused.
    """

    def __init__(
        self,
        address: str,
        size: int,
        selector: selectors.BaseSelector,
        warn: Callable[[str], None],
        *,
        agents: int = 0,
        feed: Callable[[socket.socket, Stream | None], None] | None = None,
        tasks: Collection[int] = (),
        tls: bool = False,
    ) -> None:
        self.size, self._feed, self._tls = size, feed, tls
        self._tasks = set(tasks)
        # The connections of starters that have come, by rank; their user closes them.
        self.starters: dict[int, TaskLink] = {}
        self._awaited = range(agents)
        # Procs and agents get it in their invitation, and prove on
        # each connection that they know it.
        self.token = os.urandom(16).hex()
        # Procs that have begun MPI_Init: (node, pid) under an MPI library, rank without one.
        self.joined: set[object] = set()
        # Facts from vendor rank 0; None: not here yet
        self.rank0: dict[str, Any] | None = None
        # Facts from each host agent, by number
        self.agents: dict[int, dict[str, Any]] = {}
        self.losses = Losses()
        # Connections that get an answer: that of vendor rank 0, and of each agent by number.
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
        """A sentence about the lost proc that tells most about the cause; empty: none is lost."""

        lost = self.losses.first
        if lost is None:
            return ""

        title = self.rank_of(lost.pid) or f"a process of this client on {lost.node}"
        code = "" if lost.code is None else f"with exit code {lost.code}, "
        how = (
            f"called {lost.word}" if lost.word else f"ended {code}without MPI_Finalize"
        )

        return f"{title} (process {lost.pid}) {how}"

    def rank_of(self, pid: object) -> str:
        """Return the name of the proc with a process id; empty: no proc or several have it."""
        # Several: on different nodes process ids may be equal.
        procs = (self.rank0 or {}).get("procs", [])
        found = [rank for rank, item in enumerate(procs) if item["pid"] == pid]

        return f"rank {found[0]} of this client" if len(found) == 1 else ""

    @property
    def finalized_ranks(self) -> set[int]:
        """Ranks whose procs have ended after MPI_Finalize, by their last words."""
        pids = {pid for _, pid in self.losses.finalized}
        return {
            rank
            for rank, item in enumerate((self.rank0 or {}).get("procs", []))
            if item["pid"] in pids
        }

    def answer_agent(self, number: int, reply: dict[str, object]) -> None:
        self._send(self._answered[number], reply)

    def answer(self, reply: dict[str, object]) -> None:
        if _RANK0 in self._answered:
            self._send(self._answered[_RANK0], reply)

    def tell(self, news: dict[str, object]) -> None:
        # The entrance iterates over a copy: _send() drops connections that have ended.
        for connection in self.entrance:
            if connection.proc is not None or connection.rank is not None:
                self._send(connection, news)

    def close(self) -> None:
        self.entrance.close()
        for task in self.starters.values():
            task.close()

    def await_lost(self, turn: Callable[[float], object]) -> None:
        """Wait a second at most for the last words of lost procs; ``turn`` runs the owner's loop.

        An mpiexec can end before procs that it has killed, and before the one that has aborted.
        """
        patience = Patience(_LOST_S, self.size)
        while (
            not (self.losses.first and self.losses.first.word)
            and self._procs_live()
            and not patience.ended()
        ):
            turn(_TURN_S)

    def _procs_live(self) -> bool:
        return any(connection.proc is not None for connection in self.entrance)

    def _read(self, connection: _Connection) -> None:
        # A stranger's octets are counted: what follows the proof is left for the next step.
        wanted = {_Step.HEAD: _OPENING, _Step.PROOF: PROOF_SIZE}.get(
            connection.step, _CHUNK + len(connection.received)
        )

        data = self.entrance.receive(connection, wanted - len(connection.received))
        if data is None:
            return

        # The kernel closes the connection of any process that ends, however that is. So an end
        # without the right word is news of a loss.
        if not data:
            self.losses.note_end(connection)
            self.entrance.drop(connection)
            return

        # The peer decides whether TLS begins here, since it was told; plain JSON starts with '{'.
        begins = (
            connection.step is _Step.LINE
            and not connection.received
            and data[0] == _HANDSHAKE
        )
        if (begins or connection.stream is not None) and not (
            data := self._decrypted(connection, data)
        ):
            return

        if connection.step is _Step.KNOWN:
            # Vendor rank 0 says nothing after its line but that it has lost a peer.
            self.losses.alarmed = (
                self.losses.alarmed or connection is self._answered.get(_RANK0)
            )
            connection.received = connection.received[-_MAX_WORD:] + data
            return

        # Who sits between passes the proofs on, and would then speak for the proc.
        if connection.step is _Step.LINE and self._tls and connection.stream is None:
            self._refuse(connection, "speaks without TLS: somebody is between")
            return

        connection.received += data

        # Strangers that say nothing are closed first when room is needed.
        self.entrance.spoke(connection)
        if connection.step is _Step.LINE:
            self._read_line(connection, data)
        elif len(connection.received) == wanted:
            octets, connection.received = bytes(connection.received), bytearray()
            self._prove(connection, octets)

    def _decrypted(self, connection: _Connection, data: bytes) -> bytes:
        """Return the octets of a proven peer inside its TLS session; empty: refused, or none yet.

        The certificates prove nothing: each end sends a proof over token and session, so that a
        relay between the two, with a session to each, is found out.
        """

        from impi.protocol.startup.encrypted import INTERCEPTED, Stream, session_proof

        # This end accepts, and the proc begins: both roles are in the proof,
        # so that it cannot be sent back.
        stream = connection.stream = connection.stream or Stream(accepts=True)
        try:
            heard, answer = stream.receive(data)
            # The proof is the first thing inside the session. Nothing is parsed before it.
            if heard and not connection.session_proved:
                ours, theirs = (
                    session_proof(bytes.fromhex(self.token), stream.binding, accepts=a)
                    for a in (True, False)
                )
                if not compare_digest(heard, theirs):
                    raise PeerError(INTERCEPTED)

                connection.session_proved = True
                heard, answer = b"", answer + stream.send(ours)
        except PeerError as error:
            self._refuse(connection, error.message)
            return b""

        with suppress(OSError):  # the next read finds the end
            connection.sock.send(answer)

        return heard

    def _prove(self, connection: _Connection, octets: bytes) -> None:
        if connection.keeper is not None:
            # A wrong proof counts as a guess, and slows what comes from that address.
            if connection.keeper.accepts(octets):
                connection.step = _Step.LINE
                self.entrance.welcome(connection)
            else:
                self.entrance.refuse(
                    connection, "does not know this job's token", guess=True
                )

            return

        head, nonce = octets[: len(CONTROL_HEAD)], octets[len(CONTROL_HEAD) :]
        if head != CONTROL_HEAD:
            self._refuse(connection, "is not a process of a job")
            return

        # A new nonce for each connection: a proof that somebody has recorded fits none of them.
        connection.keeper = Keeper(
            bytes.fromhex(self.token), CONTROL_HEAD, nonce, new_nonce()
        )

        connection.step = _Step.PROOF
        with suppress(OSError):  # the next read finds the end
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
            # RecursionError: JSON that is nested too deeply
            hello = None

        if not isinstance(hello, dict):
            self._refuse(connection, "sent no JSON object")
            return

        # The guards: rank 0, an agent or a task that comes twice must
        # not replace the one that is here.
        connection.step = _Step.KNOWN
        match hello.get("role"):
            case "joining" if isinstance(hello.get("node", ""), str) and isinstance(
                hello.get("pid"), int
            ):
                connection.proc = (hello.get("node", ""), hello["pid"])
                self.joined.add(connection.proc)
            case "present" if hello.get("rank") in range(self.size):
                connection.rank = hello["rank"]
            case "rank0" if self.rank0 is None:
                self.rank0 = hello
                self._answered[_RANK0] = connection
            case "pure" if (
                hello.get("rank") in range(self.size)
                and hello["rank"] not in self._pure
            ):
                self._add_pure(connection, hello)
            case "host" if (
                hello.get("number") in self._awaited
                and hello["number"] not in self.agents
            ):
                self.agents[hello["number"]] = hello
                self._answered[hello["number"]] = connection
            case "failed" if isinstance(hello.get("reason"), str):
                self.losses.failure = self.losses.failure or "".join(
                    filter(str.isprintable, hello["reason"])
                )
                self.entrance.forget(connection)
                connection.sock.close()
            case "input" if self._feed is not None:
                self.entrance.forget(connection)
                self._feed(connection.sock, connection.stream)
            case "starter" if hello.get("rank") in self._tasks:
                self._add_starter(connection, hello["rank"])
            case role:
                self._refuse(
                    connection,
                    f"came as {role!r}, rank {hello.get('rank')!r}, where none was awaited",
                )

    def _add_starter(self, connection: _Connection, rank: int) -> None:
        if connection.stream is None:
            self._refuse(
                connection, "came as a starter without TLS: it is of another version"
            )
            return

        self._tasks.remove(rank)
        self.entrance.forget(connection)
        connection.sock.setblocking(True)
        self.starters[rank] = TaskLink(connection.sock, connection.stream)

    def _add_pure(self, connection: _Connection, hello: dict[str, Any]) -> None:
        self.joined.add(hello["rank"])

        self._pure[hello["rank"]] = (connection, hello.get("address"))
        if len(self._pure) == self.size:
            peers = [self._pure[rank][1] for rank in range(self.size)]
            for other, _ in self._pure.values():
                self._send(other, {"peers": peers})

    def _send(self, connection: _Connection, reply: dict[str, object]) -> None:
        line = json.dumps(reply).encode() + b"\n"
        if not self.entrance.send(
            connection,
            line if connection.stream is None else connection.stream.send(line),
        ):
            # That proc has ended, and its launcher says so
            self.entrance.drop(connection)

    def _refuse(self, connection: _Connection, why: str) -> None:
        self.entrance.refuse(connection, why, known=connection.step is _Step.KNOWN)
