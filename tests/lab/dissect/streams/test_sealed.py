"""The octets of connections in TLS: records behind a short start, and no secret."""

from __future__ import annotations

import pytest

from impi.lab.dissect.streams.sealed import between_nodes, in_clear
from impi.lab.dissect.streams.tcp import Connection, Stream

ONE, OTHER, STRANGER = ((bytes([10, 0, 0, last]), 4000) for last in (1, 2, 9))
SECRET = b"1234567890123456789"


def record(kind: int, data: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(data).to_bytes(2, "big") + data


HELLO = record(22, bytes(200))
SEALED = bytes(80) + HELLO + record(20, b"\1") + record(23, bytes(range(256)))


def found(data: bytes, back: bytes = SEALED) -> list[str]:
    connection = Connection(ONE, OTHER, 0.0, Stream(data), Stream(back))
    return [each.text for each in in_clear([connection], SECRET)]


@pytest.mark.parametrize("data", [SEALED, SEALED[:-3], HELLO])
def test_a_start_and_then_records(data: bytes) -> None:
    assert found(data) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(80),
        SEALED + b"IMPI" + bytes(4),
        bytes(1000) + HELLO,
        bytes(80) + HELLO + record(23, bytes(1 << 15)),
    ],
)
def test_what_is_not_in_tls(data: bytes) -> None:
    (why,) = found(data)
    assert why.startswith(f"{len(data)} octets, not in TLS")


def test_the_secret_is_told_on_either_side() -> None:
    assert found(SEALED + record(23, SECRET)) == ["the secret itself"]
    assert found(SEALED, SECRET + SEALED) == ["the secret itself"]


def test_only_connections_of_nodes_with_octets_are_looked_at() -> None:
    whole = Connection(ONE, OTHER, 0.0, Stream(HELLO), Stream())
    others = [
        Connection(ONE, STRANGER, 0.0, Stream(HELLO), Stream()),
        Connection(ONE, OTHER, 0.0, Stream(), Stream()),
    ]
    assert between_nodes([whole, *others], [ONE[0], OTHER[0]]) == [whole]
