"""Host channels of lazy jobs: the accepting host answers with its rank, then come packets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversations import layout

from impi.lab.dissect import Connection, Stream
from impi.lab.dissect.decode.host_channel import channels_of
from impi.lab.dissect.decode.participants import Layout

FINI = bytes([0, 0, 0, 7]) + bytes(124)
LAZY = (0, 0, 0x494C4142, 1, 0x494C4142, 2, 0x494C4142, 4)
PROOF = b"IMPI" + bytes(60)


def known(*versions: tuple[int, ...]) -> Layout:
    found = layout()
    return replace(
        found,
        values={
            **found.values,
            "C_VERSION": tuple(n for each in versions for n in each),
        },
    )


def connection(back: bytes, proof: bytes = b"", said: bytes = FINI) -> Connection:
    seen = Connection((b"", 0), (b"", 0), 0.0, Stream(b"\0\0\0\1" + proof + said))
    seen.back.data = back
    return seen


@pytest.mark.parametrize("proof", [b"", PROOF])
def test_the_answer_is_no_packet(proof: bytes) -> None:
    (channel,) = channels_of(
        connection(proof + b"\0\0\0\0" + FINI, proof), 0, known(LAZY, LAZY)
    )
    assert channel.problems == []
    assert [one.kind for one in channel.packets] == ["FINI", "FINI"]


@pytest.mark.parametrize("proof", [b"", PROOF])
def test_a_connection_without_an_answer_is_no_channel(proof: bytes) -> None:
    assert channels_of(connection(proof, proof, b""), 0, known(LAZY, LAZY)) == []
    (channel,) = channels_of(connection(proof, proof), 0, known(LAZY, LAZY))
    assert "host 0 did not answer with its rank" in str(channel.problems[0]), (
        "packets without an answer"
    )


def test_another_rank_is_no_answer() -> None:
    (channel,) = channels_of(connection(b"\0\0\0\2" + FINI), 0, known(LAZY, LAZY))
    assert "host 0 did not answer with its rank" in str(channel.problems[0])


def test_where_one_client_is_not_lazy_packets_come_first() -> None:
    (channel,) = channels_of(connection(FINI), 0, known(LAZY, LAZY[:6]))
    assert [one.kind for one in channel.packets] == ["FINI", "FINI"]
    assert not known(LAZY, (0, 0)).is_lazy
