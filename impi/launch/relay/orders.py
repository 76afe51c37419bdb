"""Messages between an owner of endpoints and its relay: lines of JSON in a TLS session.

Whoever could write here would open, close and refuse connections of the job, so there is a session
always, whether or not the job has ``--tls``. Both ends prove it by the key of the relay.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final

from impi.base.errors import PeerError
from impi.launch.pulse import BEAT_S
from impi.protocol.proofs import PROOF_SIZE, compare_digest
from impi.protocol.startup.encrypted import INTERCEPTED, Stream, session_proof

MOST_LINE: Final = 1 << 16
"""Longest line in octets: the ports of some 9000 endpoints."""
_CHUNK: Final = 1 << 16
# A look at what has come meanwhile, where this process was late itself
_LATE_S: Final = 0.2


class Orders:
    """One end of the conversation.

    Args:
        reader: of the connection.
        writer: of the connection.
        stream: the session, which both ends have proved.
        heard: octets of the other end that were received already.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: Stream,
        heard: bytes = b"",
    ) -> None:
        self._reader, self._writer = reader, writer
        self._stream, self._heard = stream, bytearray(heard)

    @property
    def unread(self) -> int:
        """Octets that the other end has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def tell(self, **word: object) -> None:
        """Write a line, in one piece: :meth:`beat` writes to the same connection."""
        self._writer.write(self._stream.send(encode(word)))

    async def beat(self) -> None:
        """Send a heartbeat every :data:`~impi.launch.pulse.BEAT_S` seconds, until the peer is
        gone."""
        with suppress(OSError):
            while True:
                self.tell()
                await self.drain()
                await asyncio.sleep(BEAT_S)

    async def hear(self, limit_s: float) -> dict[str, object] | None:
        """Return the object in the next line; None: the connection has ended.

        Raises:
            TimeoutError: nothing has come for ``limit_s`` seconds; 0: there is no limit.
            PeerError: the line is too long, or no JSON object, or it is not of this session.
        """
        while b"\n" not in self._heard:
            if len(self._heard) > MOST_LINE:
                raise PeerError(f"sent a line of more than {MOST_LINE} octets")

            try:
                octets = await self._some(limit_s)
            except TimeoutError:
                raise
            except OSError:
                return None

            if not octets:
                return None

            found, answer = self._stream.receive(octets)
            self._heard += found
            self._writer.write(answer)

        line, _, self._heard = self._heard.partition(b"\n")

        return decode(bytes(line))

    async def _some(self, limit_s: float) -> bytes:
        reading = asyncio.ensure_future(self._reader.read(_CHUNK))
        try:
            # Not by asyncio.timeout: it cancels what has come, if this loop was late itself.
            await asyncio.wait({reading}, timeout=limit_s or None)
            if not reading.done():
                await asyncio.wait({reading}, timeout=_LATE_S)
            if not reading.done():
                raise TimeoutError

            return reading.result()
        finally:
            reading.cancel()

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def accepted(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
) -> Orders:
    """Accept the session of an owner that has proved the key.

    Raises:
        OSError: the connection has ended.
        PeerError: it begins no session, or holds another one: somebody is between.
    """

    stream, heard = Stream(accepts=True), b""
    while len(heard) < PROOF_SIZE:
        if not (octets := await reader.read(_CHUNK)):
            raise ConnectionError("it closed the connection")

        found, answer = stream.receive(octets)
        heard += found
        writer.write(answer)

    ours, theirs = (
        session_proof(key, stream.binding, accepts=accepts) for accepts in (True, False)
    )
    if not compare_digest(heard[:PROOF_SIZE], theirs):
        raise PeerError(INTERCEPTED)

    writer.write(stream.send(ours))

    return Orders(reader, writer, stream, heard[PROOF_SIZE:])


def encode(word: dict[str, object]) -> bytes:
    """Return an object as a line of JSON."""
    return json.dumps(word).encode() + b"\n"


def decode(line: bytes) -> dict[str, object]:
    """Return the object in a line of JSON; PeerError: it is none."""
    try:
        word = json.loads(line)
    except (ValueError, RecursionError):
        word = None

    if not isinstance(word, dict):
        raise PeerError("sent no JSON object", octets=line)

    return word
