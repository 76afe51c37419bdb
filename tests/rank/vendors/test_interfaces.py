"""The values of ``--interface``."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from impi.base.errors import StartupError, UsageError
from impi.rank.vendors import interfaces
from impi.rank.vendors.interfaces import address_of, name_of, outgoing_address


@pytest.fixture
def two_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        interfaces,
        "_addresses",
        lambda: {"lo": "127.0.0.1", "eth0": "10.1.2.3", "eth1": "10.2.2.3"},
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.9.9.9", "10.9.9.9"),
        ("fd00::1", "fd00::1"),
        ("[fd00::1]", "fd00::1"),
        ("eth1", "10.2.2.3"),
        ("10.1.0.0/16", "10.1.2.3"),
        ("10.2.2.99/24", "10.2.2.3"),
    ],
)
@pytest.mark.usefixtures("two_interfaces")
def test_address(text: str, address: str) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "eth7",
            r"neither an address nor an interface or network of .*\(lo 127.0.0.1, eth0 10.1.2.3, eth1 10.2.2.3\)",
        ),
        ("10.3.0.0/16", "neither an address nor"),
        ("10.3.0.0/99", "--interface: '10.3.0.0/99'"),
    ],
)
@pytest.mark.usefixtures("two_interfaces")
def test_neither(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        address_of(text)


@pytest.mark.usefixtures("two_interfaces")
def test_name() -> None:
    assert [
        name_of(text) for text in ("eth0", "10.1.2.3", "10.2.0.0/16", "10.9.9.9")
    ] == ["eth0", "eth0", "eth1", ""]


def test_the_loopback_interface_of_this_machine() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert name_of("127.0.0.1") == "lo"


def test_the_outgoing_address_is_one_of_ours() -> None:
    address = outgoing_address()
    with socket.socket() as sock:
        sock.bind((address, 0))
    assert ipaddress.ip_address(address).version == 4
    assert outgoing_address("127.0.0.1") == "127.0.0.1"


def test_no_route_means_loopback_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError

    monkeypatch.setattr("impi.rank.vendors.interfaces.socket.socket.connect", refuse)
    assert outgoing_address() == "127.0.0.1"
    assert outgoing_address("fd00::1") == "::1"
    with pytest.raises(
        StartupError, match=r"no route from \S+ to 10\.9\.9\.9; see --interface"
    ):
        outgoing_address("10.9.9.9", loopback=False)
