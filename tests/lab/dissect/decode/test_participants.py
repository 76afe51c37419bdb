"""Hosts and procs by the names that packets and connections have for them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from conversations import OURS, PEER, layout

from impi.lab.dissect.decode.participants import endpoint_address, show_address


def test_a_proc_is_named_by_address_and_pid() -> None:
    known = layout()
    assert (known.rank_of(OURS, 1000), known.rank_of(PEER, 1001)) == (0, 1)
    assert known.rank_of(OURS, 1001) is None
    assert known.rank_of(bytes(16), 1000) is None


def test_a_host_is_found_where_it_listens_in_any_form_of_its_address() -> None:
    known = layout()
    for form in (PEER, PEER[12:], bytes(10) + b"\xff\xff" + PEER[12:]):
        found = known.host_at(form, 52002)
        assert found is not None
        assert found.index == 1
    assert known.host_at(PEER, 52001) is None


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("fe80::1", "fe80::1"),
        ("::", "::"),
        ("::1", "::1"),
        ("::ffff:0.0.0.1", "0.0.0.1"),
    ],
)
def test_ipv4_in_ipv6_is_ipv4_but_for_loopback_and_the_wildcard(
    address: str, shown: str
) -> None:
    packed = ip_address(address).packed
    assert show_address(packed) == shown
    assert endpoint_address(packed) == ip_address(shown).packed
