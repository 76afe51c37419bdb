"""Connections that must be in TLS: what their octets show without the keys.

A job with ``--tls`` begins each connection with nonces and proofs in clear, which depend on the
secret and do not tell it. All that follows must be TLS records (RFC 8446, 5.1). So no command and
no packet of IMPI is in clear, and the case's data cannot be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from impi.lab.dissect.streams.pcap import Endpoint
from impi.lab.dissect.streams.tcp import Connection

_START: Final = (
    600  # octets in clear at most: nonces, proofs, and the commands around them
)
_HEADER: Final = 5
_LONGEST: Final = (1 << 14) + 256  # octets of a record
_HANDSHAKE: Final = 22
_KINDS: Final = range(20, 24)


@dataclass(frozen=True, slots=True)
class InClear:
    """Octets of a connection that are not in TLS, or that tell the secret."""

    sender: Endpoint
    text: str


def between_nodes(
    connections: Iterable[Connection], nodes: Collection[bytes]
) -> list[Connection]:
    """Return the connections between these addresses that carry any octets."""
    return [
        each
        for each in connections
        if {each.opener[0], each.accepter[0]} <= {*nodes}
        and (each.forth.data or each.back.data)
    ]


def in_clear(connections: Iterable[Connection], secret: bytes) -> Iterator[InClear]:
    """Yield what is not as it must be, for each direction of these connections."""
    for each in connections:
        for sender, data in (
            (each.opener, each.forth.data),
            (each.accepter, each.back.data),
        ):
            if secret in data:
                yield InClear(sender, "the secret itself")
            elif not _is_sealed(data):
                yield InClear(sender, f"{len(data)} octets, not in TLS: {data[:16]!r}")


def _is_sealed(data: bytes) -> bool:
    return any(
        data[at] == _HANDSHAKE and _are_records(data, at)
        for at in range(min(len(data), _START))
    )


def _are_records(data: bytes, at: int) -> bool:
    """Whether nothing but records follows; the end may cut the last one."""
    while at < len(data):
        kind, version = data[at], data[at + 1 : at + 3]
        length = int.from_bytes(data[at + 3 : at + _HEADER], "big")
        if kind not in _KINDS or version[:1] not in (b"\x03", b"") or length > _LONGEST:
            return False

        at += _HEADER + length

    return True
