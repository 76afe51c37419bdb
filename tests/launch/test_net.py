"""Endpoints and addresses."""

import ipaddress
import socket

import pytest

from impi.errors import UsageError
from impi.launch.net import outgoing_address, parse_endpoint, peer_name, show_endpoint


@pytest.mark.clause("2.1")
@pytest.mark.clause("2.2.1")
@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("10.0.0.1:5678", ("10.0.0.1", 5678)),
        ("server.example:1\n", ("server.example", 1)),
        ("[fd00::1]:65535", ("fd00::1", 65535)),
    ],
)
def test_endpoints(text: str, endpoint: tuple[str, int]) -> None:
    assert parse_endpoint(text) == endpoint
    assert show_endpoint(*endpoint) == text.strip()


@pytest.mark.clause("2.2.2")
@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":5", "host:0", "host:65536", "host:x", "fd00::1:5", "[]:5", "h:٣"]
)
def test_no_endpoints(text: str) -> None:
    with pytest.raises(UsageError, match="impirun -server"):
        parse_endpoint(text)


def test_the_outgoing_address_is_one_of_ours() -> None:
    address = outgoing_address()
    with socket.socket() as sock:
        sock.bind((address, 0))
    assert ipaddress.ip_address(address).version == 4
    assert outgoing_address("127.0.0.1") == "127.0.0.1"


def test_no_route_means_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError

    monkeypatch.setattr("impi.launch.net.socket.socket.connect", refuse)
    assert outgoing_address() == "127.0.0.1"
    assert outgoing_address("fd00::1") == "::1"


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", lambda _address, _flags: ("client1.foo.com", "0"))
    assert peer_name("12.34.56.78") == "client1.foo.com"

    def fail(_address: object, _flags: int) -> tuple[str, str]:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getnameinfo", fail)
    assert peer_name("12.34.56.78") == "12.34.56.78"
