"""Start-up commands, both ways: ``cmd:Int4 len:Int4 payload[len]``, big-endian (IMPI 2.3.2).

:class:`CommandReader` also reads the answer to AUTH, whose ``which:Int4 len:Int4 data`` looks
alike.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from impi.base.errors import LocalProtocolError, PeerError

MAX_PAYLOAD: Final = 1 << 22
"""Most octets in a command of a client: P_IPV6 of 262143 procs. Broadcasts reach 32 times that."""

_HEAD: Final = struct.Struct(">ii")
_CODE: Final = struct.Struct(">i")
# A sentence, for people: more could be a flood on the other user's terminal.
_LONGEST_REASON: Final = 1000


class Command(IntEnum):
    """Commands of the start-up protocol; the value is the name in ASCII (IMPI 2.3.2)."""

    AUTH = 0x41555448
    IMPI = 0x494D5049
    COLL = 0x434F4C4C
    DONE = 0x444F4E45
    FINI = 0x46494E49


class OwnCommand(IntEnum):
    """Commands of our own; both sides discard what they do not understand (IMPI 2.3.2)."""

    PROV = 0x50524F56
    """The server's proof and the number of the job, see :mod:`impi.protocol.startup.challenge`."""
    SEAL = 0x5345414C
    """A proof over all octets that its sender has sent, after DONE."""
    FAIL = 0x4641494C
    """The reason for the job's failure: from a client before it closes, and from the server to all.

    An Int4, the exit code of the job, then one sentence in UTF-8.
    """
    BEAT = 0x42454154
    """Its sender runs. Both ends send it regularly after PROV; no payload; no part of a seal."""
    LOSS = 0x4C4F5353
    """A client, or procs of it, are lost, and the job goes on; only in a resilient job.

    Int4 values: the client, a number of ranks, these ranks in MPI_COMM_WORLD (none: all of the
    client); then one sentence in UTF-8. From a client to the server, and from it to all.
    """
    CAME = 0x43414D45
    """The addresses that start-up connections came from, 16 octets for each client.

    From the server, before DONE, to clients that offer a version of ours; see
    :mod:`impi.protocol.startup.origins`.
    """
    NAME = 0x4E414D45
    """A process, which is not a client, asks for a published name; see
    :mod:`impi.protocol.startup.names`."""


class Label(IntEnum):
    """Labels of the COLL command: one value per client, per host or per proc (IMPI 2.3.5)."""

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
    """Labels of our own, above all in the specification; clients ignore unknown ones (2.3.5).

    A client submits one only if its user chose something. Data is an Int4 per client if not said.
    """

    C_VERIFY = 0x494C0100
    """The level of IMPI_VERIFY."""
    C_COLLECTIVES = 0x494C0200
    """The choice of --collectives: bit i stands for the i-th of ``job.ALTERNATIVES``."""
    C_TUNING = 0x494C0300
    """The --tuning table: a UInt4 length, then JSON; only in jobs of ``job.TUNED_VERSION``."""
    C_NATIVE = 0x494C0400
    """The form of values in the client's memory, 4 octets; the first is 1 for little-endian.

    See :func:`impi.protocol.semantics.values.representation.own`; only in jobs of
    ``job.TUNED_VERSION``.
    """
    C_SOFTWARE = 0x494C0500
    """Python's and numpy's major and minor version, an octet each; numpy 0.0: none is installed.

    See :func:`impi.rank.engine.job.software.own`; only in jobs of ``job.TUNED_VERSION``.
    """
    C_PROVES = 0x494C0600
    """The hosts of the client have the job's key; the value is 1, or 3: they have TLS, too.

    See :mod:`impi.protocol.startup.challenge`; only in jobs of ``job.TUNED_VERSION``.
    """


def encode_command(cmd: int, payload: bytes = b"") -> bytes:
    """The octets of one command.

    Raises:
        LocalProtocolError: ``cmd`` or the length of ``payload`` is not an Int4.
    """
    try:
        return _HEAD.pack(cmd, len(payload)) + payload
    except struct.error as error:
        raise LocalProtocolError(
            f"a command does not fit its header ({error})", clause="2.3.2"
        ) from error


def encode_reason(reason: str, code: int = 1) -> bytes:
    """The command FAIL with that sentence and exit code."""
    return encode_command(
        OwnCommand.FAIL,
        _CODE.pack(code) + reason.encode("utf-8", "replace")[:_LONGEST_REASON],
    )


def decode_reason(payload: bytes) -> tuple[str, int]:
    """The sentence in a FAIL, in one line and fit for a terminal, and the exit code, 1 to 255."""
    code = _CODE.unpack_from(payload)[0] if len(payload) >= _CODE.size else 1
    return _shown(payload[_CODE.size :]), code if 0 < code < 256 else 1


def _shown(sentence: bytes) -> str:
    text = sentence[:_LONGEST_REASON].decode("utf-8", "replace")
    # Another machine's octets go to this user's terminal: control characters
    # could change what it shows.
    return "".join(c if c.isprintable() else " " for c in text) or "no reason was given"


def encode_loss(client: int, ranks: Sequence[int], reason: str) -> bytes:
    """The command LOSS; no ranks: all of the client."""
    numbers = struct.pack(f">{len(ranks) + 2}i", client, len(ranks), *ranks)
    return encode_command(
        OwnCommand.LOSS, numbers + reason.encode("utf-8", "replace")[:_LONGEST_REASON]
    )


def decode_loss(payload: bytes) -> tuple[int, tuple[int, ...], str]:
    """Client, ranks and sentence in a LOSS.

    Raises:
        PeerError: it is cut short, or a number is negative.
    """

    client, count = (
        struct.unpack_from(">ii", payload) if len(payload) >= _HEAD.size else (-1, -1)
    )

    # Compared before anything is unpacked: the count is the sender's.
    end = _HEAD.size + count * _CODE.size
    if min(client, count) < 0 or len(payload) < end:
        raise PeerError(
            "sent a LOSS that is cut short", octets=payload[: 2 * _HEAD.size]
        )

    ranks = struct.unpack_from(f">{count}i", payload, _HEAD.size)

    return client, ranks, _shown(payload[end:])


class CommandReader:
    """Cuts a stream into commands, known or unknown; it skips none.

    Put octets in with :meth:`receive_data`, then call :meth:`next_command` until it returns None.
    Commands come out singly because one may change how to read on (a key is bare: :meth:`take`).

    Between calls it holds at most ``8 + limit`` octets and the last chunk, if the caller takes all
    that is complete. ``limit`` may change between commands.

    Args:
        limit: most octets of payload that a command may have.
        peer: the other end in the user's words; errors name it.
    """

    def __init__(self, limit: int = MAX_PAYLOAD, peer: str = "") -> None:
        self.limit = limit
        """Most octets of payload that the next command may have."""
        self._peer = peer
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Octets held: of a command that is not complete, once all others have been taken out."""
        return len(self._buffer)

    @property
    def held(self) -> bytes:
        """The first of these octets, for reports; never a whole payload."""
        return bytes(self._buffer[: 2 * _HEAD.size])

    def receive_data(self, data: bytes) -> None:
        self._buffer += data

    def next_command(self) -> tuple[int, bytes] | None:
        """Return the next command and its payload, or None if it is not complete yet.

        Raises:
            PeerError: negative length or one over ``limit``; the stream cannot be read further.
        """

        if len(self._buffer) < _HEAD.size:
            return None

        # A length beyond the limit is refused on its announcement, before
        # its octets fill the memory.
        cmd, length = _HEAD.unpack_from(self._buffer)
        if not 0 <= length <= self.limit:
            raise PeerError(
                f"a command announces {length} octets, where 0 to {self.limit} are accepted",
                clause="2.3.2",
                peer=self._peer,
                octets=bytes(self._buffer[: _HEAD.size]),
            )

        octets = self.take(_HEAD.size + length)

        return None if octets is None else (cmd, octets[_HEAD.size :])

    def take(self, size: int) -> bytes | None:
        if len(self._buffer) < size:
            return None

        # By a view, since a slice of the bytearray would be one more copy of the payload.
        octets = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]

        return octets
