"""Endpoints and addresses."""

import socket

import pytest

from impi.base.errors import UsageError
from impi.launch.net import parse_endpoint, peer_name
from impi.rank.vendors.dial import show_endpoint


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
    "text",
    [
        "",
        "host",
        "host:",
        ":5",
        "host:0",
        "host:65536",
        "host:x",
        "fd00::1:5",
        "[]:5",
        "h:٣",
    ],
)
def test_no_endpoints(text: str) -> None:
    with pytest.raises(UsageError, match="impirun -server"):
        parse_endpoint(text)


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        socket, "getnameinfo", lambda _address, _flags: ("client1.foo.com", "0")
    )
    assert peer_name("12.34.56.78") == "client1.foo.com"

    def fail(_address: object, _flags: int) -> tuple[str, str]:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getnameinfo", fail)
    assert peer_name("12.34.56.78") == "12.34.56.78"
