"""``impirun -relay``: accepts connections for hosts behind NAT or a firewall.

An impirun whose client has ``--relay`` is the *owner* of endpoints here, one for each host, and the
labels of its hosts advertise them. How it works, in the order of a connection to an endpoint:

1. The owner connects and proves the key, sends ``{"endpoints": N}``, and gets ``{"ports":
   [...]}``, or ``{"error": "..."}``. Both then say every 2 s that they run, by ``{}``. All of it is
   in a TLS session (:mod:`.orders`).
2. A visitor, which is a host of another client, connects to an endpoint. Once it has said its rank
   (IMPI 2.3.8) the owner is told ``{"visit": TOKEN, "endpoint": NUMBER}``: before that, no
   connection is opened for it.
3. The owner connects here once more with that token, and proves the key again; or it says
   ``{"refuse": TOKEN}``. Octets then pass between both connections (:mod:`.splice`).

Nothing here reads on in what passes: hosts prove the job's key to each other, as without a relay.

Invariants: an endpoint lives as long as its owner's connection. A connection that has proved
nothing, and a visitor that was not fetched, is a stranger of :mod:`impi.rank.doors.strangers`,
bounded in number and age. After the end of an owner its connections have some seconds to end; after
an owner's silence they are closed at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, TextIO

from impi.base.errors import PeerError, UsageError
from impi.base.exit_codes import ExitCode
from impi.base.records import fresh, record
from impi.launch.front import ANY, listen, print_endpoint, reachable, say
from impi.launch.interrupts import Interrupts
from impi.launch.pulse import silence
from impi.launch.relay.orders import Orders, accepted
from impi.launch.relay.splice import (
    HEAD_SIZE,
    MARK,
    OWNER,
    TOKEN_SIZE,
    exactly,
    open_more_files,
    splice,
)
from impi.protocol.options import ServerOptions
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper
from impi.protocol.startup.auth import relay_key
from impi.protocol.startup.dance import RANK_SIZE
from impi.rank.doors.entrance import Entrance
from impi.rank.doors.introduce import new_nonce
from impi.rank.doors.strangers import AGE_S
from impi.rank.vendors.dial import listening, show_endpoint

MOST_ENDPOINTS: Final = 4096
_BACKLOG: Final = 1024
# Longest time from an owner's request to its first heartbeat: it starts its procs in between.
_FIRST_BEAT_S: Final = 120.0
_FAREWELL_S: Final = 30.0
# Octets that an owner has not read; beyond that no visitor is announced
_MOST_UNREAD: Final = 1 << 18

_TOKEN: Final = re.compile(f"[0-9a-f]{{{2 * TOKEN_SIZE}}}")


def run_relay(
    options: ServerOptions,
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    """Relay until a signal comes; stdout gets one line, ``a.b.c.d:port``.

    Returns:
        130 or 143: the signal; 4: it could not start, with one sentence on stderr.
    """
    try:
        key = relay_key(environ)
        listener = listen(options)
    except UsageError as error:
        say(stderr, f"Error: {error}")
        return ExitCode.USAGE

    open_more_files()
    with listener, Interrupts() as interrupts:
        address, port = listener.getsockname()[:2]
        shown = reachable(address) if address in ANY else address
        print_endpoint("relay", show_endpoint(shown, port), stdout, stderr)
        relay = Relay(
            key, listener, options, lambda text: say(stderr, f"impirun: {text}")
        )
        asyncio.run(_until(relay, interrupts))
        signum = interrupts.signum or signal.SIGINT
        say(stderr, f"impirun: the relay was ended by {signal.Signals(signum).name}")

        return 128 + signum


async def _until(relay: Relay, interrupts: Interrupts) -> None:
    over = asyncio.Event()

    asyncio.get_running_loop().add_reader(interrupts.fileno(), over.set)
    async with relay:
        await over.wait()


class _Readers:
    """The two methods of a selector that an Entrance calls, over the running event loop."""

    def register(
        self, fileobj: socket.socket, events: int, data: Callable[[], object]
    ) -> None:
        asyncio.get_running_loop().add_reader(fileobj, data)

    def unregister(self, fileobj: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(fileobj)


class _Guest:
    def __init__(
        self,
        sock: socket.socket,
        address: str,
        port: int,
        serve: Callable[[_Guest], Awaitable[None]],
    ) -> None:
        self.sock, self.address, self.port = sock, address, port
        self.name = show_endpoint(address, port)
        self.task = asyncio.ensure_future(serve(self))


class _Door:
    """An entrance that serves each connection by a task.

    Args:
        listeners: the listening sockets.
        serve: serves one connection. It calls :meth:`Entrance.welcome` once that is not a stranger,
            raises PeerError or OSError to refuse it, and closes no socket.
        say: prints a sentence.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        serve: Callable[[Entrance[_Guest], _Guest], Awaitable[None]],
        say: Callable[[str], None],
    ) -> None:
        self._serve = serve
        first, *others = listeners

        # All connections for visitors may come at once, and count as strangers until their proof.
        self.entrance = Entrance(
            first,
            _Readers(),
            _BACKLOG,
            make=self._begin,
            read=None,
            show=show_endpoint,
            warn=say,
            end=lambda guest: guest.task.cancel(),
            told="connection of {peer} refused: it {why}",
        )
        for listener in others:
            self.entrance.listen(listener)

    def _begin(self, sock: socket.socket, address: str, port: int) -> _Guest:
        guest = _Guest(sock, address, port, self._run)
        guest.task.add_done_callback(lambda _: self._over(guest))
        return guest

    async def _run(self, guest: _Guest) -> None:
        try:
            await self._serve(self.entrance, guest)
        except PeerError as error:
            self.entrance.refuse(guest, error.message)
        except OSError:
            pass  # the connection has ended, or its time is over

    def _over(self, guest: _Guest) -> None:
        self.entrance.forget(guest)
        guest.sock.close()

    async def close(self, farewell_s: float = 0.0) -> None:
        """Stop accepting, and close all connections after ``farewell_s`` seconds at most."""
        self.entrance.shut()

        tasks = [guest.task for guest in self.entrance]
        try:
            if farewell_s and tasks:
                await asyncio.wait(tasks, timeout=farewell_s)
        finally:
            self.entrance.close()
            await asyncio.gather(*tasks, return_exceptions=True)


@record(frozen=False)
class _Visit:
    fetched: asyncio.Future[socket.socket]
    over: asyncio.Event = fresh(default_factory=asyncio.Event)


class Relay:
    """A relay in a running event loop; an asynchronous context manager.

    Args:
        key: the key that owners prove (:func:`impi.protocol.startup.auth.relay_key`).
        listener: listening socket for owners.
        options: with the ports of endpoints, and the longest silence of an owner.
        say: prints a sentence.
    """

    def __init__(
        self,
        key: bytes,
        listener: socket.socket,
        options: ServerOptions,
        say: Callable[[str], None],
    ) -> None:
        self._key, self._listener = key, listener
        self._ports = options.common.ports
        self._silence_s = options.common.heartbeat_timeout_s
        self._verbose = options.verbose
        self._say = say
        self._visits: dict[bytes, _Visit] = {}
        self._door: _Door | None = None
        self.endpoints = 0

    async def __aenter__(self) -> Relay:
        self._door = _Door([self._listener], self._introduce, self._say)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._door is not None:
            await self._door.close()

    async def _introduce(self, entrance: Entrance[_Guest], guest: _Guest) -> None:
        sock = guest.sock
        async with asyncio.timeout(AGE_S):
            # Before anything is read: an address that has guessed has to
            # wait with each further attempt.
            await asyncio.sleep(entrance.pause_s(guest))
            head = await exactly(sock, HEAD_SIZE)

            entrance.spoke(guest)
            # A stray connection is refused by its first octets, before a proof is computed.
            if not head.startswith(MARK):
                raise PeerError("is not a process of a job", octets=head)

            # The proof covers the head, too, so a recorded proof fits no other token.
            keeper = Keeper(
                self._key, head, await exactly(sock, NONCE_SIZE), new_nonce()
            )

            await asyncio.get_running_loop().sock_sendall(sock, keeper.answer)
            if not keeper.accepts(await exactly(sock, PROOF_SIZE)):
                entrance.refuse(guest, "does not know this relay's secret", guess=True)
                return

        entrance.welcome(guest)

        token = head[len(MARK) :]
        # A token of a visitor is random and good once. A connection with any other one is closed.
        if token == OWNER:
            await self._serve_owner(sock, guest.name)
        elif (
            visit := self._visits.get(token)
        ) is not None and not visit.fetched.done():
            visit.fetched.set_result(sock)
            # The visitor's task splices this socket, and the door closes it when this task ends.
            await visit.over.wait()

    async def _serve_owner(self, sock: socket.socket, name: str) -> None:
        # The writer closes it, and the door must not
        own = socket.socket(fileno=sock.detach())

        reader, writer = await asyncio.open_connection(sock=own)
        try:
            async with asyncio.timeout(AGE_S):
                orders = await accepted(reader, writer, self._key)

            await self._obey(orders, name)
        finally:
            writer.close()

    async def _obey(self, orders: Orders, name: str) -> None:
        try:
            listeners = self._open(await orders.hear(AGE_S) or {})
            orders.tell(ports=[listener.getsockname()[1] for listener in listeners])
            self._report(f"{name} has {len(listeners)} endpoints")
            await self._serve_visitors(listeners, orders, name)
        except UsageError as error:
            orders.tell(error=error.message)
            await orders.drain()

    def _open(self, asked: Mapping[str, object]) -> list[socket.socket]:
        """Open listeners for new endpoints; UsageError: they are too many, or no port is free."""

        count = asked.get("endpoints")
        if not isinstance(count, int) or count < 1:
            raise PeerError("has not said how many endpoints it wants")

        if self.endpoints + count > MOST_ENDPOINTS:
            raise UsageError(
                f"{count} more endpoints are over the {MOST_ENDPOINTS} of a relay: start another relay"
            )

        here = self._listener.getsockname()[0]
        # All or none: a client with some of its endpoints is of no use.
        with ExitStack() as opened:
            try:
                listeners = [
                    opened.enter_context(listening(here, _BACKLOG, self._ports))
                    for _ in range(count)
                ]
            except OSError as error:
                cure = (
                    "let more ports through with its --ports"
                    if self._ports
                    else "let it open more files"
                )
                raise UsageError(
                    f"it cannot open {count} endpoints: {error.strerror}; {cure}"
                ) from None

            opened.pop_all()

        self.endpoints += count

        return listeners

    async def _serve_visitors(
        self,
        listeners: list[socket.socket],
        orders: Orders,
        name: str,
    ) -> None:
        numbers = {
            listener.getsockname()[1]: number
            for number, listener in enumerate(listeners)
        }
        visitors = _Door(listeners, partial(self._announce, orders, numbers), self._say)
        beats = asyncio.create_task(orders.beat())

        farewell_s = 0.0
        try:
            limit_s = _FIRST_BEAT_S
            while (word := await orders.hear(limit_s)) is not None:
                # The first word is a heartbeat, so the owner's thread
                # runs, and further silence counts.
                limit_s = self._silence_s
                self._refuse(word.get("refuse"))

            # Ended, not silent: the last octets of its hosts may still be on their way.
            farewell_s = _FAREWELL_S
        except TimeoutError:
            self._say(f"{name} {silence(limit_s)}; its endpoints are closed")
        finally:
            beats.cancel()
            orders.close()
            visitors.entrance.shut()
            # The listeners are closed now: the next owner may have their number at once.
            self.endpoints -= len(listeners)
            self._report(f"{name} has gone")
            await visitors.close(farewell_s)

    def _refuse(self, token: object) -> None:
        visit = (
            self._visits.get(bytes.fromhex(token))
            if isinstance(token, str) and _TOKEN.fullmatch(token)
            else None
        )
        if visit is not None and not visit.fetched.done():
            visit.fetched.set_exception(
                ConnectionError("its owner does not reach the host")
            )

    async def _announce(
        self,
        orders: Orders,
        numbers: Mapping[int, int],
        entrance: Entrance[_Guest],
        guest: _Guest,
    ) -> None:
        """Tell the owner of a visitor, and pass octets once the owner has fetched it."""

        async with asyncio.timeout(AGE_S):
            # IMPI 2.3.8: the connecting host speaks first. A port scanner that says
            # nothing never reaches the owner.
            rank = await exactly(guest.sock, RANK_SIZE)

        entrance.spoke(guest)
        if orders.unread > _MOST_UNREAD:
            raise ConnectionError("its owner reads nothing")

        token = os.urandom(TOKEN_SIZE)

        visit = self._visits[token] = _Visit(asyncio.get_running_loop().create_future())
        try:
            orders.tell(
                visit=token.hex(), endpoint=numbers[guest.sock.getsockname()[1]]
            )
            async with asyncio.timeout(AGE_S):
                fetched = await visit.fetched

            entrance.welcome(guest)
            # The host has not seen these four octets, and expects them first.
            await asyncio.get_running_loop().sock_sendall(fetched, rank)
            await splice(guest.sock, fetched)
        finally:
            del self._visits[token]
            visit.over.set()

    def _report(self, text: str) -> None:
        if self._verbose:
            self._say(text)
