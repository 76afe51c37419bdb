"""Connecting by names and addresses."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from impi.base.errors import UsageError
from impi.base.variables import port_range
from impi.rank.vendors.dial import connect, dial, listening, plain


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_addresses(family: socket.AddressFamily) -> None:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        where = (
            f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"
        )
        for connected in (dial(where, 5), connect(address, port, 5)):
            with connected, server.accept()[0] as accepted:
                assert connected.getpeername() == accepted.getsockname()


@pytest.mark.parametrize(
    ("name", "asked"), [("a.b", b"a.b"), ("bücher.example", b"xn--bcher-kva.example")]
)
def test_names(name: str, asked: bytes) -> None:
    assert plain(name) == asked


@pytest.mark.parametrize("name", ["nö..such", "ö" * 70])
def test_what_can_be_no_name_is_none_that_is_known(name: str) -> None:
    with pytest.raises(OSError, match="Name or service not known"):
        connect(name, 1, 5)


def test_no_table_of_names_is_loaded() -> None:
    code = """if True:
        import socket, sys
        from impi.rank.vendors.dial import dial
        with socket.create_server(("127.0.0.1", 0)) as server:
            dial(f"127.0.0.1:{server.getsockname()[1]}", 5).close()
        print("encodings.idna" in sys.modules)
    """
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_a_listener_takes_the_first_free_port_of_a_range() -> None:
    ports = range(21_000, 21_003)
    with ExitStack() as stack:
        taken = {
            stack.enter_context(listening("127.0.0.1", 1, ports)).getsockname()[1]
            for _ in ports
        }
        assert taken == set(ports)
        with pytest.raises(OSError, match="none of the ports 21000 to 21002 is free"):
            listening("127.0.0.1", 1, ports)
    with listening("::1", 1, ports) as six:
        assert six.getsockname()[1] in ports


@pytest.mark.parametrize(
    "text", ["0", "5-", "-5", "7-6", "65536", "1-65536", "a", "1-2-3", "１", " 1"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a range of ports, such as 20000-20100"
    ):
        port_range(text)


def test_ranges() -> None:
    assert (port_range(""), port_range("80"), port_range("1-65535")) == (
        range(0),
        range(80, 81),
        range(1, 65536),
    )
