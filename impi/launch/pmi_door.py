"""The door of the process manager of one client: where its procs come by PMI_PORT.

How it works: MPICH's library connects to ``PMI_PORT`` and says ``initack`` with the number of
``PMI_ID``, which nobody else has been told; the answer names its rank. From then on the queries of
the connection go to the :class:`~impi.pmi.manager.Manager`, and its lines to whom it says. A
library that is finalized and initialised again comes again with its number.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from impi.doors.strangers import MOST, Refusals, Strangers
from impi.errors import JobError, PeerError
from impi.pmi.lines import Query, QueryReader
from impi.pmi.manager import Manager
from impi.records import fresh, record
from impi.vendors.dial import listening, show_endpoint

_CHUNK: Final = 1 << 16
_IDS: Final = 2**31 - 1
"""A library reads its number as an int of C."""
_MOST_WRONG: Final = 100
"""Wrong numbers after which somebody is guessing; a library never has one."""
_SEND_S: Final = 10.0
_LOST_S: Final = 3.0
"""The longest wait for the exit status of a proc whose connection has ended."""


@record(frozen=False)
class _Connection:
    sock: socket.socket
    address: str
    port: int
    reader: QueryReader = fresh(default_factory=QueryReader)
    rank: int | None = None


class PmiDoor:
    """Serves PMI to the procs of one client, and to no other process.

    Args:
        address: to listen on; all procs must reach it.
        nodes: the number of procs on each node, in the order of ranks.
        selector: for its sockets; the data of a key is a callable for the owner's loop.
        warn: prints a sentence for the user.
    """

    def __init__(
        self, address: str, nodes: Sequence[int], selector: selectors.BaseSelector, warn: Callable[[str], None]
    ) -> None:
        self.manager = Manager(f"kvs_{secrets.token_hex(8)}", nodes)
        self._selector = selector
        self._warn = warn
        self._refusals = Refusals(warn)
        chosen = secrets.SystemRandom().sample(range(1, _IDS), self.manager.size)
        self.ids: tuple[int, ...] = tuple(chosen)
        """The number of each rank, for its ``PMI_ID``."""
        self._rank_of = {number: rank for rank, number in enumerate(chosen)}
        self._members: dict[int, _Connection] = {}
        self._connections: dict[int, _Connection] = {}
        self._strangers: Strangers[int] = Strangers(most=MOST + self.manager.size)
        self._wrong = 0
        self._told = 0
        self._lost: tuple[int, float] | None = None
        self._listener = listening(address, 1024)
        self._listener.setblocking(False)
        self.endpoint = show_endpoint(address, self._listener.getsockname()[1])
        """``address:port``, for PMI_PORT."""
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def patience(self) -> float:
        """Seconds until :meth:`close_silent` has something to do; infinite: nothing."""
        return self._strangers.patience

    def close_silent(self) -> None:
        """Close connections that have had their time to say a number."""
        for descriptor in self._strangers.overdue():
            self._refuse(self._connections[descriptor], "has not said in time what it is")

    def check(self, ended: Collection[int] = ()) -> None:
        """Raise JobError if a rank has left PMI too early; ``ended``: ranks that ended with 0."""
        if self._lost is None:
            return
        rank, at = self._lost
        if rank in ended:
            raise JobError(f"rank {rank} of this client ended with exit code 0, but without MPI_Finalize")
        if time.monotonic() - at > _LOST_S:
            raise JobError(f"rank {rank} of this client ended its connection to PMI without 'finalize'")

    def never_came(self, ended: set[int]) -> int | None:
        """Return a rank of those ``ended`` for which others will wait in PMI; None: none."""
        never = ended - self.manager.initialised
        return min(never) if never and self.manager.initialised else None

    def close(self) -> None:
        """Close all its sockets."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._strangers.close()
        self._refusals.summary()

    def _accept(self) -> None:
        accepted = self._strangers.accept(self._listener)
        if accepted is not None:
            connection = _Connection(*accepted)
            # An answer follows each query: none may wait for more.
            with suppress(OSError):
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            descriptor = connection.sock.fileno()
            self._connections[descriptor] = connection
            self._strangers.add(descriptor, connection.address)
            self._selector.register(connection.sock, selectors.EVENT_READ, lambda: self._read(connection))
        while (surplus := self._strangers.surplus()) is not None:
            self._refuse(self._connections[surplus], "was closed to make room for others")

    def _read(self, connection: _Connection) -> None:
        if connection.sock.fileno() not in self._connections:
            return  # closed in this turn
        try:
            data = connection.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._note_end(connection)
            self._drop(connection)
            return
        self._strangers.spoke(connection.sock.fileno())
        answers: dict[int, bytes] = {}
        try:
            for query in connection.reader.feed(data):
                if connection.rank is None:
                    if not self._introduce(connection, query):
                        return
                    answers[connection.rank or 0] = self.manager.greeting(connection.rank or 0)
                    continue
                for rank, line in self.manager.hear(connection.rank, query):
                    answers[rank] = answers.get(rank, b"") + line
        except PeerError as error:
            if connection.rank is None:
                self._refuse(connection, "speaks no PMI")
                return
            raise PeerError(error.message, peer=f"rank {connection.rank} of this client", octets=error.octets) from None
        finally:
            # Several queries that came at once get one segment of answers.
            for rank, lines in answers.items():
                self._send(rank, lines)
        self._tell(connection.rank)

    def _tell(self, rank: int | None) -> None:
        """Say what the manager has refused to do."""
        for sentence in self.manager.refused[self._told :]:
            self._warn(f"rank {rank} of this client {sentence}")
        self._told = len(self.manager.refused)

    def _introduce(self, connection: _Connection, query: Query) -> bool:
        """Find out which rank a connection is; whether it is one."""
        number = query.number("pmiid") if query.command == "initack" else 0
        rank = self._rank_of.get(number)
        if rank is None:
            self._wrong += 1
            self._refuse(connection, "has no number of a proc (PMI_ID)")
            if self._wrong > _MOST_WRONG:
                raise JobError(f"somebody guesses numbers of procs at {self.endpoint}: {self._wrong} were wrong")
            return False
        if rank in self._members and rank not in self.manager.finalized:
            self._refuse(connection, "has the number of a proc that is here (PMI_ID)")
            return False
        self._strangers.discard(connection.sock.fileno())
        connection.rank = rank
        self._members[rank] = connection
        return True

    def _note_end(self, connection: _Connection) -> None:
        rank = connection.rank
        if rank is None or self._members.get(rank) is not connection:
            return
        del self._members[rank]
        if rank in self.manager.initialised and rank not in self.manager.finalized and self._lost is None:
            self._lost = (rank, time.monotonic())

    def _send(self, rank: int, lines: bytes) -> None:
        connection = self._members.get(rank)
        if connection is None:
            return  # it has ended, which its starter tells
        try:
            connection.sock.settimeout(_SEND_S)
            connection.sock.sendall(lines)
            connection.sock.setblocking(False)
        except OSError:
            self._note_end(connection)
            self._drop(connection)

    def _refuse(self, connection: _Connection, why: str) -> None:
        peer = show_endpoint(connection.address, connection.port)
        self._refusals.tell(connection.address, why, f"closed a connection to {self.endpoint} from {peer}, which {why}")
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        descriptor = connection.sock.fileno()
        if self._connections.pop(descriptor, None) is not None:
            self._strangers.discard(descriptor)
            self._selector.unregister(connection.sock)
            connection.sock.close()
