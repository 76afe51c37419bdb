"""The 128 octets of IMPI 3.5."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError, Truncated
from impi.protocol.wire import (
    HEADER_SIZE,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)

U4 = st.integers(0, 2**32 - 1)
S4 = st.integers(-(2**31), 2**31 - 1)
U8 = st.integers(0, 2**64 - 1)
S8 = st.integers(-(2**63), 2**63 - 1)
ADDRESS = st.binary(min_size=16, max_size=16)
HEADERS = st.builds(
    Header, U4, U4, ADDRESS, S8, ADDRESS, S8, U8, U8, U8, S4, S4, U8, U8, S8, U8, U8
)

# Offset and struct code of each field, written from the C structure of 3.5.
FIELDS = {
    "pk_type": (0, ">I"),
    "pk_len": (4, ">I"),
    "src_ipv6": (8, "16s"),
    "src_pid": (24, ">q"),
    "dest_ipv6": (32, "16s"),
    "dest_pid": (48, ">q"),
    "srqid": (56, ">Q"),
    "drqid": (64, ">Q"),
    "msglen": (72, ">Q"),
    "lsrank": (80, ">i"),
    "tag": (84, ">i"),
    "cid": (88, ">Q"),
    "seqnum": (96, ">Q"),
    "count": (104, ">q"),
    "dtype": (112, ">Q"),
    "reserved": (120, ">Q"),
}


@pytest.mark.clause("3.5")
@given(HEADERS, st.integers(0, 9))
def test_round_trip_at_any_offset(header: Header, offset: int) -> None:
    octets = pack_header(header)
    assert len(octets) == HEADER_SIZE == 128
    assert unpack_header(bytes(offset) + octets, offset) == header
    assert unpack_header(memoryview(bytearray(octets))) == header


@pytest.mark.clause("3.5")
@given(HEADERS)
def test_each_field_is_at_its_offset(header: Header) -> None:
    octets = pack_header(header)
    assert tuple(FIELDS) == Header._fields
    for name, (offset, code) in FIELDS.items():
        assert struct.unpack_from(code, octets, offset)[0] == getattr(header, name), (
            name
        )


@pytest.mark.clause("3.5")
def test_types_have_the_numbers_of_table_3_1() -> None:
    names = [
        "DATA",
        "DATASYNC",
        "PROTOACK",
        "SYNCACK",
        "CANCEL",
        "CANCELYES",
        "CANCELNO",
        "FINI",
    ]
    assert [(t.name, t.value) for t in PacketType] == [
        (name, n) for n, name in enumerate(names)
    ]


def test_unused_fields_are_zeros() -> None:
    assert pack_header(Header(PacketType.FINI)) == b"\0\0\0\x07" + bytes(124)


@pytest.mark.parametrize(
    "header",
    [
        Header(-1),
        Header(0, pk_len=2**32),
        Header(0, src_ipv6=b"short"),
        Header(0, dest_ipv6=bytes(17)),
        Header(0, lsrank=2**31),
        Header(0, tag=-(2**31) - 1),
        Header(0, cid=2**64),
        Header(0, count=2**63),
        Header(0, msglen=-1),
    ],
)
def test_what_does_not_fit_is_refused(header: Header) -> None:
    with pytest.raises(LocalProtocolError):
        pack_header(header)


@pytest.mark.parametrize(
    ("octets", "offset"), [(b"", 0), (bytes(127), 0), (bytes(130), 3)]
)
def test_too_few_octets(octets: bytes, offset: int) -> None:
    with pytest.raises(Truncated, match="128"):
        unpack_header(octets, offset)
