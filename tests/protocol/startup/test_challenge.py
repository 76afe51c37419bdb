"""Authentication by challenge: both ends prove a secret, and their conversation is sealed."""

from __future__ import annotations

import hashlib
import json

import pytest
from exchange import SECRET, Exchange, Maker, as_it_is, clients, nonces, proof
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from impi.base.errors import JobEnded, LocalProtocolError, PeerError, ServerLost
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.client import STRICT_VERSIONS, ClientMachine
from impi.protocol.startup.server import ConnectionRefused, JobFailed, ServerMachine
from impi.protocol.wire import Command, OwnCommand, encode_command, encode_reason

PROVING = Credentials((Method.CHALLENGE,), 0, SECRET)
ALL = Credentials((Method.CHALLENGE, Method.KEY, Method.NONE), 5678, SECRET)
KEY = Credentials((Method.KEY,), 5678)
WRONG = Credentials((Method.CHALLENGE,), 0, b"another horse and battery")
AUTH = encode_command(Command.AUTH, bytes.fromhex("80000000"))


@pytest.mark.parametrize("server", [PROVING, ALL])
def test_all_clients_with_the_secret_have_one_key_of_the_job(
    facts_of: Maker, server: Credentials
) -> None:
    exchange = Exchange(
        server, clients(PROVING, ALL, PROVING), [facts_of(c) for c in range(3)]
    )
    exchange.run()
    assert exchange.errors == {}
    assert exchange.jobs[0] == exchange.jobs[1] == exchange.jobs[2]
    # The first nonce that the server has made is the number of the job.
    came = ("192.0.2.0", "192.0.2.1", "192.0.2.2")
    assert exchange.jobs[0].trust == Trust(
        proof(SECRET, b"job", bytes([1]) * 32), (0, 1, 2), came=came
    )


def test_a_client_with_the_old_key_has_no_part_in_it(facts_of: Maker) -> None:
    exchange = Exchange(
        ALL, clients(PROVING, KEY, PROVING), [facts_of(c) for c in range(3)]
    )
    exchange.run()
    assert exchange.errors == {}
    assert [exchange.jobs[c].trust.clients for c in range(3)] == [(0, 2), (), (0, 2)]
    assert exchange.jobs[1].trust.key == b""


def test_a_strict_job_has_no_labels_of_ours(facts_of: Maker) -> None:
    machines = [
        *clients(PROVING),
        ClientMachine(1, PROVING, STRICT_VERSIONS, bytes(32)),
    ]
    exchange = Exchange(PROVING, machines, [facts_of(c) for c in range(2)])
    exchange.run()
    # A client that offers 0.0 alone is not told who comes from where: 0.0 has no such command.
    assert [exchange.jobs[c].trust for c in range(2)] == [
        Trust(came=("192.0.2.0", "192.0.2.1")),
        Trust(),
    ]


def test_the_octets_of_the_challenge() -> None:
    server = ServerMachine(1, PROVING, nonces())
    server.connected(0, "peer0")
    assert server.receive_data(0, AUTH) == []
    theirs, mine = bytes([2]) * 32, b"m" * 32
    assert server.data_to_send(0) == bytes.fromhex("0000001f 00000020") + theirs
    session = proof(SECRET, b"session", mine, theirs)
    assert server.receive_data(0, mine + proof(session, b"client", b"")) == []
    job = bytes([1]) * 32
    assert server.data_to_send(0) == encode_command(
        OwnCommand.PROV, proof(session, b"server", job) + job
    )
    heard = hashlib.sha256(AUTH + mine + proof(session, b"client", b""))
    for command in (
        encode_command(Command.IMPI, bytes(4)),
        encode_command(Command.DONE),
    ):
        server.receive_data(0, command)
        heard.update(command)
    assert server.data_to_send(0) == encode_command(Command.IMPI, b"\0\0\0\1")
    seal = proof(session, b"client seal", heard.digest())
    server.receive_data(0, encode_command(OwnCommand.SEAL, seal))
    assert server.data_to_send(0).startswith(encode_command(Command.DONE) + b"SEAL")


@pytest.mark.parametrize(("server", "client"), [(PROVING, WRONG), (WRONG, PROVING)])
def test_a_wrong_secret_costs_the_connection(
    facts_of: Maker, server: Credentials, client: Credentials
) -> None:
    exchange = Exchange(server, clients(client), [facts_of(0)])
    exchange.run()
    [refused] = exchange.events
    assert isinstance(refused, ConnectionRefused)
    assert refused.kind == "has not proved that it knows the secret"
    assert "wrong authentication key?" in str(exchange.clients[0].eof())


def test_a_server_without_the_secret_is_left(facts_of: Maker) -> None:
    machine = clients(PROVING)[0]
    assert machine.receive_data(encode_command(Method.CHALLENGE, bytes(32))) == []
    with pytest.raises(PeerError, match="not the server of this job"):
        machine.receive_data(encode_command(OwnCommand.PROV, bytes(64)))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_challenge_of_another_length_is_none(size: int) -> None:
    with pytest.raises(PeerError, match="sent a malformed challenge"):
        clients(PROVING)[0].receive_data(encode_command(Method.CHALLENGE, bytes(size)))


def test_a_command_that_is_too_long_names_the_server() -> None:
    with pytest.raises(PeerError, match=r"^the server: a command announces"):
        clients(PROVING)[0].receive_data(
            encode_command(Method.CHALLENGE)[:4] + b"\x7f\0\0\0"
        )


def test_trust_travels_to_the_processes_of_a_client() -> None:
    trust = Trust(b"\1\2 key", (0, 2), tls=(2,), came=("192.0.2.1", ""), strict=True)
    told = json.loads(json.dumps(trust.told(strict=True, token="00ff")))
    assert trust.key.hex() not in json.dumps(told)
    assert Trust.of(token="00ff", **told) == trust
    assert Trust.of(token="00fe", **told).key != trust.key
    assert (
        Trust.of(
            token="00ff",
            **json.loads(json.dumps(Trust().told(strict=False, token="00ff"))),
        )
        == Trust()
    )


def test_labels_of_a_server_that_proves_nothing_are_not_read() -> None:
    machine = clients(PROVING)[0]
    machine.receive_data(encode_command(Method.CHALLENGE, bytes(32)))
    with pytest.raises(PeerError, match="not the server of this job"):
        machine.receive_data(encode_command(Command.IMPI, b"\0\0\0\1"))


def test_a_server_that_proves_nothing_cannot_say_why_the_job_ends() -> None:
    machine = clients(PROVING)[0]
    machine.receive_data(encode_command(Method.CHALLENGE, bytes(32)))
    with pytest.raises(PeerError, match="not the server of this job"):
        machine.receive_data(encode_reason("all is well", 7))


def test_a_server_that_proves_nothing_is_not_listened_to_for_long() -> None:
    machine = clients(PROVING)[0]
    machine.receive_data(encode_command(Method.CHALLENGE, bytes(32)))
    with pytest.raises(
        PeerError, match="announces 1025 octets, where 0 to 1024 are accepted"
    ):
        machine.receive_data(encode_command(OwnCommand.PROV, bytes(1025))[:8])


def test_what_was_heard_once_proves_nothing_again(facts_of: Maker) -> None:
    heard: list[bytes] = []

    def listen(_conn: int, octets: bytes) -> bytes:
        heard.append(octets)
        return octets

    Exchange(PROVING, clients(PROVING), [facts_of(0)]).run(listen)
    server = ServerMachine(1, PROVING, lambda size: b"other nonces"[:1] * size)
    server.connected(0, "thief")
    events = server.receive_data(0, b"".join(heard))
    assert [type(event) for event in events] == [ConnectionRefused]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3000), st.integers(0, 7), st.booleans())
@example(11, 7, True)  # the offer of this method
def test_no_octet_can_be_changed(
    facts_of: Maker, place: int, bit: int, up: bool
) -> None:
    """Somebody between one client and the server changes one bit, anywhere."""
    passed = 0

    def change(conn: int, octets: bytes) -> bytes:
        nonlocal passed
        first, passed = passed, passed + (len(octets) if conn == 0 else 0)
        at = place - first
        if conn == 0 and 0 <= at < len(octets):
            return octets[:at] + bytes([octets[at] ^ 1 << bit]) + octets[at + 1 :]
        return octets

    exchange = Exchange(
        PROVING, clients(PROVING, PROVING), [facts_of(c) for c in range(2)]
    )
    exchange.run(*((change, as_it_is) if up else (as_it_is, change)))
    assert 0 not in exchange.jobs or passed <= place


@pytest.mark.parametrize("seal", [b"", bytes(32)])
def test_a_wrong_seal_ends_the_job(facts_of: Maker, seal: bytes) -> None:
    def change(_conn: int, octets: bytes) -> bytes:
        head, found, _ = octets.partition(b"SEAL")
        return head + encode_command(OwnCommand.SEAL, seal) if found else octets

    exchange = Exchange(PROVING, clients(PROVING), [facts_of(0)])
    exchange.run(change)
    assert isinstance(exchange.events[-1], JobFailed)
    assert "they were changed on the way" in exchange.events[-1].reason
    # The client is told why.
    assert isinstance(exchange.errors[0], JobEnded)
    assert str(exchange.errors[0]) == exchange.events[-1].reason


def test_a_wrong_seal_of_the_server_ends_the_client(facts_of: Maker) -> None:
    def change(_conn: int, octets: bytes) -> bytes:
        head, found, _ = octets.partition(b"SEAL")
        return head + encode_command(OwnCommand.SEAL, bytes(32)) if found else octets

    exchange = Exchange(PROVING, clients(PROVING), [facts_of(0)])
    exchange.run(to_client=change)
    assert exchange.jobs == {}
    assert "the server: sent octets that differ from those that arrived" in str(
        exchange.errors[0]
    )


def test_machines_without_nonces_do_not_begin() -> None:
    with pytest.raises(LocalProtocolError, match="nonce"):
        ClientMachine(0, PROVING)
    with pytest.raises(LocalProtocolError, match="cannot be guessed"):
        ServerMachine(1, PROVING)


# Reasons


def test_everybody_hears_the_same_reason(facts_of: Maker) -> None:
    exchange = Exchange(
        ALL, clients(PROVING, KEY, ALL), [facts_of(c) for c in range(3)]
    )
    exchange.run()
    exchange.clients[1].fail("rank 1 was ended by SIGKILL", 137)
    exchange.run()
    failed = exchange.events[-1]
    assert failed == JobFailed(1, "client 1 (peer1): rank 1 was ended by SIGKILL", 137)
    for conn in (0, 2):
        error = exchange.errors[conn]
        assert isinstance(error, JobEnded)
        assert error.code == 137
        assert (
            str(exchange.errors[conn])
            == "client 1 (peer1): rank 1 was ended by SIGKILL"
        )


def test_a_server_that_fails_tells_why(facts_of: Maker) -> None:
    exchange = Exchange(KEY, clients(KEY), [facts_of(0)])
    exchange.run()
    exchange.server.fail("interrupted by SIGINT")
    exchange.server.fail("a second reason does not count")
    exchange.run()
    assert str(exchange.errors[0]) == "interrupted by SIGINT"


def test_a_client_fails_in_silence_before_it_is_known_and_after_its_end(
    facts_of: Maker,
) -> None:
    machine = clients(KEY)[0]
    machine.data_to_send()
    machine.fail("too early")
    assert machine.data_to_send() == b""
    exchange = Exchange(KEY, clients(KEY), [facts_of(0)])
    exchange.run()
    exchange.clients[0].finish()
    exchange.clients[0].fail("too late")
    assert exchange.clients[0].data_to_send() == encode_command(Command.FINI)


# Heartbeats


def test_beats_go_both_ways_and_are_not_sealed(facts_of: Maker) -> None:
    """A beat between any two octets that the machines give, from the first to the last."""
    exchange = Exchange(
        PROVING, clients(PROVING, PROVING), [facts_of(c) for c in range(2)]
    )
    beats = {"up": 0, "down": 0}

    def up(conn: int, octets: bytes) -> bytes:
        exchange.server.beat()
        beats["up"] += octets.count(b"BEAT")
        return octets

    def down(conn: int, octets: bytes) -> bytes:
        exchange.clients[conn].beat()
        beats["down"] += octets.count(b"BEAT")
        return octets

    exchange.run(up, down)
    assert exchange.errors == {}
    assert set(exchange.jobs) == {0, 1}
    assert beats["up"] > 50
    assert beats["down"] > 50


def test_no_beat_before_the_proof_nor_after_fini(facts_of: Maker) -> None:
    machine = clients(PROVING)[0]
    machine.data_to_send()
    machine.beat()
    assert machine.data_to_send() == b""
    exchange = Exchange(PROVING, clients(PROVING), [facts_of(0)])
    exchange.server.beat()
    assert exchange.server.data_to_send(0) == b""
    exchange.run()
    assert exchange.clients[0].beats
    exchange.clients[0].finish()
    exchange.clients[0].beat()
    assert not exchange.clients[0].beats
    assert exchange.clients[0].data_to_send() == encode_command(Command.FINI)


@pytest.mark.parametrize("other", [KEY, Credentials((Method.NONE,), 0)])
def test_clients_without_a_challenge_get_no_beat(
    facts_of: Maker, other: Credentials
) -> None:
    exchange = Exchange(ALL, clients(other), [facts_of(0)])
    exchange.run()
    exchange.server.beat()
    exchange.clients[0].beat()
    assert exchange.server.data_to_send(0) == exchange.clients[0].data_to_send() == b""
    assert not exchange.server.beats(0)


def test_beats_do_not_pile_up(facts_of: Maker) -> None:
    exchange = Exchange(PROVING, clients(PROVING), [facts_of(0)])
    exchange.run()
    for _ in range(3):
        exchange.server.beat()
    assert exchange.server.data_to_send(0) == encode_command(OwnCommand.BEAT)


def test_a_client_can_be_given_up(facts_of: Maker) -> None:
    exchange = Exchange(
        PROVING, clients(PROVING, PROVING), [facts_of(c) for c in range(2)]
    )
    exchange.run()
    assert exchange.server.lose(7, "is unknown") == []
    sentence = "client 1 (peer1): is silent, while the job was running"
    assert exchange.server.lose(1, "is silent") == [JobFailed(1, sentence)]
    assert exchange.server.lose(0, "is silent, too") == []
    exchange.run()
    assert str(exchange.errors[0]) == sentence


def test_a_server_that_says_nothing_at_the_end_was_lost(facts_of: Maker) -> None:
    machine = clients(PROVING)[0]
    assert not isinstance(machine.eof(), ServerLost)
    exchange = Exchange(PROVING, clients(PROVING), [facts_of(0)])
    exchange.run()
    error = exchange.clients[0].eof()
    assert isinstance(error, ServerLost)
    assert str(error) == "the server was lost"
    exchange.clients[0].finish()
    assert exchange.clients[0].eof() is None
