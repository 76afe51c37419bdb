"""A relay and its near ends: what passes, what is refused, and what ends when."""

from __future__ import annotations

import resource
import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from relay_world import (
    HERE,
    KEY,
    LIMIT_S,
    MIB,
    RANK,
    SECRET,
    StartRelay,
    behind,
    everything,
)

from impi.base.errors import StartupError, UsageError
from impi.launch.relay.near_end import NearEnd, open_near_end
from impi.launch.relay.splice import MARK, OWNER
from impi.protocol.options import ClientOptions
from impi.protocol.settings import made
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import introduce
from impi.rank.doors.strangers import MOST
from impi.rank.vendors.dial import dial
from impi.rank.vendors.secure_socket import open_stream


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_octets_pass_both_ways_and_a_half_close_is_kept(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    visitor = stack.enter_context(host.visit())
    inside = stack.enter_context(host.accept())
    out, back = bytes(range(256)) * 16384, b"back" * MIB
    writing = threading.Thread(
        target=lambda: (visitor.sendall(out), visitor.shutdown(socket.SHUT_WR))
    )
    writing.start()
    assert everything(inside) == out
    writing.join()
    answering = threading.Thread(target=lambda: (inside.sendall(back), inside.close()))
    answering.start()
    assert everything(visitor) == back
    answering.join()


def test_a_reset_is_passed_on(start_relay: StartRelay, stack: ExitStack) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    visitor = stack.enter_context(host.visit())
    inside = host.accept()
    visitor.sendall(b"x")
    assert inside.recv(1) == b"x"
    inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    inside.close()
    with pytest.raises(ConnectionResetError):
        visitor.recv(1)


@pytest.mark.slow
def test_a_reader_that_does_not_read_stops_the_writer(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    visitor = stack.enter_context(host.visit())
    stack.enter_context(host.accept())
    visitor.settimeout(2.0)
    with pytest.raises(TimeoutError):
        visitor.sendall(bytes(256 * MIB))


def test_visitors_come_to_their_own_host(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    where = start_relay(environ=SECRET).where
    hosts = [behind(stack, where) for _ in range(2)]
    for number, host in enumerate(hosts):
        visitor = stack.enter_context(host.visit())
        visitor.sendall(bytes([number]))
        assert stack.enter_context(host.accept()).recv(1) == bytes([number])
    assert hosts[0].facts[0].procs[0].ipv6 == HERE


def test_a_relay_of_ipv6(start_relay: StartRelay, stack: ExitStack) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    host = behind(stack, start_relay("--interface", "::1", environ=SECRET).where)
    assert addresses.to_text(host.facts[0].ipv6) == "::1"
    with host.visit(address="::1") as visitor, host.accept() as inside:
        visitor.sendall(b"x")
        assert inside.recv(1) == b"x"


def test_an_endpoint_goes_with_its_owner(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    relay = start_relay("-v", environ=SECRET)
    host = behind(stack, relay.where)
    port = host.facts[0].port
    host.near.close()
    assert relay.process.stderr is not None
    while "has gone" not in relay.process.stderr.readline():
        assert relay.process.poll() is None
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", port), LIMIT_S),
    ):
        pass


def test_a_visitor_of_a_host_that_listens_no_more_is_closed_at_once(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    host.listener.close()
    with host.visit() as visitor:
        assert select.select([visitor], [], [], 8.0)[0], "strangers have 10 s"
        assert visitor.recv(1) == b""


# ---- who is refused


def test_a_visitor_without_a_rank_costs_its_host_nothing(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    where = ("127.0.0.1", host.facts[0].port)
    silent = [
        stack.enter_context(socket.create_connection(where, LIMIT_S)) for _ in range(5)
    ]
    silent[0].sendall(RANK[:3])
    stack.enter_context(host.visit())
    stack.enter_context(host.accept())
    host.listener.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        host.listener.accept()


@pytest.mark.parametrize(
    "octets",
    [b"GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n", MARK + bytes(16) + bytes(64)],
)
def test_garbage_gets_nothing(octets: bytes, start_relay: StartRelay) -> None:
    relay = start_relay(environ=SECRET)
    with dial(relay.where, LIMIT_S) as sock:
        sock.sendall(octets)
        with suppress(ConnectionResetError):
            # A nonce and a proof, which tell nothing
            assert len(everything(sock)) <= 64
    ended = relay.end()
    assert ended.code == 143
    assert (
        "refused: it is not a process of a job" in ended.err
        or "refused: it does not know this relay's" in ended.err
    )
    assert "Traceback" not in ended.err


def test_another_secret_gets_no_endpoint(start_relay: StartRelay) -> None:
    relay = start_relay(environ=SECRET)
    options = made(ClientOptions, rank=0, server="", argv=(), relay=relay.where)
    with pytest.raises(
        StartupError,
        match=rf"^the relay at {relay.where} does not know this job's secret",
    ):
        open_near_end(options, {"IMPI_AUTH_SECRET": "another secret, as long"}, 1)


@pytest.mark.parametrize(
    "words",
    [
        b"x\n",
        b"[]\n",
        b"{}\n",
        b'{"endpoints": 0}\n',
        b'{"endpoints": "1"}\n',
        b"{" * 200_000,
        b"",
    ],
)
def test_an_owner_that_asks_for_nothing_sensible_is_refused(
    words: bytes, start_relay: StartRelay
) -> None:
    relay = start_relay(environ=SECRET)
    with dial(relay.where, LIMIT_S) as owner:
        assert introduce(owner, MARK + OWNER, KEY, MARK + OWNER)
        with suppress(ConnectionError):
            owner.sendall(words)
            owner.shutdown(socket.SHUT_WR)
            assert everything(owner) == b""
    NearEnd(relay.where, KEY, 1, 0.0).close()
    assert "Traceback" not in relay.end().err


def test_a_token_that_nobody_waits_for_leads_nowhere(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    head = MARK + b"guessed, 16 long"
    with dial("{}:{}".format(*host.near._relay), LIMIT_S) as sock:
        assert introduce(sock, head, KEY, head)
        assert sock.recv(1) == b""


def test_a_crowd_of_strangers_keeps_nobody_out(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    relay = start_relay(environ=SECRET)
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (before, most))
    crowd = [stack.enter_context(dial(relay.where, LIMIT_S)) for _ in range(1700)]
    host = behind(stack, relay.where)
    with host.visit() as visitor, host.accept() as inside:
        visitor.sendall(b"x")
        assert inside.recv(1) == b"x"
    # Those of the beginning have been closed to make room, and not because of their age.
    for one in crowd[: 1700 - MOST - 1024]:
        assert one.recv(1) == b""
    assert "was closed to make room for others" in relay.end().err


def test_without_a_secret_there_is_no_relay(start_relay: StartRelay) -> None:
    relay = start_relay(
        environ={"IMPI_AUTH_SECRET": "", "IMPI_AUTH_KEY": "", "IMPI_AUTH_NONE": "1"}
    )
    assert relay.process.wait(LIMIT_S) == 4
    assert relay.where == ""
    assert relay.process.stderr.read().startswith(
        "Error: a relay needs a secret, or anyone could use it: set IMPI_AUTH"
    )
    with pytest.raises(UsageError, match="a relay needs a secret"):
        open_near_end(
            made(ClientOptions, rank=0, server="", argv=(), relay="127.0.0.1:1"),
            {"IMPI_AUTH_NONE": "1"},
            1,
        )


# ---- ends


@pytest.mark.slow
def test_a_silent_owner_loses_its_endpoints(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    relay = start_relay("--heartbeat-timeout", "5", environ=SECRET)
    with dial(relay.where, LIMIT_S) as owner:
        assert introduce(owner, MARK + OWNER, KEY, MARK + OWNER)
        stream = open_stream(owner, KEY)
        owner.sendall(stream.send(b'{"endpoints": 1}\n{}\n'))
        data = stream.receive(owner.recv(1000))[0]
        assert data.startswith(b'{"ports": [')
        assert stream.receive(everything(owner))[0].strip(b"{}\n") == b""
    assert "has not been heard of for 5 s" in relay.end().err


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it_in_order(
    signum: int, code: int, start_relay: StartRelay, stack: ExitStack
) -> None:
    relay = start_relay(environ=SECRET)
    host = behind(stack, relay.where)
    visitor = stack.enter_context(host.visit())
    stack.enter_context(host.accept())
    ended = relay.end(signum)
    assert ended.code == code
    assert (
        ended.err == f"impirun: the relay was ended by {signal.Signals(signum).name}\n"
    )
    with suppress(ConnectionResetError):
        assert visitor.recv(1) == b""
