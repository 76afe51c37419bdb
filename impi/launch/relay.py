"""``impirun -relay``: accepts for hosts that accept nothing, as behind NAT or a firewall.

An impirun whose client has ``--relay`` is the *owner* of endpoints here, one for each host; the
labels of its hosts advertise them. How it works, in the order of a connection to an endpoint:

1. The owner connects and proves the key, sends ``{"endpoints": N}``, and gets ``{"ports":
   [...]}``, or ``{"error": "..."}``. Both then say every 2 s that they run, by ``{}``.
2. A visitor, which is a host of another client, connects to an endpoint. The owner is told
   ``{"visit": TOKEN, "endpoint": NUMBER}``.
3. The owner connects here once more with that token, and proves the key again; or it says
   ``{"refuse": TOKEN}``. Octets then pass between both connections (:mod:`.splice`).

Nothing here reads what passes: hosts prove the job's key to each other, as without a relay.

Invariants: an endpoint lives as long as its owner's connection. A connection that has proved
nothing, and a visitor that nobody has fetched, is a stranger of :mod:`impi.doors.strangers`:
bounded in number and age. Once an owner has gone, what passes has some seconds to end; that of a
silent owner is closed at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Final, TextIO, TypeAlias

from impi.doors.introduce import new_nonce
from impi.doors.strangers import AGE_S, MOST, Guesses, Refusals, Strangers
from impi.errors import PeerError, UsageError
from impi.exit_codes import ExitCode
from impi.launch.front import ANY, listen, print_endpoint, reachable, say
from impi.launch.interrupts import Interrupts
from impi.launch.pulse import silence
from impi.launch.splice import (
    HEAD_SIZE,
    MARK,
    MOST_LINE,
    OWNER,
    TOKEN_SIZE,
    beat,
    exactly,
    hear,
    open_more_files,
    splice,
    tell,
)
from impi.options import ServerOptions
from impi.proofs import NONCE_SIZE, PROOF_SIZE, Keeper
from impi.records import fresh, record
from impi.startup.auth import relay_key
from impi.vendors.dial import listening, show_endpoint

MOST_ENDPOINTS: Final = 4096
"""Of all owners together."""
_BACKLOG: Final = 1024
_FIRST_BEAT_S: Final = 120.0
"""The longest time from an owner's question to its first beat: it starts its procs meanwhile."""
_FAREWELL_S: Final = 30.0
"""Time for what passes to end, once the owner has gone."""
_MOST_UNREAD: Final = 1 << 18
"""Octets of lines that an owner has not read; with more of them nobody is announced."""

_CROWDED: Final = "was closed to make room for others"
_TOKEN: Final = re.compile(f"[0-9a-f]{{{2 * TOKEN_SIZE}}}")

_Serving: TypeAlias = Callable[[socket.socket, str, str], Awaitable[None]]
"""Serves a connection: the socket, its numeric address, and address and port for people."""


def run_relay(options: ServerOptions, *, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO) -> int:
    """Relay until a signal comes; stdout gets one line, ``a.b.c.d:port``.

    Returns:
        130 or 143: the signal; 4: it could not begin, with one sentence on stderr.
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
        relay = Relay(key, listener, options, lambda text: say(stderr, f"impirun: {text}"))
        asyncio.run(_until(relay, interrupts))
        signum = interrupts.signum or signal.SIGINT
        say(stderr, f"impirun: the relay was ended by {signal.Signals(signum).name}")
        return 128 + signum


async def _until(relay: Relay, interrupts: Interrupts) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(interrupts.fileno(), over.set)
    async with relay:
        await over.wait()


class _Door:
    """Listeners with one account of strangers; each connection is served by a task.

    Args:
        say: prints a sentence.
        most: how many strangers there may be.
    """

    def __init__(self, say: Callable[[str], None], most: int) -> None:
        self._strangers: Strangers[asyncio.Task[None]] = Strangers(most=most)
        self._refusals = Refusals(say)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []

    def open(self, listener: socket.socket, serve: _Serving) -> None:
        """Accept at a listener from now on.

        ``serve`` calls :meth:`welcome` once its connection is no stranger, and closes nothing. It
        raises PeerError or OSError to refuse it.
        """
        listener.setblocking(False)
        self._listeners.append(listener)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, serve)

    def _accept(self, listener: socket.socket, serve: _Serving) -> None:
        accepted = self._strangers.accept(listener)
        if accepted is not None:
            sock, address, port = accepted
            task = asyncio.create_task(self._run(serve, sock, address, show_endpoint(address, port)))
            self._tasks.add(task)
            self._strangers.add(task, address)
            task.add_done_callback(self._forget)
        while (surplus := self._strangers.surplus()) is not None:
            self._strangers.discard(surplus)
            surplus.cancel(_CROWDED)

    async def _run(self, serve: _Serving, sock: socket.socket, address: str, name: str) -> None:
        with closing(sock):
            try:
                await serve(sock, address, name)
            except asyncio.CancelledError as end:
                if _CROWDED in end.args:
                    self._refusals.tell(address, _CROWDED, f"connection of {name} {_CROWDED}")
                raise
            except PeerError as error:
                self._refusals.tell(address, error.message, f"connection of {name} refused: it {error.message}")
            except OSError:
                pass  # it has ended by itself, or has had its time

    def hear(self) -> None:
        """The connection of this task has said something; those that have not go first."""
        task = asyncio.current_task()
        if task is not None:
            self._strangers.spoke(task)

    def welcome(self) -> None:
        """The connection of this task is no stranger any more."""
        task = asyncio.current_task()
        if task is not None:
            self._strangers.discard(task)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._strangers.discard(task)

    def shut(self) -> None:
        """Accept nobody any more."""
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        self._listeners.clear()

    async def close(self, farewell_s: float = 0.0) -> None:
        """Shut it, and close all connections after so many seconds at most."""
        self.shut()
        try:
            if farewell_s and self._tasks:
                await asyncio.wait(self._tasks, timeout=farewell_s)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._strangers.close()
            self._refusals.summary()


@record(frozen=False)
class _Visit:
    """A visitor that waits for its owner's connection."""

    fetched: asyncio.Future[socket.socket]
    over: asyncio.Event = fresh(default_factory=asyncio.Event)


class Relay:
    """A relay in a running event loop; an asynchronous context manager.

    Args:
        key: what owners prove (:func:`impi.startup.auth.relay_key`).
        listener: where owners come.
        options: the ports of endpoints, and how long an owner may be silent.
        say: prints a sentence.
    """

    def __init__(self, key: bytes, listener: socket.socket, options: ServerOptions, say: Callable[[str], None]) -> None:
        self._key = key
        self._listener = listener
        self._ports = options.ports
        self._silence_s = options.heartbeat_timeout_s
        self._verbose = options.verbose
        self._say = say
        self._guesses = Guesses()
        self._visits: dict[bytes, _Visit] = {}
        self._door: _Door | None = None
        self.endpoints = 0
        """How many there are."""

    async def __aenter__(self) -> Relay:
        # Connections for visitors may all come at once, and have proved nothing yet, either.
        self._door = _Door(self._say, MOST + _BACKLOG)
        self._door.open(self._listener, self._introduce)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._door is not None:
            await self._door.close()

    async def _introduce(self, sock: socket.socket, address: str, name: str) -> None:
        """Serve a connection to this relay's own port."""
        async with asyncio.timeout(AGE_S):
            await asyncio.sleep(self._guesses.pause_s(address))
            head = await exactly(sock, HEAD_SIZE)
            if self._door is not None:
                self._door.hear()
            if not head.startswith(MARK):
                raise PeerError("is no process of a job", octets=head)
            keeper = Keeper(self._key, head, await exactly(sock, NONCE_SIZE), new_nonce())
            await asyncio.get_running_loop().sock_sendall(sock, keeper.answer)
            if not keeper.accepts(await exactly(sock, PROOF_SIZE)):
                self._guesses.add(address)
                raise PeerError("does not know this relay's secret")
        if self._door is not None:
            self._door.welcome()
        token = head[len(MARK) :]
        if token == OWNER:
            await self._serve_owner(sock, name)
        elif (visit := self._visits.get(token)) is not None and not visit.fetched.done():
            visit.fetched.set_result(sock)
            await visit.over.wait()

    async def _serve_owner(self, sock: socket.socket, name: str) -> None:
        own = socket.socket(fileno=sock.detach())  # the streams close it
        reader, writer = await asyncio.open_connection(sock=own, limit=MOST_LINE)
        try:
            listeners = self._open(await hear(reader, AGE_S) or {})
            tell(writer, ports=[listener.getsockname()[1] for listener in listeners])
            self._report(f"{name} has {len(listeners)} endpoints")
            await self._serve_visitors(listeners, reader, writer, name)
        except UsageError as error:
            tell(writer, error=error.message)
            await writer.drain()
        finally:
            writer.close()

    def _open(self, asked: Mapping[str, object]) -> list[socket.socket]:
        """Return the listeners of new endpoints; UsageError: there are too many."""
        count = asked.get("endpoints")
        if not isinstance(count, int) or count < 1:
            raise PeerError("has not said how many endpoints it wants")
        if self.endpoints + count > MOST_ENDPOINTS:
            raise UsageError(f"{count} more endpoints are over the {MOST_ENDPOINTS} of a relay: start another relay")
        here = self._listener.getsockname()[0]
        with ExitStack() as opened:
            try:
                listeners = [opened.enter_context(listening(here, _BACKLOG, self._ports)) for _ in range(count)]
            except OSError as error:
                cure = "let more ports through with its --ports" if self._ports else "let it open more files"
                raise UsageError(f"it cannot open {count} endpoints: {error.strerror}; {cure}") from None
            opened.pop_all()
        self.endpoints += count
        return listeners

    async def _serve_visitors(
        self, listeners: list[socket.socket], reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str
    ) -> None:
        """Accept at endpoints until the owner has gone or is silent."""
        visitors, beats = _Door(self._say, MOST + _BACKLOG), asyncio.create_task(beat(writer))
        farewell_s = 0.0
        try:
            for number, listener in enumerate(listeners):
                visitors.open(listener, partial(self._announce, visitors, writer, number))
            limit_s = _FIRST_BEAT_S
            while (word := await hear(reader, limit_s)) is not None:
                limit_s = self._silence_s
                self._refuse(word.get("refuse"))
            farewell_s = _FAREWELL_S
        except TimeoutError:
            self._say(f"{name} {silence(limit_s)}; its endpoints are closed")
        finally:
            beats.cancel()
            writer.close()
            visitors.shut()
            self.endpoints -= len(listeners)
            self._report(f"{name} has gone")
            await visitors.close(farewell_s)

    def _refuse(self, token: object) -> None:
        visit = self._visits.get(bytes.fromhex(token)) if isinstance(token, str) and _TOKEN.fullmatch(token) else None
        if visit is not None and not visit.fetched.done():
            visit.fetched.set_exception(ConnectionError("its owner does not reach the host"))

    async def _announce(
        self, visitors: _Door, writer: asyncio.StreamWriter, number: int, sock: socket.socket, _address: str, _name: str
    ) -> None:
        """Tell the owner of a visitor, and pass octets once the owner has fetched it."""
        if writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            raise ConnectionError("its owner reads nothing")
        token = os.urandom(TOKEN_SIZE)
        visit = self._visits[token] = _Visit(asyncio.get_running_loop().create_future())
        try:
            tell(writer, visit=token.hex(), endpoint=number)
            async with asyncio.timeout(AGE_S):
                fetched = await visit.fetched
            visitors.welcome()
            await splice(sock, fetched)
        finally:
            del self._visits[token]
            visit.over.set()

    def _report(self, text: str) -> None:
        if self._verbose:
            self._say(text)
