"""The dance over sockets, with strangers that got the address of a host (IMPI 2.3.8)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hosts_world import job_of_hosts

from impi.base.errors import JobError, PeerError
from impi.protocol.job import Host
from impi.protocol.proofs import ANSWER_SIZE, prove
from impi.protocol.startup.challenge import Trust
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import new_nonce, receive_exactly
from impi.rank.engine.channels import mesh
from impi.rank.engine.channels.mesh import _encrypted, connect_hosts, listen
from impi.rank.vendors.secure_socket import SecureSocket

WAIT_S = 30.0
KEY = b"the key of this job, as all clients know it"


class Dance:
    """A job of hosts with a listener each, on 127.0.0.1 unless said otherwise."""

    def __init__(
        self,
        clients: list[int],
        where: list[str] | None = None,
        advertised: dict[int, str] | None = None,
    ) -> None:
        self.where = where or ["127.0.0.1"] * len(clients)
        self.listeners = [listen(address) for address in self.where]
        ports = [sock.getsockname()[1] for sock in self.listeners]
        told = [
            (advertised or {}).get(i, address) for i, address in enumerate(self.where)
        ]
        hosts = [
            Host(
                index=i,
                client=client,
                ipv6=addresses.from_text(address),
                port=port,
                procs=(),
            )
            for i, (client, address, port) in enumerate(
                zip(clients, told, ports, strict=True)
            )
        ]
        self.job = job_of_hosts(hosts)
        self.found: dict[int, dict[int, socket.socket]] = {}
        self.errors: dict[int, str] = {}
        self._threads: list[threading.Thread] = []

    def start(self, me: int, trust: Trust = Trust(), address: str = "") -> None:
        def dance() -> None:
            try:
                self.found[me] = connect_hosts(
                    self.job, me, self.listeners[me], address or self.where[me], trust
                )
            except JobError as error:
                self.errors[me] = str(error)

        self._threads.append(threading.Thread(target=dance, daemon=True))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def stranger(self, host: int) -> socket.socket:
        sock = socket.create_connection(
            (self.where[host], self.job.hosts[host].port), WAIT_S
        )
        sock.settimeout(WAIT_S)
        return sock

    def close(self) -> None:
        for links in self.found.values():
            for sock in links.values():
                sock.close()
        for sock in self.listeners:
            sock.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def trust(*clients: int, key: bytes = KEY) -> Trust:
    return Trust(key, clients)


def ended(sock: socket.socket) -> bool:
    with sock:
        try:
            while sock.recv(1000):
                pass
        except ConnectionResetError:
            pass
    return True


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize("trusted", [(), (0, 1, 2), (0, 2)])
def test_all_hosts_of_different_clients_meet(
    stack: ExitStack, trusted: tuple[int, ...]
) -> None:
    dance = Dance([0, 1, 1, 2])
    stack.callback(dance.close)
    for me, host in enumerate(dance.job.hosts):
        dance.start(me, trust(*trusted) if host.client in trusted else Trust())
    dance.join()
    assert dance.errors == {}
    assert {me: sorted(links) for me, links in dance.found.items()} == {
        0: [1, 2, 3],
        1: [0, 3],
        2: [0, 3],
        3: [0, 1, 2],
    }
    for me, links in dance.found.items():
        for other, sock in links.items():
            sock.sendall(bytes([me, other]))
            assert receive_exactly(dance.found[other][me], 2) == bytes([me, other])


def test_channels_of_clients_with_tls_have_it_and_no_others(stack: ExitStack) -> None:
    dance = Dance([0, 1, 1, 2, 3, 3])
    stack.callback(dance.close)
    own = Trust(KEY, (0, 1, 2, 3), (0, 1, 3))
    for me in range(6):
        dance.start(me, own)
    dance.join()
    assert dance.errors == {}
    for me, links in dance.found.items():
        encrypted = {
            other for other, sock in links.items() if isinstance(sock, SecureSocket)
        }
        assert encrypted == (set() if me == 3 else links.keys() - {3})


def test_a_host_with_another_key_gets_no_tls(stack: ExitStack) -> None:
    """It has let itself be proved by somebody between, say."""
    dance = Dance([0, 1])
    stack.callback(dance.close)
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(JobError, match=r"host 1 \(client 1\) has no TLS"):
        theirs.sendall(b"no TLS at all")
        theirs.shutdown(socket.SHUT_WR)
        _encrypted(
            dance.job,
            0,
            {1: ours},
            time.monotonic() + WAIT_S,
            Trust(KEY, (0, 1), (0, 1)),
        )


@pytest.mark.parametrize(
    "first", [b"\0\0\0\1" + bytes(128), b"\0\0\0\1" + b"IMPI" + bytes(28) + bytes(32)]
)
def test_a_stranger_is_no_host_and_keeps_none_out(
    stack: ExitStack, first: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user of the machine who says the rank of a host had its place, and was unpickled."""
    dance = Dance([0, 1])
    stack.callback(dance.close)
    dance.start(0, trust(0, 1))
    thief = dance.stranger(0)
    thief.sendall(first)
    assert ended(thief)
    dance.start(1, trust(0, 1))
    dance.join()
    assert dance.errors == {}
    assert [sorted(dance.found[me]) for me in (0, 1)] == [[1], [0]]
    assert (
        "says it is number 1, and does not know this job's secret"
        in capsys.readouterr().err
    )


def test_a_proof_for_another_job_is_none(stack: ExitStack) -> None:
    """The proof covers all that was negotiated."""
    dance, other = Dance([0, 1]), Dance([0, 1])
    stack.callback(dance.close)
    stack.callback(other.close)
    dance.start(0, trust(0, 1))
    thief, nonce = dance.stranger(0), new_nonce()
    thief.sendall(b"\0\0\0\1" + nonce)
    theirs = receive_exactly(thief, ANSWER_SIZE)[:32]
    about = bytes([0, 0, 0, 1, 0, 0, 0, 0]) + other.job.to_json().encode()
    thief.sendall(prove(KEY, "knock", about, nonce, theirs))
    assert ended(thief)
    dance.start(1, trust(0, 1))
    dance.join()
    assert dance.errors == {}


def test_a_listener_that_does_not_know_the_key_is_no_host(stack: ExitStack) -> None:
    dance = Dance([0, 1])
    stack.callback(dance.close)
    dance.start(1, trust(0, 1))
    accepted = dance.listeners[0].accept()[0]
    with accepted:
        accepted.sendall(bytes(ANSWER_SIZE))
        dance.join()
    assert "does not know this job's secret (IMPI 2.3.8)" in dance.errors[1]


# Host 1 comes from 127.0.0.1. It advertises AWAY, which is not an address of this machine.
AWAY = "192.0.2.9"


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize(
    ("advertised", "came"),
    [
        ({1: "127.0.0.9"}, ()),  # both are this machine's
        ({1: AWAY, 2: "127.0.0.1"}, ()),  # host 2 is of the same client
        ({1: AWAY}, ("", "127.0.0.1")),  # so did its client
    ],
    ids=["same machine", "another host of its client", "start-up"],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_host_without_proof_may_come_from_an_expected_address(
    stack, capsys, advertised, came, strict
) -> None:
    dance = Dance([0, 1, 1], advertised=advertised)
    stack.callback(dance.close)
    for me in range(3):
        dance.start(me, Trust(came=came, strict=strict))
    dance.join()
    assert dance.errors == {}
    assert "host 1" not in capsys.readouterr().err


@pytest.mark.clause("2.3.8")
def test_from_another_address_it_is_accepted_with_one_warning(stack, capsys) -> None:
    dance = Dance([0, 1], advertised={1: AWAY})
    stack.callback(dance.close)
    dance.start(0, Trust(came=("", "192.0.2.8")))
    dance.start(1)
    dance.join()
    assert dance.errors == {}
    assert capsys.readouterr().err == (
        "impi: host 0: host 1 connects from 127.0.0.1, while client 1 is known by 192.0.2.9 and 192.0.2.8; nothing "
        "proves that it is that host: a secret (IMPI_AUTH_SECRET) gives a proof, --strict-addresses refuses it\n"
    )


@pytest.mark.clause("2.3.8")
def test_a_proof_is_enough_from_any_address(stack, capsys) -> None:
    dance = Dance([0, 1], advertised={1: AWAY})
    stack.callback(dance.close)
    for me in range(2):
        dance.start(me, Trust(KEY, (0, 1), strict=True))
    dance.join()
    assert dance.errors == {}
    assert capsys.readouterr().err == ""


@pytest.mark.clause("2.3.8")
def test_a_refused_host_ends_the_job_at_once(stack) -> None:
    dance = Dance([0, 1], advertised={1: AWAY})
    stack.callback(dance.close)
    dance.start(0, Trust(strict=True))
    dance.start(1)
    dance.join()  # within half of the dance's minute
    assert dance.errors[0] == (
        "host 0 refused host 1, which connected from 127.0.0.1, while client 1 is known by 192.0.2.9; give all clients "
        "one IMPI_AUTH_SECRET, which proves it, or leave out --strict-addresses (IMPI 2.3.8)"
    )


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize("strict", [False, True])
def test_a_stranger_does_not_end_a_job_by_the_name_of_a_host_that_is_here(
    stack, strict
) -> None:
    dance = Dance([0, 1], advertised={1: AWAY})
    stack.callback(dance.close)
    proofs = mesh.Proofs(dance.job, 0, Trust(strict=strict))
    claim = mesh.claims(dance.job, 0, proofs, is_met=lambda host: host == 1)
    with pytest.raises(
        PeerError, match="a connection claims to be host 1, which has one already"
    ):
        claim(b"\0\0\0\1", "198.51.100.1")
    assert claim(b"\0\0\0\1", AWAY).number == 1


def test_hundreds_of_silent_connections_delay_nobody(stack: ExitStack) -> None:
    dance = Dance([0, 1])
    stack.callback(dance.close)
    silent = [dance.stranger(0) for _ in range(300)]
    dance.start(0, trust(0, 1))
    dance.start(1, trust(0, 1))
    dance.join()
    assert dance.errors == {}
    for sock in silent:
        assert ended(sock)
