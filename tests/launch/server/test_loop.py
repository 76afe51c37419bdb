"""The server over real sockets: a whole job, strangers, and every ending (IMPI 2.2, 2.3)."""

import io
import re
import select
import selectors
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from server_thread import (
    DEADLINE_S,
    NO_AUTH,
    ServerThread,
    facts_of,
    negotiate_all,
    step,
)

from impi.base.errors import JobEnded, StartupError
from impi.launch.client.children import Stopped
from impi.launch.server.loop import _OwnClients, run_server
from impi.protocol.job import Job
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made
from impi.protocol.startup.client import Joined
from impi.protocol.wire import MAX_PAYLOAD, Command, encode_command
from impi.rank.doors import strangers

JOIN_NONE = encode_command(Command.AUTH, b"\0\0\0\1") + encode_command(
    Command.IMPI, bytes(4)
)


def run_clients(
    server: ServerThread, nclients: int, work: Callable[[int], Job]
) -> list[Job]:
    with ThreadPoolExecutor(nclients) as pool:
        return [
            f.result(DEADLINE_S)
            for f in [pool.submit(work, rank) for rank in range(nclients)]
        ]


def whole_job(
    server: ServerThread, nclients: int, nprocs: int = 1, auth: str | None = None
) -> list[Job]:
    def work(rank: int) -> Job:
        with server.client(rank, auth=auth) as client:
            assert client.join(DEADLINE_S) == nclients
            job = client.negotiate(facts_of(rank, nprocs), DEADLINE_S)
            assert client.lost() is None
            client.finish()
            return job

    return run_clients(server, nclients, work)


def read_all(sock: socket.socket) -> bytes:
    """Return the octets until the other side closes; a reset is a close."""
    got = b""
    try:
        while data := sock.recv(65536):
            got += data
    except ConnectionResetError:
        pass
    return got


@pytest.mark.clause("2.2")
@pytest.mark.clause("2.3")
@pytest.mark.parametrize("nclients", [1, 2, 5])
def test_a_whole_job(nclients: int) -> None:
    server = ServerThread(nclients)
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", server.line)
    jobs = whole_job(server, nclients)
    assert jobs == [jobs[0]] * nclients
    assert server.join() == 0
    warning = r"Warning: \S+ \(127\.0\.0\.1\) has authenticated with IMPI_AUTH_NONE\."
    lines = server.said.splitlines()
    assert len(lines) == nclients
    assert all(re.fullmatch(warning, line) for line in lines)


def test_a_job_with_a_key_and_many_processes() -> None:
    server = ServerThread(
        2, environ={"IMPI_AUTH_KEY": "0xFEDCBA9876543210"}, verbose=True
    )
    jobs = whole_job(server, 2, nprocs=20_000)
    assert len(jobs[1].procs) == 40_000
    assert server.join() == 0
    assert "Warning" not in server.said
    for words in (
        "client 0 has joined",
        "client 1 has joined",
        "start-up is complete",
        "client 1 has finished",
    ):
        assert words in server.said


def test_a_client_that_reads_late_gets_every_octet() -> None:
    """Broadcasts exceed socket buffers: the server reads on and sends the rest later."""
    server = ServerThread(1)
    payloads = [bytes([n]) * (MAX_PAYLOAD - 4) for n in range(8)]
    with socket.socket() as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect((server.host, server.port))
        sock.sendall(JOIN_NONE)
        for n, payload in enumerate(payloads):
            sock.sendall(encode_command(Command.COLL, n.to_bytes(4, "big") + payload))
        sock.sendall(encode_command(Command.DONE))
        expected = bytes(8) + encode_command(Command.IMPI, b"\0\0\0\1")
        for n, payload in enumerate(payloads):
            expected += encode_command(
                Command.COLL, n.to_bytes(4, "big") + b"\0\0\0\1" + payload
            )
        expected += encode_command(Command.DONE)
        got = bytearray()
        while len(got) < len(expected):
            data = sock.recv(1 << 20)
            assert data
            got += data
        sock.sendall(encode_command(Command.FINI))
        assert got == expected
        assert read_all(sock) == b""
    assert server.join() == 0


def test_32_clients() -> None:
    server = ServerThread(32)
    assert len(whole_job(server, 32)[31].hosts) == 32
    assert server.join() == 0


def test_the_server_listens_in_the_range_of_ports() -> None:
    ports = range(21_010, 21_020)
    server = ServerThread(1, interface="127.0.0.1", ports=ports)
    whole_job(server, 1)
    assert server.join() == 0
    assert server.port in ports


def test_an_interface_is_what_is_printed() -> None:
    server = ServerThread(1, interface="127.0.0.9")
    assert server.host == "127.0.0.9"
    whole_job(server, 1)
    assert server.join() == 0


@pytest.mark.clause("2.1")
def test_ipv6() -> None:
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    server = ServerThread(1, interface="::1")
    assert server.host == "[::1]"
    server.host = "::1"
    whole_job(server, 1)
    assert server.join() == 0


@pytest.mark.clause("2.1")
@pytest.mark.parametrize("has_route", [False, True])
def test_all_interfaces_of_both_kinds(
    has_route: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--interface ::`` takes IPv4 too, and prints an IPv6 address if others can use one."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no dual-stack IPv6 sockets")
    found = {"2001:db8::1": "fd00::7" if has_route else "::1", "192.0.2.1": "127.0.0.1"}
    monkeypatch.setattr(
        "impi.launch.front.outgoing_address", lambda towards="192.0.2.1": found[towards]
    )
    server = ServerThread(1, interface="::", verbose=True)
    assert server.host == ("[fd00::7]" if has_route else "127.0.0.1")
    server.host = "127.0.0.1"
    whole_job(server, 1)
    assert server.join() == 0
    assert "client 0 has joined from 127.0.0.1:" in server.said


@pytest.mark.clause("2.2.1")
def test_without_an_interface_it_prints_an_address_at_which_it_answers() -> None:
    server = ServerThread(1, interface="")
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+:\d+\n", server.line)
    assert server.host != "0.0.0.0"
    whole_job(server, 1)
    assert server.join() == 0


# Strangers


@pytest.mark.clause("2.2.4")
def test_strangers_are_closed_and_reported_and_the_job_goes_on() -> None:
    server = ServerThread(2, environ={"IMPI_AUTH_KEY": "567800000000"})
    silent = server.connect()
    with server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert read_all(sock) == b""
    with server.connect() as sock:
        sock.sendall(encode_command(Command.AUTH, b"\0\0\0\1"))
        assert read_all(sock) == b""
    with (
        server.client(0, environ={"IMPI_AUTH_KEY": "123400000000"}) as client,
        pytest.raises(
            StartupError,
            match=re.escape("Server disconnected (wrong authentication key?)"),
        ),
    ):
        client.join(DEADLINE_S)
    with (
        server.client(0, environ=NO_AUTH) as client,
        pytest.raises(
            StartupError,
            match=re.escape("Server disconnected (wrong authentication key?)"),
        ),
    ):
        client.join(DEADLINE_S)
    server.connect().close()
    assert len(whole_job(server, 2)) == 2
    assert server.join() == 0
    silent.close()
    for words in (
        "announces",
        "no common authentication method",
        "has not proved that it knows the secret",
    ):
        assert words in server.said
    assert "5678" not in server.said
    assert "1234" not in server.said


def test_a_duplicate_and_one_client_too_many() -> None:
    server = ServerThread(2, verbose=True)
    with server.client(0) as first, server.client(1) as second:
        first.start()
        server.stderr.wait_for("client 0 has joined")
        with (
            server.client(0) as other,
            pytest.raises(JobEnded, match="wants to be client 0, which"),
        ):
            other.join(DEADLINE_S)
        assert second.join(DEADLINE_S) == 2
        assert step(first) == [Joined(2)]
        with (
            server.client(1) as other,
            pytest.raises(JobEnded, match="is one client too many"),
        ):
            other.join(DEADLINE_S)
        jobs = negotiate_all([first, second])
        assert jobs[0] == jobs[1]
        first.finish()
        second.finish()
    assert server.join() == 0
    assert re.search(
        r"127\.0\.0\.1:\d+: wants to be client 0, which 127\.0\.0\.1:\d+ is already",
        server.said,
    )
    assert re.search(
        r"127\.0\.0\.1:\d+: is one client too many: all 2 have joined", server.said
    )


def test_many_silent_connections_do_not_keep_clients_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "MOST", 100)
    server = ServerThread(1)
    silent = [server.connect() for _ in range(150)]
    whole_job(server, 1)
    assert server.join() == 0
    assert "to make room" in server.said
    for sock in silent:
        sock.close()


# Ends


def test_who_guesses_waits_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some wrong keys, nothing of that address is read for a while; others get in at once."""
    monkeypatch.setattr(strangers, "_PAUSES_S", (3600.0, 3600.0))
    monkeypatch.setattr(strangers, "_network", str)  # 127/8 is one address otherwise
    server = ServerThread(1, environ={"IMPI_AUTH_KEY": "1234567890123"})
    wrong = encode_command(Command.AUTH, b"\0\0\0\2") + bytes(8)

    def guess() -> socket.socket:
        sock = socket.create_connection(
            (server.host, server.port), DEADLINE_S, source_address=("127.0.0.2", 0)
        )
        sock.sendall(wrong)
        return sock

    for _ in range(4):
        with guess() as sock:
            assert len(read_all(sock)) == 8  # the choice of the method, and no more
    with guess() as paused:
        assert len(whole_job(server, 1)) == 1
        assert server.join() == 0
        assert read_all(paused) == b""
    assert "wrong authentication key" in server.said


def test_a_lost_client_ends_the_job_by_name() -> None:
    server = ServerThread(2)
    there = threading.Event()

    def work(rank: int) -> Job:
        with server.client(rank) as client:
            client.join(DEADLINE_S)
            job = client.negotiate(facts_of(rank), DEADLINE_S)
            if rank == 1:
                assert there.wait(DEADLINE_S)
                return job  # and close without FINI
            there.set()
            server.join()
            reason = client.lost()
            assert reason is not None
            assert "client 1 (127.0.0.1" in str(reason)
            return job

    run_clients(server, 2, work)
    assert server.join() == 1
    assert re.search(
        r"Error: client 1 \(127\.0\.0\.1:\d+\): its connection ended without FINI",
        server.said,
    )


def test_a_client_that_does_not_read_delays_no_reason() -> None:
    server = ServerThread(3)
    with (
        socket.socket() as deaf,
        server.client(1) as failing,
        server.client(2) as third,
    ):
        deaf.connect((server.host, server.port))
        deaf.sendall(JOIN_NONE)
        failing.start()
        assert third.join(DEADLINE_S) == 3
        told = failing.fail("its program is wrong", 7)
        assert re.fullmatch(
            r"client 1 \(127\.0\.0\.1:\d+\): its program is wrong", told
        )
        assert select.select([third], [], [], DEADLINE_S)[0]
        assert str(third.lost()) == told
        assert server.join() == 7
    assert f"Error: {told}\n" in server.said


def test_a_client_lost_before_the_others_have_come() -> None:
    server = ServerThread(2)
    with server.connect() as sock:
        sock.sendall(JOIN_NONE)
        assert sock.recv(8) == bytes(8)
    assert server.join() == 1
    assert "Error: client 0 (127.0.0.1:" in server.said


def test_a_client_that_breaks_the_protocol_ends_the_job_for_all() -> None:
    server = ServerThread(1)
    with server.connect() as sock:
        sock.sendall(JOIN_NONE + encode_command(Command.FINI))
        assert read_all(sock)[:8] in (b"", bytes(8))
    assert server.join() == 1
    assert "sent FINI before its start-up was complete" in server.said


def run(options: ServerOptions, environ: dict[str, str]) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = run_server(options, environ=environ, stdout=stdout, stderr=stderr)
    return code, stdout.getvalue(), stderr.getvalue()


@pytest.mark.parametrize(
    ("options", "environ", "message"),
    [
        (made(ServerOptions, count=0), NO_AUTH, "a job has 1 to 32 clients, not 0"),
        (made(ServerOptions, count=33), NO_AUTH, "a job has 1 to 32 clients, not 33"),
        (
            made(ServerOptions, count=2, port=70000),
            NO_AUTH,
            "-port is 70000, but must be 0 to 65535",
        ),
        (made(ServerOptions, count=2, port=-1), NO_AUTH, "-port is -1"),
        (made(ServerOptions, count=2, auth="x"), NO_AUTH, "-auth x"),
        (
            made(ServerOptions, count=2, auth="31", tls=True),
            NO_AUTH,
            "--tls sets -auth 30 itself: leave out one of the two",
        ),
        (
            made(ServerOptions, count=2, tls=True),
            NO_AUTH,
            "No authentication methods available",
        ),
        (
            made(ServerOptions, count=2, interface="192.0.2.77"),
            NO_AUTH,
            "cannot listen on 192.0.2.77",
        ),
        (
            made(ServerOptions, count=2),
            {"IMPI_AUTH_KEY": "secret"},
            "IMPI_AUTH_KEY must be a number",
        ),
    ],
)
def test_what_cannot_begin(
    options: ServerOptions, environ: dict[str, str], message: str
) -> None:
    code, out, err = run(options, environ)
    assert (code, out) == (4, "")
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "auth"),
    [({}, None), ({"IMPI_AUTH_NONE": ""}, "1"), ({"IMPI_AUTH_KEY": "1"}, "0,7")],
)
def test_no_authentication_method(environ: dict[str, str], auth: str | None) -> None:
    assert run(made(ServerOptions, count=2, auth=auth), environ) == (
        4,
        "",
        "Error: No authentication methods available for negotiation. Aborting. Set IMPI_AUTH_SECRET, the same for the "
        "server and all clients.\n",
    )


@pytest.mark.clause("2.2.1")
def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = run(
            made(ServerOptions, count=1, port=port, interface="127.0.0.1"), NO_AUTH
        )
    assert (code, out) == (4, "")
    assert err.startswith(f"Error: cannot listen on 127.0.0.1, port {port}: ")
    assert err.count("\n") == 1


@pytest.mark.clause("2.2.1")
def test_a_port_can_be_chosen() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ServerThread(1, port=port)
    assert server.port == port
    whole_job(server, 1)
    assert server.join() == 0


@pytest.mark.clause("2.3.3")
def test_authentication_in_the_order_of_the_list() -> None:
    both = {"IMPI_AUTH_NONE": "", "IMPI_AUTH_KEY": "777777777777"}
    for auth, warned in ((None, False), ("0,1", True), ("1-0", False), ("0", True)):
        server = ServerThread(1, environ=both, auth=auth)
        whole_job(server, 1, auth="1,0,31")
        assert server.join() == 0
        assert ("Warning" in server.said) is warned


def test_what_is_stopped_below_an_own_client_is_the_clients_to_tell() -> None:
    """The client knows the rank, which the server would call a process of python's."""
    with selectors.DefaultSelector() as selector:
        own = _OwnClients((), selector, 10.0, 2.0)
        own.children.stopped = Stopped(7, "", "python prog.py")
        assert own.trouble == ""
        own.children.stopped = Stopped(8, "client 1 on localhost", "impirun")
        assert (
            own.trouble == "client 1 on localhost (process 8) has been stopped for 10 s"
        )
        own.close()
