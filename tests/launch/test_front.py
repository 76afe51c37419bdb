"""The output of server and relay, and the addresses where they listen."""

from __future__ import annotations

import io
import socket

import pytest

from impi.base.errors import UsageError
from impi.launch.front import ANY, listen, print_endpoint, reachable
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made


def test_a_port_in_use_is_said_with_a_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError,
            match=rf"cannot listen on 127\.0\.0\.1, port {port}: .*choose another -port",
        ):
            listen(made(ServerOptions, interface="127.0.0.1", port=port))
        with pytest.raises(UsageError, match="let more ports through with --ports"):
            listen(
                made(ServerOptions, interface="127.0.0.1", ports=range(port, port + 1))
            )
    with pytest.raises(
        UsageError, match="--interface takes an address of this machine"
    ):
        listen(made(ServerOptions, interface="192.0.2.1"))


def test_where_stdout_is_closed_stderr_has_the_endpoint() -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    print_endpoint("relay", "10.0.0.1:5", stdout, stderr)
    assert (stdout.getvalue(), stderr.getvalue()) == ("10.0.0.1:5\n", "")
    stdout.close()
    print_endpoint("relay", "10.0.0.1:5", stdout, stderr)
    assert (
        stderr.getvalue()
        == "impirun: stdout is closed; the relay listens on 10.0.0.1:5\n"
    )


def test_all_addresses_have_one_that_others_reach() -> None:
    assert reachable(ANY[0]) not in ANY
