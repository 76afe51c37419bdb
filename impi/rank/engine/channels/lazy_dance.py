"""Channels of a lazy job: two hosts connect when one has the first message for the other.

How it works: the engine calls :meth:`LazyDance.reach` before it sends; if there is no channel yet,
the calling thread connects. A helper thread accepts at any time, so whoever connects waits for no
MPI call of the other host. Its connections lie in a basket until a turn of the engine takes them
up: a descriptor wakes the engine. :class:`impi.protocol.startup.dance.Encounters` says which of two
connections stays where both hosts connect at once.

Invariants: a connection is a channel only once the accepting host has answered with its rank. After
the barrier of MPI_Finalize no host connects any more: every answered connection is in a basket by
then. The helper never touches the engine.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from impi.base.errors import HostRefused, JobError
from impi.protocol.job import Job
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.dance import RANK_SIZE, Encounters, encode_rank
from impi.rank.doors.introduce import receive_exactly
from impi.rank.doors.reception import Reception
from impi.rank.doors.strangers import AGE_S
from impi.rank.engine.channels.mesh import (
    DANCE_S,
    Proofs,
    Sockets,
    claims,
    encrypted,
    prepare,
    reach,
    say,
    unreachable,
)
from impi.rank.engine.channels.threads import join_helper, start_helper

_TURN_S: Final = 1.0
# If the other host has refused our connection for its own, that one is here within this time.
_CROSSED_S: Final = 0.2


class _Basket:
    """Connections from a helper to the engine, which a descriptor wakes; its user locks."""

    def __init__(self) -> None:
        self.sockets: Sockets = {}
        # A descriptor, not a condition: the engine sleeps in epoll, which knows nothing else.
        self.awake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def wake(self) -> None:
        os.eventfd_write(self.awake, 1)

    def empty(self) -> Sockets:
        with suppress(BlockingIOError):
            os.eventfd_read(self.awake)

        came, self.sockets = self.sockets, {}
        return came


class LazyDance:
    """The channels of host ``me``; close it at the end.

    Args:
        listener: its port is that of ``me`` in the job; the dance closes it.
        address: the address that it connects from.
        trust: see :func:`impi.rank.engine.channels.mesh.connect_hosts`.
        connected: takes each channel, by host, in the thread that calls the methods here.
        tell: gets the sentence of a refusal, from any thread.
    """

    def __init__(
        self,
        job: Job,
        me: int,
        listener: socket.socket,
        address: str,
        trust: Trust,
        connected: Callable[[int, socket.socket], None],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._job, self._me, self._listener, self._address = job, me, listener, address
        self._connected, self._tell = connected, tell
        self._proofs = Proofs(job, me, trust)
        # Channels that the engine has, and hosts of our own client, which need none.
        self._open = {
            host.index for host in job.hosts if host.client == job.hosts[me].client
        }
        self._changed = threading.Condition()
        self._encounters = Encounters(me)
        self._basket = _Basket()
        self._over = False
        # The exception that has ended the helper
        self._failure: Exception | None = None
        claim = claims(job, me, self._proofs, self._encounters.has)
        self._reception = Reception(
            [listener], RANK_SIZE, claim, partial(say, me), len(job.hosts)
        )
        self._helper = start_helper(self._accept, "impi lazy dance")

    def fileno(self) -> int:
        """Return a descriptor that is readable when :meth:`take_up` has something to do."""
        return self._basket.awake

    def reach(self, host: int) -> None:
        """Have a channel with a host of this job; hosts of other jobs have theirs.

        A host that can be connected to is waited for as long as the job goes on.

        Raises:
            JobError: it cannot be reached.
        """

        # Called before every first message of a communicator, so the usual case comes first.
        if host in self._open or host >= len(self._job.hosts):
            return

        # For a host that cannot be connected to. One that has accepted is waited for without a
        # limit.
        deadline = time.monotonic() + DANCE_S
        while True:
            # Under the condition's lock, as the helper may accept a connection of that host now.
            with self._changed:
                calls = self._encounters.calls(host)

            if not calls:
                break  # the other host has connected

            try:
                sock = self._call(host, deadline)
            except OSError as error:
                if not self._crosses(host, error, deadline):
                    raise unreachable(self._job, self._me, host, error) from None
            except BaseException as failure:
                if isinstance(failure, HostRefused):
                    self._tell(str(failure))

                with self._changed:
                    self._encounters.ended(host)

                raise
            else:
                # Answered: a connection of the other host that comes later is the second one, and
                # is refused.
                with self._changed:
                    self._encounters.answered(host)

                # A time of its own: the answer may have taken longer than the deadline above.
                until = time.monotonic() + DANCE_S
                self._admit(
                    encrypted(
                        self._job,
                        self._me,
                        host,
                        sock,
                        False,
                        until,
                        self._proofs.trust,
                    )
                )

                return

        # Their connection stays, but its proof and perhaps TLS are still under way in the helper.
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    host in self._basket.sockets
                    or self._failure
                    or not self._encounters.has(host)
                )
            )

        self.take_up()
        if host not in self._open:
            self.reach(host)  # their connection could not be answered: try again

    def _crosses(self, host: int, error: OSError, deadline: float) -> bool:
        """Note that our connection has ended; return whether theirs has come, or ours may again."""
        # A connection that was made and then closed without an answer is the sign of two that
        # crossed. A refused one only says that no process listens there.
        closed = isinstance(error, ConnectionError) and not isinstance(
            error, ConnectionRefusedError
        )
        with self._changed:
            self._encounters.ended(host)
            came = self._changed.wait_for(
                lambda: self._encounters.has(host), _CROSSED_S if closed else 0.0
            )

        return came or (closed and time.monotonic() < deadline)

    def take_up(self) -> None:
        """Admit the connections that the helper has accepted.

        Raises:
            JobError: it accepts no more.
        """
        if self._failure is not None:
            raise JobError(
                f"host {self._me} cannot accept connections any more: {self._failure}",
                clause="2.3.8",
            )

        # The helper fills the basket under this lock. Admitting is outside of it, in the thread
        # that is in the engine: the helper never touches that.
        with self._changed:
            came = self._basket.empty()

        self._admit(came)

    def close(self) -> None:
        """Accept no more, and admit the connections that have come. May be called twice."""

        if self._over:
            return

        self._over = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the helper

        # It ends before the last look into the basket: a connection that it has answered is a
        # channel, to which FINI is due (3.8).
        join_helper(self._helper)
        self._reception.close()
        self._listener.close()
        self.take_up()
        os.close(self._basket.awake)

    def _admit(self, channels: Sockets) -> None:
        for host, sock in channels.items():
            self._open.add(host)
            self._connected(host, sock)

    def _call(self, host: int, deadline: float) -> socket.socket:
        """Connect, and wait for the answer; OSError: there is none."""

        # Patient: the other helper needs its process's GIL, which C code may keep for long.
        sock = reach(
            self._job,
            self._me,
            host,
            self._address,
            deadline,
            self._proofs,
            patient=True,
        )
        try:
            answer = receive_exactly(sock, RANK_SIZE)
        except OSError:
            sock.close()
            raise

        if answer != encode_rank(host):
            sock.close()
            raise JobError(
                f"the process that host {self._me} has reached as host {host} is not that host",
                clause="2.3.8",
                octets=answer,
            )

        prepare(sock)

        return sock

    def _accept(self) -> None:
        try:
            while not self._over:
                self._reception.turn(_TURN_S)
                for host in list(self._reception.links):
                    self._meet(host, self._reception.links.pop(host))
        # Raised in the helper it would be lost: the engine learns it in take_up(), and threads that
        # wait in reach() wake up.
        except Exception as failure:
            if isinstance(failure, HostRefused):
                self._tell(str(failure))

            with self._changed:
                self._failure = failure
                self._changed.notify_all()

            self._basket.wake()

    def _meet(self, host: int, sock: socket.socket) -> None:
        with self._changed:
            comes = self._encounters.comes(host)

        # Closed without an answer, which tells the other end that ours stays
        if not comes:
            sock.close()
            return

        try:
            # The answer makes it a channel. Without one, both of two connections that cross would
            # carry packets (docs/decisions/lazy-channels.md).
            sock.sendall(encode_rank(self._me))
            prepare(sock)
            channel = encrypted(
                self._job,
                self._me,
                host,
                sock,
                True,
                time.monotonic() + AGE_S,
                self._proofs.trust,
            )
        except (OSError, JobError) as error:
            # The other host has gone, or goes on without
            sock.close()
            with self._changed:
                self._encounters.lost(host)
                self._changed.notify_all()

            say(self._me, f"host {host} has connected in vain: {error}")

            return

        with self._changed:
            self._basket.sockets |= channel
            self._changed.notify_all()

        self._basket.wake()
