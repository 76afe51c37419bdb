"""Commands of IMPI 2.3.2."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.wire import (
    MAX_PAYLOAD,
    Command,
    CommandReader,
    Label,
    decode_loss,
    decode_reason,
    encode_command,
    encode_loss,
    encode_reason,
)

INT4 = st.integers(-(2**31), 2**31 - 1)


def read(reader: CommandReader, data: bytes) -> list[tuple[int, bytes]]:
    reader.receive_data(data)
    return list(iter(reader.next_command, None))


@pytest.mark.clause("2.3.2")
def test_codes_spell_their_names() -> None:
    assert {c.name for c in Command} == {"AUTH", "IMPI", "COLL", "DONE", "FINI"}
    for command in Command:
        assert command.to_bytes(4, "big").decode() == command.name


@pytest.mark.clause("2.3.5")
def test_labels() -> None:
    ranges = [("C_", 0x1000, 7), ("H_", 0x2000, 5), ("P_", 0x3000, 2)]
    expected = [first + 0x100 * i for _, first, n in ranges for i in range(n)]
    assert [int(label) for label in Label] == expected == sorted(expected)
    assert all(
        label.name.startswith(p)
        for p, first, _ in ranges
        for label in Label
        if label & 0xF000 == first
    )


@pytest.mark.clause("2.3.2")
def test_octets_of_the_clause() -> None:
    assert encode_command(Command.IMPI, b"\0\0\0\3") == b"IMPI" + bytes.fromhex(
        "00000004 00000003"
    )
    assert encode_command(Command.DONE) == b"DONE" + bytes(4)


@given(st.lists(st.tuples(INT4, st.binary(max_size=40))), st.data())
def test_any_split_gives_the_same_commands(
    commands: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(encode_command(*c) for c in commands)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = CommandReader()
    pieces = [
        stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    assert [c for piece in pieces for c in read(reader, piece)] == commands
    assert len(reader) == 0


def test_octet_by_octet_and_with_a_tail() -> None:
    stream = encode_command(7, b"abc") + b"tail"
    reader = CommandReader()
    got = [c for i in range(len(stream)) for c in read(reader, stream[i : i + 1])]
    assert got == [(7, b"abc")]
    assert len(reader) == 4
    assert reader.take(5) is None
    assert reader.take(4) == b"tail"


@pytest.mark.parametrize(
    "length",
    [-1, -(2**31), 2**31 - 1, MAX_PAYLOAD + 1, struct.unpack(">i", b"/ HT")[0]],
)
def test_absurd_lengths_are_refused_at_the_header(length: int) -> None:
    reader = CommandReader()
    reader.receive_data(b"GET " + struct.pack(">i", length))
    with pytest.raises(PeerError, match=str(length)):
        reader.next_command()


def test_limit_can_be_changed_between_commands() -> None:
    reader = CommandReader(limit=4)
    reader.receive_data(encode_command(1, bytes(4)) + encode_command(2, bytes(5)))
    assert reader.next_command() == (1, bytes(4))
    reader.limit = 5
    assert reader.next_command() == (2, bytes(5))


@pytest.mark.parametrize("cmd", [2**31, -(2**31) - 1])
def test_no_int4(cmd: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_command(cmd)


def test_what_is_held_is_shown_in_part() -> None:
    reader = CommandReader()
    reader.receive_data(encode_command(Command.DONE) + b"COLL" + bytes(90))
    assert reader.next_command() == (Command.DONE, b"")
    assert reader.held == b"COLL" + bytes(12)
    assert len(reader) == 94


# Reasons


@given(st.binary(max_size=3000))
def test_a_reason_fits_on_a_line(payload: bytes) -> None:
    text, code = decode_reason(payload)
    assert text.isprintable()
    assert 0 < len(text) <= 1000
    assert 0 < code < 256


@given(
    st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=100),
    st.integers(1, 255),
)
def test_reasons_travel(text: str, code: int) -> None:
    command = encode_reason(text, code)
    assert command[:4] == b"FAIL"
    assert decode_reason(command[8:]) == (text, code)


@given(
    st.integers(0, 31),
    st.lists(st.integers(0, 2**31 - 1), max_size=5),
    st.text("loses a client", min_size=1),
)
def test_losses_travel(client: int, ranks: list[int], text: str) -> None:
    command = encode_loss(client, ranks, text)
    assert command[:4] == b"LOSS"
    assert decode_loss(command[8:]) == (client, tuple(ranks), text)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(7),
        struct.pack(">ii", 1, 2) + bytes(4),
        struct.pack(">ii", -1, 0),
        struct.pack(">ii", 0, -1),
    ],
)
def test_a_loss_that_is_cut_short(payload: bytes) -> None:
    with pytest.raises(PeerError, match="cut short"):
        decode_loss(payload)
