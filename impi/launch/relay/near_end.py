"""The end of a relay inside impirun: fetches the connections that come to its endpoints.

For a client whose hosts accept no connection of others (``--relay``). :class:`NearEnd` connects to
the relay before the procs start, and has an endpoint for each host. The client's labels advertise
these (:meth:`NearEnd.lead`). A thread then connects each visitor of an endpoint with the listener
of its host, through connections that go out from here (:mod:`.far_end` has the steps).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Final

from impi.base.errors import JobError, PeerError, StartupError, UsageError
from impi.base.records import replaced
from impi.launch.net import parse_endpoint
from impi.launch.pulse import silence
from impi.launch.relay.splice import (
    MARK,
    MOST_LINE,
    OWNER,
    beat,
    decode,
    encode,
    hear,
    knock,
    open_more_files,
    splice,
    tell,
)
from impi.protocol.job import Job
from impi.protocol.options import ClientOptions
from impi.protocol.startup.auth import relay_key
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.facts import HostFacts
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import introduce, receive_exactly
from impi.rank.vendors.dial import connect

_ANSWER_S: Final = 10.0  # the longest wait for what a relay or a host does at once
_DRAIN_S: Final = 10.0  # the longest wait for the last octets of hosts that have ended, on their way to the relay
_START: Final = "start 'impirun -relay' where all clients reach it, and give --relay the line that it prints"


def open_near_end(options: ClientOptions, environ: Mapping[str, str], count: int) -> NearEnd:
    """Return the near end for ``count`` hosts of a client with a relay.

    Raises:
        UsageError: there is no secret, or ``--relay`` is malformed.
        StartupError: no relay with this secret answers, or it has no such endpoints.
    """
    return NearEnd(options.reach.relay, relay_key(environ), count, options.common.heartbeat_timeout_s)


class NearEnd:
    """Endpoints at a relay, and what leads from there to the hosts; a context manager.

    Readable (``fileno``) once the relay is lost. Raises what :func:`open_near_end` does.

    Args:
        where: HOST:PORT of the relay.
        key: see :func:`impi.protocol.startup.auth.relay_key`.
        count: number of endpoints.
        silence_s: seconds of silence after which the relay is lost; 0: never.
    """

    def __init__(self, where: str, key: bytes, count: int, silence_s: float) -> None:
        self._where, self._key, self._silence_s = where, key, silence_s
        self._hosts: Sequence[tuple[str, int]] = ()
        self.lost = ""
        self._sock = self._reach()
        try:
            ports = self._ask(count)
        except BaseException:
            self._sock.close()
            raise
        self._relay: tuple[str, int] = self._sock.getpeername()[:2]
        # Address and port of each, which hosts advertise.
        self.endpoints = tuple((self._relay[0], port) for port in ports)
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
            raise UsageError(f"--relay takes HOST:PORT of a relay, not {self._where!r}: {_START}") from None
        try:
            sock = connect(host, port, _ANSWER_S)
        except OSError as error:
            reason = error.strerror or error
            raise StartupError(f"no relay answers at {self._where} ({reason}): {_START}") from None
        head = MARK + OWNER
        try:
            known = introduce(sock, head, self._key, head)
        except OSError as error:
            sock.close()
            raise StartupError(f"what listens at {self._where} is no relay ({error}): {_START}") from None
        if not known:
            sock.close()
            raise StartupError(f"the relay at {self._where} does not know this job's secret: give it the same")
        return sock

    def _ask(self, count: int) -> list[int]:
        line = bytearray()
        try:
            self._sock.sendall(encode({"endpoints": count}))
            while not line.endswith(b"\n") and len(line) < MOST_LINE:
                line += receive_exactly(self._sock, 1)  # what follows the line is the thread's
            answer = decode(bytes(line))
        except (OSError, PeerError) as error:
            raise StartupError(f"the relay at {self._where} has not given {count} endpoints: {error}") from None
        if "error" in answer:
            raise StartupError(f"the relay at {self._where}: {answer['error']}")
        ports = answer.get("ports")
        if not isinstance(ports, list) or len(ports) != count or not all(isinstance(port, int) for port in ports):
            raise StartupError(f"the relay at {self._where} is of another version: it has told no {count} ports")
        return ports

    def lead(self, hosts: Sequence[HostFacts]) -> tuple[HostFacts, ...]:
        """Return the facts of hosts as others must know them: at the endpoints of the relay."""
        self._hosts = [(addresses.to_text(host.ipv6), host.port) for host in hosts]
        return tuple(
            replaced(host, ipv6=addresses.from_text(address), port=port)
            for host, (address, port) in zip(hosts, self.endpoints, strict=False)
        )

    def check(self, job: Job, trust: Trust) -> None:
        """Raise StartupError if hosts of a job prove no secret: ours come from other addresses."""
        proving = trust.clients
        others = [str(client) for client in range(job.nclients) if client not in proving]
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
        """Begin to serve visitors, in a thread; the process must not fork from now on."""
        open_more_files()
        self._thread.start()

    def raise_lost(self, phase: str) -> None:
        """Raise JobError if the relay is lost; ``phase``: of the job, in words."""
        if self.lost:
            raise JobError(f"the relay at {self._where} {self.lost}, {phase}")

    def close(self) -> None:
        """Give the endpoints up, after the last octets of hosts. Idempotent."""
        if self._thread.ident is not None:
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
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        reader, writer = await asyncio.open_connection(sock=self._sock, limit=MOST_LINE)
        visits: dict[asyncio.Task[None], asyncio.Event] = {}
        beats = asyncio.create_task(beat(writer))
        hearing = asyncio.create_task(self._hear(reader, writer, visits))
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait({hearing, over}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            self.lost = hearing.result()
            self._outside.send(b"\0")
            # Hosts that saw their channels end would look like the cause: impirun ends them first.
            await over
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self.lost else _DRAIN_S):
                await asyncio.gather(*(sent.wait() for sent in visits.values()))
        writer.close()
        tasks = [beats, hearing, *visits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        visits: dict[asyncio.Task[None], asyncio.Event],
    ) -> str:
        """Serve visitors; return why there will be no more.

        ``visits`` gets their tasks, and what is set once a host has sent all that it will.
        """
        try:
            while (word := await hear(reader, self._silence_s)) is not None:
                if "visit" in word:
                    sent = asyncio.Event()
                    visit = asyncio.create_task(self._fetch(word["visit"], word.get("endpoint"), writer, sent))
                    visits[visit] = sent
                    visit.add_done_callback(visits.pop)
        except TimeoutError:
            return silence(self._silence_s)
        except PeerError as error:
            return error.message
        return "has ended"

    async def _fetch(self, visitor: object, number: object, writer: asyncio.StreamWriter, sent: asyncio.Event) -> None:
        try:
            token, place = bytes.fromhex(str(visitor)), self._hosts[int(str(number))]
            with closing(await _dial(place)) as host, closing(await _dial(self._relay)) as relay:
                async with asyncio.timeout(_ANSWER_S):
                    await knock(relay, token, self._key)
                await splice(host, relay, sent)
        except (OSError, PeerError, LookupError, ValueError):
            tell(writer, refuse=visitor)
        finally:
            sent.set()


async def _dial(place: tuple[str, int]) -> socket.socket:
    """Return a connection that does not block; OSError: there is none in time."""
    sock = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.get_running_loop().sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock
