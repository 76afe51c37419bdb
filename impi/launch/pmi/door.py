"""The sockets of one client's process manager, to which its procs connect by PMI_PORT.

How it works: MPICH's library connects to ``PMI_PORT`` and says ``initack`` with the number in
``PMI_ID``, which only that proc has; the answer names its rank. From then on the connection's
queries go to the :class:`~impi.launch.pmi.manager.Manager`, and the manager's lines to the ranks
that it names. A library that is finalized and initialised again connects again with its number.

PMI has no authentication, so the number is the secret. It has only 31 bits, because a library reads
it as an int of C. :class:`~impi.rank.doors.entrance.Entrance` slows down each address that guesses:
2^31 attempts take years.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from impi.base.errors import JobError, PeerError
from impi.base.records import fresh, record
from impi.launch.pmi.lines import Query, QueryReader
from impi.launch.pmi.manager import Manager
from impi.rank.doors.entrance import Entrance
from impi.rank.vendors.dial import listening, show_endpoint

_CHUNK: Final = 1 << 16
_IDS: Final = 2**31 - 1  # numbers fit into an int of C
# Longest wait for the other procs, which may end with 0 without MPI_Finalize, too
_LEFT_S: Final = 0.5
# Longest wait for the exit status of a proc whose connection has ended
_LOST_S: Final = 3.0


@record(frozen=False)
class _PmiConnection:
    sock: socket.socket
    address: str
    port: int
    reader: QueryReader = fresh(default_factory=QueryReader)
    rank: int | None = None

    def __post_init__(self) -> None:
        # Queries and answers alternate, so Nagle's algorithm would only delay them.
        with suppress(OSError):
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _secret_numbers(count: int) -> tuple[int, ...]:
    """Return different numbers that cannot be guessed; importing ``secrets`` would take 5 ms."""
    # Never 0, which is the number of a connection that has said none.
    found: dict[int, None] = {}
    while len(found) < count:
        found[int.from_bytes(os.urandom(8)) % (_IDS - 1) + 1] = None

    return tuple(found)


class PmiDoor:
    """Serves PMI to the procs of one client, and to no other process.

    Args:
        address: address to listen on, which all procs must reach.
        nodes: number of procs on each node, in the order of ranks.
        selector: gets the sockets; call the data of a ready key in your loop.
        warn: prints a sentence for the user.
    """

    def __init__(
        self,
        address: str,
        nodes: Sequence[int],
        selector: selectors.BaseSelector,
        warn: Callable[[str], None],
    ) -> None:
        self.manager = Manager(f"kvs_{os.urandom(8).hex()}", nodes)
        self._warn = warn
        self.ids = _secret_numbers(self.manager.size)
        self._rank_of = {number: rank for rank, number in enumerate(self.ids)}
        self._members: dict[int, _PmiConnection] = {}
        self._told = 0  # number of refusals that the user has been told
        # Time at which a rank's connection ended without 'finalize'
        self._lost: dict[int, float] = {}
        self.entrance = Entrance(
            listening(address, 1024),
            selector,
            self.manager.size,
            make=_PmiConnection,
            read=self._read,
            show=show_endpoint,
            warn=warn,
        )

    def check(
        self, ended: Collection[int] = (), finalized: Collection[int] = ()
    ) -> None:
        """Check that no rank has left PMI while others may wait for it in a barrier.

        Args:
            ended: ranks that ended with 0. If all have, no rank waits.
            finalized: ranks that ended after impi's MPI_Finalize, perhaps before their library's.

        Raises:
            JobError: a rank has left too early.
        """
        if len(ended) == self.manager.size:
            return

        for rank, at in self._lost.items():
            waited_s = time.monotonic() - at
            if rank in finalized:
                continue

            if rank in ended and waited_s > _LEFT_S:
                raise JobError(
                    f"rank {rank} of this client ended with exit code 0, but without MPI_Finalize"
                )

            if waited_s > _LOST_S:
                raise JobError(
                    f"rank {rank} of this client ended its connection to PMI without 'finalize'"
                )

    def never_came(self, ended: set[int]) -> int | None:
        """Return a rank that has ended without PMI while others use PMI, and so wait; else None."""
        never = ended - self.manager.initialised
        return min(never) if never and self.manager.initialised else None

    def _read(self, connection: _PmiConnection) -> None:
        data = self.entrance.receive(connection, _CHUNK)
        if data is None:
            return

        if not data:
            self._note_end(connection)
            self.entrance.drop(connection)
            return

        self.entrance.spoke(connection)

        answers: dict[int, bytes] = {}
        try:
            for query in connection.reader.feed(data):
                if connection.rank is None:
                    if not self._introduce(connection, query):
                        return

                    answers[connection.rank or 0] = self.manager.greeting(
                        connection.rank or 0
                    )
                    continue

                for rank, line in self.manager.hear(connection.rank, query):
                    answers[rank] = answers.get(rank, b"") + line
        except PeerError as error:
            if connection.rank is None:
                self.entrance.refuse(connection, "speaks no PMI")
                return

            raise PeerError(
                error.message,
                peer=f"rank {connection.rank} of this client",
                octets=error.octets,
            ) from None
        finally:
            # One write for all answers: a library that sends many puts at once gets one segment.
            for rank, lines in answers.items():
                self._send(rank, lines)

        self._tell(connection.rank)

    def _tell(self, rank: int | None) -> None:
        for sentence in self.manager.refused[self._told :]:
            self._warn(f"rank {rank} of this client {sentence}")

        self._told = len(self.manager.refused)

    def _introduce(self, connection: _PmiConnection, query: Query) -> bool:
        number = query.number("pmiid") if query.command == "initack" else 0

        rank = self._rank_of.get(number)
        if rank is None:
            self.entrance.refuse(
                connection, "has no number of a proc (PMI_ID)", guess=True
            )
            return False

        # A stolen number must not replace the proc that has it.
        if rank in self._members and rank not in self.manager.finalized:
            self.entrance.refuse(
                connection, "has the number of a proc that is here (PMI_ID)"
            )
            return False

        # From here on it is a member: the end of this connection is news of the rank.
        self.entrance.welcome(connection)
        connection.rank = rank
        self._members[rank] = connection

        return True

    def _note_end(self, connection: _PmiConnection) -> None:
        rank = connection.rank
        # A library that begins again has a new connection. The end of its old one is not a loss.
        if rank is None or self._members.get(rank) is not connection:
            return

        del self._members[rank]
        if rank in self.manager.initialised and rank not in self.manager.finalized:
            self._lost.setdefault(rank, time.monotonic())

    def _send(self, rank: int, lines: bytes) -> None:
        connection = self._members.get(rank)
        if connection is None:
            return  # it has ended, and its starter says so

        if not self.entrance.send(connection, lines):
            self._note_end(connection)
            self.entrance.drop(connection)
