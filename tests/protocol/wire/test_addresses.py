"""Host identifiers of IMPI 1.2.3."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError, UsageError
from impi.protocol.wire import addresses

TABLE = [
    ("10.0.0.1", "0000000000000000000000000a000001", "10.0.0.1"),
    ("127.0.0.2", "0000000000000000000000007f000002", "127.0.0.2"),
    ("255.255.255.255", "000000000000000000000000ffffffff", "255.255.255.255"),
    ("::ffff:10.0.0.1", "0000000000000000000000000a000001", "10.0.0.1"),
    ("::1", "00000000000000000000000000000001", "::1"),
    ("::", "00000000000000000000000000000000", "::"),
    ("fd00::1:2", "fd000000000000000000000000010002", "fd00::1:2"),
]


@pytest.mark.parametrize(("text", "octets", "shown"), TABLE)
def test_texts_and_octets(text: str, octets: str, shown: str) -> None:
    assert addresses.from_text(text).hex() == octets
    assert addresses.to_text(bytes.fromhex(octets)) == shown


def test_the_mapped_form_of_a_peer_is_ipv4() -> None:
    assert addresses.to_text(bytes(10) + b"\xff\xff\x0a\x00\x00\x01") == "10.0.0.1"


TAILS = st.one_of(
    st.binary(min_size=4, max_size=4),
    st.integers(0, 3).map(lambda n: n.to_bytes(4, "big")),
)
HEADS = st.sampled_from([bytes(12), bytes(10) + b"\xff\xff", b"\xfd" + bytes(11)])


@given(
    st.one_of(
        st.binary(min_size=16, max_size=16), st.builds(bytes.__add__, HEADS, TAILS)
    )
)
def test_every_identifier_has_a_text_that_leads_back(octets: bytes) -> None:
    text = addresses.to_text(octets)
    again = addresses.from_text(text)
    assert again == octets or ipaddress.IPv6Address(
        octets
    ).ipv4_mapped == ipaddress.IPv4Address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "1.2.3",
        "1.2.3.4:5",
        "0.0.0.0",
        "0.0.0.1",
        "fe80::1%eth0",
        "[::1]",
    ],
)
def test_what_is_no_address_of_a_host(text: str) -> None:
    with pytest.raises(UsageError):
        addresses.from_text(text)


@pytest.mark.parametrize("octets", [b"", bytes(4), bytes(17)])
def test_wrong_size(octets: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        addresses.to_text(octets)


@given(
    st.lists(
        st.integers(0, 300).map(str) | st.text("0123456789 +-_\u0661", max_size=4),
        min_size=3,
        max_size=5,
    ).map(".".join)
)
def test_numeric_ipv4_as_pythons_own(text: str) -> None:
    try:
        octets = ipaddress.IPv4Address(text).packed
    except ValueError:
        octets = None
    assert addresses.ipv4_octets(text) == octets
