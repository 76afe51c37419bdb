"""The process of an agent: from impirun's invitation to the last FINI, over sockets.

How it works: the agent listens for other hosts, opens a door for its procs, and tells impirun both
addresses. impirun answers with the job, or that no proc runs here. The agent admits its own procs,
and then dances with other hosts as procs do without agents (IMPI 2.3.8). From there on :func:`run`
moves octets between sockets and the :class:`.router.Router`, which has no socket and decides
everything.

A connection is read a bounded number of times before the next has its turn, so that one fast sender
cannot starve the others. The loop never stops reading: two agents whose writes are full would wait
for each other.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from impi.base.errors import JobError
from impi.protocol.job import Job
from impi.protocol.startup.challenge import Trust
from impi.protocol.wire import addresses
from impi.rank.agent.router import Link, Router
from impi.rank.engine.channels.mesh import connect_hosts, listen, own_address, source
from impi.rank.vendors.dial import quick_ack
from impi.rank.vendors.meeting import (
    AGENT,
    Door,
    ask,
    encrypted_links,
    open_control,
    tell_failure,
)

if TYPE_CHECKING:
    from impi.rank.vendors.meeting import Links
    from impi.rank.vendors.secure_socket import SecureSocket

GRACE_S: Final = 3.0
"""Seconds in which the launcher of a lost proc notices it first and ends the job."""

_READS: Final = 16  # Most reads from one connection before the next has its turn
_BACKLOG: Final = 1024


def serve(invitation: Mapping[str, Any]) -> None:
    """Run the agent that impirun invited, until the job is over.

    Raises:
        ImpiError: the job cannot begin, or not go on; the sentence is for the user.
    """
    token = str(invitation["token"])

    address = own_address(str(invitation["interface"]), str(invitation["server"]))
    with (
        closing(listen(address)) as listener,
        Door(str(invitation["door"] or address), _BACKLOG) as door,
        closing(
            open_control(
                str(invitation["control"]), token, tls=bool(invitation.get("tls"))
            )
        ) as control,
    ):
        hello = {
            "role": "host",
            "number": invitation["number"],
            "node": invitation["node"],
            "address": addresses.from_text(address).hex(),
            "port": listener.getsockname()[1],
            "door": door.address,
        }

        answer = ask(control, hello)
        if answer["host"] is None:
            return  # no proc runs here

        job = Job.from_json(json.dumps(answer["job"]))
        me = int(answer["host"])
        trust = Trust.of(token=str(token), **answer["trust"])
        admitted = door.admit(AGENT, job.hosts[me].procs, token)
        procs: Links = {**admitted}
        if invitation.get("tls"):
            procs = encrypted_links(AGENT, admitted, token)

        door.close()
        tell = partial(tell_failure, invitation)
        hosts = connect_hosts(
            job, me, listener, source(invitation) or address, trust, tell=tell
        )
        run(Router(job, me), procs, hosts)


def run(
    router: Router,
    procs: Mapping[int, socket.socket | SecureSocket],
    hosts: Mapping[int, socket.socket | SecureSocket],
) -> None:
    """Route packets until every proc and host has sent FINI; then close the sockets.

    After an error the sockets stay open until the process ends: a peer that saw them close would
    take this client for the one that was lost first.

    Args:
        router: decides where packets go.
        procs: connected, non-blocking, by rank in MPI_COMM_WORLD.
        hosts: connected, non-blocking, by global host index.

    Raises:
        ImpiError: the job cannot go on.
    """

    socks = {router.procs[rank]: sock for rank, sock in procs.items()}

    socks |= {router.hosts[index]: sock for index, sock in hosts.items()}
    with select.epoll() as epoll:
        _Loop(router, socks, epoll).run()

    for sock in socks.values():
        sock.close()


class _Loop:
    def __init__(
        self,
        router: Router,
        socks: Mapping[Link, socket.socket | SecureSocket],
        epoll: select.epoll,
    ) -> None:
        self._router = router
        self._socks = socks
        self._epoll = epoll
        self._links = {sock.fileno(): link for link, sock in socks.items()}
        self._blocked: set[Link] = set()

        self._foreign = router.foreign
        for fd in self._links:
            epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        while not self._router.finished:
            # Without a time limit: an agent does nothing by itself, and impirun ends it where a
            # proc is lost.
            for fd, mask in self._epoll.poll():
                link = self._links[fd]
                if mask & ~select.EPOLLOUT:
                    self._read(link)

                if mask & select.EPOLLOUT and not link.ended:
                    self._write(link)

    def _read(self, link: Link) -> None:
        touched: set[Link] = set()
        sock = self._socks[link]

        # TLS may hold octets that no event announces
        pending = getattr(sock, "pending", int)
        # A limit, so that a busy connection leaves a turn to the others; epoll reports the rest
        # again.
        for turn in count():
            if turn >= _READS and not pending():
                break

            room = link.cutter.buffer()
            try:
                nbytes = sock.recv_into(room)
            except BlockingIOError:
                break
            except OSError as error:
                if not link.closed:
                    raise JobError(
                        f"the connection with {link.name} broke: {error.strerror}",
                        clause="3.8",
                    ) from None

                nbytes = 0

            if nbytes == 0:
                self._ended(link)
                break

            touched |= self._router.received(link, nbytes)
            if self._foreign and link.cutter.inside:
                quick_ack(sock)  # the rest may wait for it

            if nbytes < len(room):
                break

        # At once, not at the next event: that may be long in coming. Reading never stops for a link
        # that is blocked, so two full directions cannot wait for each other.
        for other in touched:
            if other not in self._blocked:
                self._write(other)

    def _ended(self, link: Link) -> None:
        if link in self._router.procs.values() and not link.closed:
            # The proc's launcher knows the reason, and ends this process, too.
            time.sleep(GRACE_S)

        self._router.eof(link)
        self._epoll.unregister(self._socks[link].fileno())
        self._blocked.discard(link)

    def _write(self, link: Link) -> None:
        sock = self._socks[link]
        while views := link.views():
            try:
                link.sent(sock.sendmsg(views))
            except BlockingIOError:
                self._block(link, True)
                return
            except OSError as error:
                raise JobError(
                    f"the connection with {link.name} broke: {error.strerror}",
                    clause="3.8",
                ) from None

        self._block(link, False)

    def _block(self, link: Link, blocked: bool) -> None:
        if blocked != (link in self._blocked):
            self._epoll.modify(
                self._socks[link].fileno(),
                select.EPOLLIN | (select.EPOLLOUT if blocked else 0),
            )
            (self._blocked.add if blocked else self._blocked.discard)(link)
