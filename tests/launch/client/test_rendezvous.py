"""The client's connection to the server."""

import select
import socket
import threading
import time
from typing import Any

import pytest
from server_thread import (
    DEADLINE_S,
    NO_AUTH,
    Client,
    ServerThread,
    facts_of,
    negotiate_all,
    step,
)

from impi.base.errors import (
    JobEnded,
    JobError,
    LocalProtocolError,
    PeerError,
    StartupError,
    UsageError,
)
from impi.launch import pulse
from impi.launch.client.rendezvous import Rendezvous
from impi.launch.server import loop as launch_server
from impi.protocol.startup.client import STRICT_VERSIONS, Joined, Negotiated

KEY = 0xFEDCBA9876543210


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_stepping_with_a_selector() -> None:
    server = ServerThread(1)
    with server.client(0, versions=STRICT_VERSIONS) as client:
        client.start()
        assert client.local_address == "127.0.0.1"
        seen: list[object] = []
        while not any(isinstance(e, Negotiated) for e in seen):
            for event in step(client):
                seen.append(event)
                if event == Joined(1):
                    client.submit(facts_of(0))
        assert client.on_readable() == []
        assert client.lost() is None
        client.finish()
        client.close()
    assert server.join() == 0


@pytest.mark.clause("2.2.2")
def test_no_server_there() -> None:
    port = free_port()
    client = Client("127.0.0.1", port, 0, environ=NO_AUTH)
    with pytest.raises(StartupError) as caught:
        client.join(DEADLINE_S)
    assert f"no server answers at 127.0.0.1:{port}" in str(caught.value)
    assert "impirun -server" in str(caught.value)
    client.close()


def test_no_such_name() -> None:
    with pytest.raises(
        StartupError, match=r"no server answers at no-such-host\.invalid:1"
    ):
        Client("no-such-host.invalid", 1, 0, environ=NO_AUTH).start()


def test_what_is_refused_before_connecting() -> None:
    with pytest.raises(
        UsageError,
        match=r"^No authentication methods available for negotiation\. Aborting\. Set IMPI",
    ):
        Client("127.0.0.1", 1, 0, environ={})
    with pytest.raises(UsageError, match="No authentication"):
        Client("127.0.0.1", 1, 0, environ=NO_AUTH, auth="1")
    with pytest.raises(UsageError, match="numbered 0 to 31"):
        Client("127.0.0.1", 1, 32, environ=NO_AUTH)


def test_nothing_before_it_is_open() -> None:
    client = Client("127.0.0.1", 1, 0, environ=NO_AUTH)
    assert client.lost() is None
    client.close()
    for call in (client.fileno, client.on_readable, client.finish):
        with pytest.raises(LocalProtocolError, match="not open"):
            call()


def test_the_wait_for_others_has_a_deadline() -> None:
    server = ServerThread(2)
    with (
        server.client(0) as client,
        pytest.raises(
            StartupError, match=r"not all clients have joined at .* within 0\.05 s"
        ),
    ):
        client.join(0.05)
    server.join()


class FakeServer:
    """Accepts one connection, says something, and closes once the test lets it."""

    def __init__(self, says: bytes, *, hears: bool = False) -> None:
        self._hears = hears
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(DEADLINE_S)
        self.port = self._listener.getsockname()[1]
        self.may_close = threading.Event()
        self.heard = b""  # until the client has closed
        self._says = says
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sock, _ = self._listener.accept()
        with sock:
            sock.sendall(self._says)
            self.may_close.wait(DEADLINE_S)
            sock.settimeout(DEADLINE_S)
            while self._hears and (data := sock.recv(1 << 16)):
                self.heard += data

    def close(self) -> None:
        self.may_close.set()
        self._thread.join(DEADLINE_S)
        self._listener.close()


def test_a_server_that_disconnects_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.launch.client.rendezvous.AGAIN_S", 0.5)
    server = FakeServer(b"")
    server.may_close.set()
    with (
        Client("127.0.0.1", server.port, 0, environ=NO_AUTH) as client,
        pytest.raises(
            StartupError,
            match=r"^Server disconnected \(wrong .* key\?\)\nThis client offered NONE",
        ),
    ):
        client.join(DEADLINE_S)
    server.close()


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize("secret", ["", "correct horse battery"])
def test_no_key_for_whoever_listens_there(secret: str) -> None:
    """A server that is none asks for method 1, IMPI_AUTH_KEY in clear, and does not get it."""
    environ = {"IMPI_AUTH_KEY": str(KEY)} | (
        {"IMPI_AUTH_SECRET": secret} if secret else {}
    )
    server = FakeServer(b"\0\0\0\1" + bytes(4), hears=True)
    with (
        Client("127.0.0.1", server.port, 0, environ=environ) as client,
        pytest.raises(
            PeerError, match="chose authentication method 1, which was not offered"
        ),
    ):
        client.start()
    server.close()
    assert server.heard[:12] == b"AUTH\0\0\0\4\xc0\0\0\0"
    assert len(server.heard) == 12


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize("asked", [{"auth": "1"}, {"versions": STRICT_VERSIONS}])
def test_the_key_goes_in_clear_to_those_who_ask_for_that(asked: dict[str, Any]) -> None:
    environ = {"IMPI_AUTH_KEY": str(KEY), "IMPI_AUTH_SECRET": "correct horse battery"}
    server = FakeServer(b"\0\0\0\1" + bytes(4), hears=True)
    with Client("127.0.0.1", server.port, 0, environ=environ, **asked) as client:
        client.start()
    server.close()
    assert server.heard[12:20] == KEY.to_bytes(8, "big")


def test_something_else_that_listens_there() -> None:
    server = FakeServer(b"SSH-2.0-Something\r\n")
    with (
        Client("127.0.0.1", server.port, 0, environ=NO_AUTH) as client,
        pytest.raises(PeerError, match="announces"),
    ):
        client.join(DEADLINE_S)
    server.close()


def test_fini_to_a_server_that_is_gone() -> None:
    server = ServerThread(2)
    with server.client(0) as client, server.client(1) as other:
        client.start()
        assert other.join(DEADLINE_S) == 2
        assert step(client) == [Joined(2)]
        negotiate_all([client, other])
        other.close()
        assert server.join() == 1
        server_end = select.select([client], [], [], DEADLINE_S)[0]
        assert server_end
        first = client.lost()
        assert first is not None
        assert client.lost() == first
        with pytest.raises(
            JobEnded, match=r"client 1 .* its connection ended without FINI"
        ):
            client.finish()


# Heartbeats

SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}


def test_a_client_that_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_server, "BEAT_S", 0.02)
    server = ServerThread(2, environ=SECRET, heartbeat_timeout_s=0.5)
    with server.client(0) as silent, server.client(1) as other:
        silent.start()
        assert other.join(DEADLINE_S) == 2
        with pytest.raises(JobEnded) as caught:
            while True:
                other.beat()
                if select.select([other], [], [], 0.05)[0]:
                    other.on_readable()
    assert server.join() == 1
    assert "client 0 (127.0.0.1:" in str(caught.value)
    assert (
        "): its impirun has not been heard of for 0.5 s: it is stopped, or cut off, "
        in str(caught.value)
    )
    assert str(caught.value) in server.said


def test_the_server_notes_silence_on_time_though_nothing_wakes_it() -> None:
    server = ServerThread(2, environ=SECRET, heartbeat_timeout_s=0.2)
    with server.client(0) as silent:
        silent.start()
        began = time.monotonic()
        with pytest.raises(JobEnded):
            while select.select([silent], [], [], DEADLINE_S)[0]:
                silent.on_readable()
        assert time.monotonic() - began < pulse.BEAT_S / 2
    assert server.join() == 1


def test_a_server_that_falls_silent_is_lost() -> None:
    server = ServerThread(1, environ=SECRET)  # whose next beat comes after two seconds
    with server.client(0, silence_s=0.1) as client:
        assert client.join(DEADLINE_S) == 1
        assert 0.0 < client.check_silence() <= 0.1
        with pytest.raises(
            JobError,
            match=r"the server at 127\.0\.0\.1:\d+ has not been heard of for 0\.1 s",
        ):
            for _ in range(200):
                client.check_silence()
                time.sleep(0.005)
    assert server.join() == 1


def test_a_server_that_beats_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BEAT_S", 0.02)
    server = ServerThread(1, environ=SECRET)
    with server.client(0, silence_s=0.5) as client:
        assert client.join(DEADLINE_S) == 1
        negotiate_all([client])
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            client.check_silence()
            assert client.lost() is None
            time.sleep(0.01)
        client.finish()
    assert server.join() == 0


def test_a_server_that_cannot_beat_is_not_judged() -> None:
    server = ServerThread(1)  # AUTH NONE
    with server.client(0) as client:
        assert client.join(DEADLINE_S) == 1
        client._silence_s = 0.01
        time.sleep(0.05)
        assert client.check_silence() == float("inf")
        client.beat()
        assert client.lost() is None
    assert server.join() == 1


def test_a_beat_without_a_connection_is_none() -> None:
    client = Client("127.0.0.1", 1, 0, environ=NO_AUTH)
    client.beat()


def test_a_beat_on_its_way_resets_no_fini(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client stays until the server has read FINI and closes: a beat may come until then."""
    stayed: list[bytes] = []

    def read_on(_client: Client, sock: socket.socket) -> None:
        assert select.select([sock], [], [], DEADLINE_S)[0]
        stayed.append(sock.recv(100))

    monkeypatch.setattr(Rendezvous, "_read_on", read_on)
    server = ServerThread(1, environ=SECRET)
    with server.client(0) as client:
        assert client.join(DEADLINE_S) == 1
        negotiate_all([client])
        client.finish()
    assert server.join() == 0
    assert stayed == [b""]


def test_beats_are_read_until_the_server_closes() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        Client("127.0.0.1", 1, 0, environ=SECRET, silence_s=DEADLINE_S) as client,
    ):
        ours.setblocking(False)
        reading = threading.Thread(target=client._read_on, args=(ours,))
        reading.start()
        for _ in range(3):
            theirs.sendall(b"BEAT")
        assert reading.is_alive()
        theirs.close()
        reading.join(DEADLINE_S)
        assert not reading.is_alive()


def test_beats_and_answers_do_not_use_a_session_at_once() -> None:
    """They come from two threads, and a TLS session that both use is broken."""
    client = Client("127.0.0.1", 1, 0, environ=NO_AUTH)
    held: list[bool] = []

    class Machine:
        def receive_data(self, _data: bytes) -> list[object]:
            held.append(client._writing.locked())
            return []

        def data_to_send(self) -> bytes:
            held.append(client._writing.locked())
            return b""

    client._machine = Machine()  # type: ignore[assignment]
    client._sock, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"x")
        client.on_readable()
        client.close()
    assert held == [True, True]
