"""The end of a relay inside impirun: brings visitors of its endpoints to the hosts.

How it works: it serves a client whose hosts cannot be reached (``--relay``). :class:`NearEnd`
connects to the relay before the procs start, and gets an endpoint for each host. The client's
labels advertise the endpoints (:meth:`NearEnd.lead`). A thread then connects each visitor of an
endpoint with the listener of its host, through connections that go out from here (:mod:`.far_end`
has the steps).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Final

from impi.base.errors import JobError, PeerError, StartupError, UsageError
from impi.base.records import replaced
from impi.launch.net import parse_endpoint
from impi.launch.pulse import silence
from impi.launch.relay.orders import MOST_LINE, Orders, decode, encode
from impi.launch.relay.splice import (
    MARK,
    OWNER,
    knock,
    open_more_files,
    splice,
)
from impi.protocol.job import Job
from impi.protocol.options import ClientOptions
from impi.protocol.startup.auth import relay_key
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.facts import HostFacts
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import PAUSE_S, again, introduce
from impi.rank.vendors.dial import connect
from impi.rank.vendors.secure_socket import open_stream

_CHUNK: Final = 1 << 16
_ANSWER_S: Final = 10.0  # longest wait for an immediate answer of a relay or a host
# Longest wait until the last octets of ended hosts have gone to the relay
_DRAIN_S: Final = 10.0
_START: Final = "start 'impirun -relay' where all clients reach it, and give --relay the line that it prints"


def open_near_end(
    options: ClientOptions, environ: Mapping[str, str], count: int
) -> NearEnd:
    """Return the near end for ``count`` hosts of a client with a relay.

    Raises:
        UsageError: there is no secret, or ``--relay`` is malformed.
        StartupError: no relay with this secret answers, or it cannot give that many endpoints.
    """
    return NearEnd(
        options.reach.relay,
        relay_key(environ),
        count,
        options.common.heartbeat_timeout_s,
    )


class NearEnd:
    """Endpoints at a relay, and the thread that connects them with the hosts; a context manager.

    ``fileno`` is readable once the relay is lost. Raises as :func:`open_near_end`.

    Args:
        where: HOST:PORT of the relay.
        key: the key from :func:`impi.protocol.startup.auth.relay_key`.
        count: number of endpoints.
        silence_s: seconds of silence after which the relay is lost; 0: never.
    """

    def __init__(self, where: str, key: bytes, count: int, silence_s: float) -> None:
        self._where, self._key, self._silence_s = where, key, silence_s
        self._hosts: Sequence[tuple[str, int]] = ()
        self.lost = ""

        # Here and not in the thread: without endpoints the client cannot join, and the user reads
        # why.
        self._sock = self._reach()
        try:
            ports = self._ask(count)
        except BaseException:
            self._sock.close()
            raise

        self._relay: tuple[str, int] = self._sock.getpeername()[:2]
        # Address and port of each endpoint, for the labels.
        self.endpoints = tuple((self._relay[0], port) for port in ports)
        # The main thread waits in a selector, and learns of the loss by an octet.
        self._inside, self._outside = socket.socketpair()
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="near end", daemon=True)

    def __enter__(self) -> NearEnd:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._inside.fileno()

    def _reach(self) -> socket.socket:
        try:
            host, port = parse_endpoint(self._where)
        except UsageError:
            raise UsageError(
                f"--relay takes HOST:PORT of a relay, not {self._where!r}: {_START}"
            ) from None

        head = MARK + OWNER

        def attempt() -> socket.socket:
            try:
                sock = connect(host, port, _ANSWER_S)
            except OSError as error:
                reason = error.strerror or error
                raise StartupError(
                    f"no relay answers at {self._where} ({reason}): {_START}"
                ) from None

            with ExitStack() as stack:
                stack.enter_context(sock)
                if not introduce(sock, head, self._key, head):
                    raise StartupError(
                        f"the relay at {self._where} does not know this job's secret: give it the same"
                    )

                stack.pop_all()

            return sock

        try:
            return again(attempt)
        except OSError as error:
            raise StartupError(
                f"what listens at {self._where} is not a relay ({error}): {_START}"
            ) from None

    def _ask(self, count: int) -> list[int]:
        line = bytearray()
        try:
            stream = open_stream(self._sock, self._key, _ANSWER_S)
            self._sock.settimeout(_ANSWER_S)
            self._sock.sendall(stream.send(encode({"endpoints": count})))
            while b"\n" not in line and len(line) < MOST_LINE:
                if not (octets := self._sock.recv(_CHUNK)):
                    raise ConnectionError("it closed the connection")

                line += stream.receive(octets)[0]

            # The octets behind the line are for the thread
            first, _, early = line.partition(b"\n")
            self._session = stream, bytes(early)
            answer = decode(bytes(first))
        except (OSError, PeerError) as error:
            raise StartupError(
                f"the relay at {self._where} has not given {count} endpoints: {error}"
            ) from None

        if "error" in answer:
            raise StartupError(f"the relay at {self._where}: {answer['error']}")

        ports = answer.get("ports")
        if (
            not isinstance(ports, list)
            or len(ports) != count
            or not all(isinstance(port, int) for port in ports)
        ):
            raise StartupError(
                f"the relay at {self._where} is of another version: it did not send {count} ports"
            )

        return ports

    def lead(self, hosts: Sequence[HostFacts]) -> tuple[HostFacts, ...]:
        """Return the hosts' facts for other clients, with the relay's endpoints as addresses."""
        # Visitors are brought to these, which other clients never see.
        self._hosts = [(addresses.to_text(host.ipv6), host.port) for host in hosts]
        return tuple(
            replaced(host, ipv6=addresses.from_text(address), port=port)
            for host, (address, port) in zip(hosts, self.endpoints, strict=False)
        )

    def check(self, job: Job, trust: Trust) -> None:
        """Check that all clients prove a secret.

        Relayed hosts never come from the address that they advertise, so only a secret shows that
        they are the right ones.

        Raises:
            StartupError: a client proves none.
        """
        proving = trust.clients

        others = [
            str(client) for client in range(job.nclients) if client not in proving
        ]
        if others:
            who = (
                f"client{'s' if len(others) > 1 else ''} {', '.join(others)} cannot prove"
                if proving
                else "none here proves"
            )
            raise StartupError(
                f"hosts behind the relay at {self._where} are known by a secret alone, and {who} one: give "
                "server and clients the same IMPI_AUTH_SECRET, without --impi-version 0.0, or leave out --relay",
                clause="2.3.8",
            )

    def start(self) -> None:
        """Start the thread that serves visitors. From now on the process must not fork."""
        open_more_files()
        self._thread.start()

    def raise_lost(self, phase: str) -> None:
        """Raise JobError if the relay is lost; ``phase`` is the phase of the job, in words."""
        if self.lost:
            raise JobError(f"the relay at {self._where} {self.lost}, {phase}")

    def close(self) -> None:
        """Give up the endpoints, after the last octets of the hosts have gone. Idempotent."""
        if self._thread.ident is not None:
            # Before the thread has stored its loop, a call to end it would be lost.
            self._begun.wait()
            with suppress(RuntimeError):  # the loop has ended
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._over.set)

            self._thread.join()

        for sock in (self._sock, self._inside, self._outside):
            sock.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        # Also after an error before the loop began: close() waits for this.
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        orders = Orders(
            *await asyncio.open_connection(sock=self._sock),
            *self._session,
        )
        visits: dict[asyncio.Task[None], asyncio.Event] = {}
        beats = asyncio.create_task(orders.beat())
        hearing = asyncio.create_task(self._hear(orders, visits))
        over = asyncio.create_task(self._over.wait())

        # Until the relay is lost, or impirun needs it no more.
        await asyncio.wait({hearing, over}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            self.lost = hearing.result()
            self._outside.send(b"\0")
            # Keep the channels open until impirun has ended the hosts: a host that sees its channel
            # end would report that, and look like the cause.
            await over

        with suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self.lost else _DRAIN_S):
                await asyncio.gather(*(sent.wait() for sent in visits.values()))

        orders.close()

        tasks = [beats, hearing, *visits]
        for task in tasks:
            task.cancel()

        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(
        self,
        orders: Orders,
        visits: dict[asyncio.Task[None], asyncio.Event],
    ) -> str:
        """Serve visitors until the relay is lost; return why, in words.

        Args:
            visits: gets a task for each visitor, with an event that is set once the host has sent
                its last octet.
        """
        try:
            while (word := await orders.hear(self._silence_s)) is not None:
                if "visit" in word:
                    sent = asyncio.Event()
                    visit = asyncio.create_task(
                        self._fetch(word["visit"], word.get("endpoint"), orders, sent)
                    )
                    visits[visit] = sent
                    visit.add_done_callback(visits.pop)
        except TimeoutError:
            return silence(self._silence_s)
        except PeerError as error:
            return error.message

        return "has ended"

    async def _fetch(
        self,
        visitor: object,
        number: object,
        orders: Orders,
        sent: asyncio.Event,
    ) -> None:
        try:
            token, place = bytes.fromhex(str(visitor)), self._hosts[int(str(number))]
            # The host first: a visitor whose host is gone costs the relay no connection.
            with closing(await _dial(place)) as host:
                async with asyncio.timeout(_ANSWER_S):
                    relay = await _knocked(self._relay, token, self._key)

                with closing(relay):
                    await splice(host, relay, sent)
        except (OSError, PeerError, LookupError, ValueError):
            # No failure of the job: a visitor may be a port scanner, and a host may have ended.
            orders.tell(refuse=visitor)
        finally:
            sent.set()


async def _knocked(place: tuple[str, int], token: bytes, key: bytes) -> socket.socket:
    """Return a connection to a relay for one visitor; a crowded relay is asked again."""
    while True:
        with ExitStack() as stack:
            sock = stack.enter_context(closing(await _dial(place)))
            try:
                await knock(sock, token, key)
            except ConnectionError:
                await asyncio.sleep(PAUSE_S)
                continue

            stack.pop_all()

            return sock


async def _dial(place: tuple[str, int]) -> socket.socket:
    """Return a non-blocking connection; OSError: it failed, or took too long."""

    sock = socket.socket(
        socket.AF_INET6 if ":" in place[0] else socket.AF_INET, socket.SOCK_STREAM
    )
    sock.setblocking(False)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.get_running_loop().sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise

    return sock
