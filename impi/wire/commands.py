"""Commands between client and server: ``cmd:Int4 len:Int4 payload[len]``, big-endian, both ways (IMPI 2.3.2).

The answer to AUTH, ``which:Int4 len:Int4`` and ``len`` octets, has the same shape, so :class:`CommandReader` reads it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from impi.errors import LocalProtocolError, PeerError

__all__ = ["MAX_PAYLOAD", "Command", "CommandReader", "Label", "OwnLabel", "encode_command"]

MAX_PAYLOAD: Final = 1 << 22
"""Most octets in one command of a client: P_IPV6 of 262143 procs. A broadcast is at most 32 times that."""

_HEAD: Final = struct.Struct(">ii")


class Command(IntEnum):
    """What a message is for: its name in ASCII (IMPI 2.3.2)."""

    AUTH = 0x41555448
    IMPI = 0x494D5049
    COLL = 0x434F4C4C
    DONE = 0x444F4E45
    FINI = 0x46494E49


class Label(IntEnum):
    """What a COLL command carries: one value per client, per host or per proc (IMPI 2.3.5)."""

    C_VERSION = 0x1000
    C_NHOSTS = 0x1100
    C_NPROCS = 0x1200
    C_DATALEN = 0x1300
    C_TAGUB = 0x1400
    C_COLL_XSIZE = 0x1500
    C_COLL_MAXLINEAR = 0x1600
    H_IPV6 = 0x2000
    H_PORT = 0x2100
    H_NPROCS = 0x2200
    H_ACKMARK = 0x2300
    H_HIWATER = 0x2400
    P_IPV6 = 0x3000
    P_PID = 0x3100


class OwnLabel(IntEnum):
    """Ours, not the specification's, and above all of its labels (IMPI 2.3.5: clients ignore what they do not know).

    Each is submitted only by clients whose user chose something, and carries an Int4 a client unless it says otherwise.
    """

    C_VERIFY = 0x494C0100
    """The level of IMPI_VERIFY."""
    C_COLLECTIVES = 0x494C0200
    """What --collectives has chosen: bit i is the i-th of ``job.ALTERNATIVES``."""
    C_TUNING = 0x494C0300
    """The table of --tuning: a UInt4 with the octets of its JSON, and these; only in jobs of ``job.TUNED_VERSION``."""
    C_NATIVE = 0x494C0400
    """How the processes of the client keep values in memory: four octets, of which the first is 1 for little-endian
    (:func:`impi.semantics.representation.own`). By every client that knows it; only in jobs of that version, too."""


def encode_command(cmd: int, payload: bytes = b"") -> bytes:
    """The octets of one command.

    Raises:
        LocalProtocolError: ``cmd`` or the length of ``payload`` is no Int4.
    """
    try:
        return _HEAD.pack(cmd, len(payload)) + payload
    except struct.error as error:
        raise LocalProtocolError(f"a command does not fit its header ({error})", clause="2.3.2") from error


class CommandReader:
    """Cuts a stream into commands; it knows no command and skips none.

    Put octets in with :meth:`receive_data`, then take commands out with :meth:`next_command` until it returns None.
    One at a time, because a command may decide how to read what follows it (a key is bare octets: :meth:`take`).

    It holds at most ``8 + limit`` octets besides the last chunk, if the caller takes out all that it can. ``limit`` may
    be changed between commands.
    """

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self.limit = limit
        """Most octets of payload that the next command may have."""
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Octets held: of a command that is not complete, once all others have been taken out."""
        return len(self._buffer)

    @property
    def held(self) -> bytes:
        """The first of these octets, for reports; never a whole payload."""
        return bytes(self._buffer[: 2 * _HEAD.size])

    def receive_data(self, data: bytes) -> None:
        """Append octets of the stream."""
        self._buffer += data

    def next_command(self) -> tuple[int, bytes] | None:
        """The next command and its payload, or None if it is not complete yet.

        Raises:
            PeerError: its length is negative or over ``limit``; the stream cannot be read any further.
        """
        if len(self._buffer) < _HEAD.size:
            return None
        cmd, length = _HEAD.unpack_from(self._buffer)
        if not 0 <= length <= self.limit:
            raise PeerError(
                f"a command announces {length} octets, where 0 to {self.limit} are accepted",
                clause="2.3.2",
                octets=bytes(self._buffer[: _HEAD.size]),
            )
        octets = self.take(_HEAD.size + length)
        return None if octets is None else (cmd, octets[_HEAD.size :])

    def take(self, size: int) -> bytes | None:
        """The next ``size`` octets as they are, or None if fewer have come."""
        if len(self._buffer) < size:
            return None
        octets = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return octets
