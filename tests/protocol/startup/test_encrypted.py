"""Method 30: a start-up in a TLS session whose number both ends prove."""

from __future__ import annotations

import ssl

import pytest
from exchange import SECRET, Exchange, Maker, as_it_is, clients
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from impi.base.errors import JobEnded, PeerError
from impi.protocol.startup import encrypted
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import STRICT_VERSIONS, ClientMachine
from impi.protocol.startup.encrypted import Stream, binding, session_proof
from impi.protocol.startup.server import ConnectionRefused, JobFailed, ServerMachine
from impi.protocol.wire import Command, OwnCommand, encode_command

TLS = Credentials((Method.TLS,), 0, SECRET)
BOTH = Credentials((Method.CHALLENGE, Method.TLS), 0, SECRET)
PROVING = Credentials((Method.CHALLENGE,), 0, SECRET)


def connected(accepting: Stream, connecting: Stream) -> None:
    """Let both shake hands."""
    _, octets = accepting.receive(connecting.send(b""))
    _, octets = connecting.receive(octets)
    _, octets = accepting.receive(octets)
    connecting.receive(octets)


def test_all_of_the_start_up_after_the_proofs_is_encrypted(facts_of: Maker) -> None:
    passed = bytearray()

    def listen(_conn: int, octets: bytes) -> bytes:
        passed.extend(octets)
        return octets

    exchange = Exchange(TLS, clients(BOTH, TLS), [facts_of(c) for c in range(2)])
    exchange.run(listen, listen)
    assert exchange.errors == {}
    assert exchange.jobs[0] == exchange.jobs[1]
    assert exchange.clients[0].encrypted
    trust = exchange.jobs[0].trust
    assert trust is not None
    assert (trust.clients, trust.tls) == ((0, 1), (0, 1))
    for cmd in (Command.IMPI, Command.COLL, Command.DONE, OwnCommand.SEAL):
        assert int(cmd).to_bytes(4, "big") not in passed
    assert int(OwnCommand.PROV).to_bytes(4, "big") in passed


def test_it_is_used_only_where_the_server_wants_nothing_else(facts_of: Maker) -> None:
    exchange = Exchange(
        BOTH, clients(BOTH, PROVING, TLS), [facts_of(c) for c in range(3)]
    )
    exchange.run()
    assert exchange.errors == {}
    trust = exchange.jobs[0].trust
    assert trust is not None
    assert (trust.clients, trust.tls) == ((0, 1, 2), (2,))


def test_no_job_begins_whose_channels_could_not_have_tls(facts_of: Maker) -> None:
    machines = [*clients(TLS), ClientMachine(1, TLS, STRICT_VERSIONS, bytes(32))]
    exchange = Exchange(TLS, machines, [facts_of(c) for c in range(2)])
    exchange.run()
    assert exchange.jobs == {}
    assert (
        "the server wants TLS (--tls), which needs clients of ours without --impi-version 0.0"
        in str(exchange.errors[0])
    )


def test_reasons_and_beats_go_through_the_session(facts_of: Maker) -> None:
    exchange = Exchange(TLS, clients(TLS, TLS), [facts_of(c) for c in range(2)])
    exchange.run()
    exchange.clients[0].beat()
    exchange.server.beat()
    exchange.run()
    assert exchange.errors == {}
    exchange.clients[0].fail("rank 1 was lost", 7)
    exchange.run()
    assert exchange.events[-1] == JobFailed(0, "client 0 (peer0): rank 1 was lost", 7)
    assert isinstance(exchange.errors[1], JobEnded)


def test_a_client_that_is_refused_in_the_session_is_told_why(facts_of: Maker) -> None:
    machines = [*clients(TLS), clients(TLS)[0]]
    exchange = Exchange(TLS, machines, [facts_of(c) for c in range(2)])
    exchange.run()
    [refused] = [
        event for event in exchange.events if isinstance(event, ConnectionRefused)
    ]
    with pytest.raises(JobEnded, match="wants to be client 0"):
        exchange.clients[1].receive_data(refused.last)


def test_sessions_with_somebody_between_are_not_one(facts_of: Maker) -> None:
    """Somebody passes the proofs on, and then has a session with each end."""
    ends: list[Stream] = []

    def to_server(_conn: int, octets: bytes) -> bytes:
        if not ends and octets.startswith(b"\x16\x03"):
            ends.extend((Stream(accepts=True), Stream(accepts=False)))
        if not ends:
            return octets
        heard, answer = ends[0].receive(octets)
        answers[0] += answer
        return answers_to_server() + ends[1].send(heard)

    def to_client(_conn: int, octets: bytes) -> bytes:
        if not ends:
            return octets
        heard, answer = ends[1].receive(octets)
        answers[1] += answer
        passed, answers[0] = answers[0], b""
        return passed + ends[0].send(heard)

    def answers_to_server() -> bytes:
        passed, answers[1] = answers[1], b""
        return passed

    answers = [b"", b""]
    exchange = Exchange(TLS, clients(TLS), [facts_of(0)])
    exchange.run(to_server, to_client)
    assert exchange.jobs == {}
    assert isinstance(exchange.events[-1], JobFailed)
    assert "they were changed on the way" in exchange.events[-1].reason


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 4000), st.integers(0, 7), st.booleans())
@example(place=114, bit=0, up=False)
def test_no_octet_can_be_changed(
    facts_of: Maker, place: int, bit: int, up: bool
) -> None:
    passed, is_ignored = 0, False

    def change(_conn: int, octets: bytes) -> bytes:
        nonlocal passed, is_ignored
        at, passed = place - passed, passed + len(octets)
        # The version of a record in the clear "MUST be ignored for all purposes" (RFC 8446, 5.1).
        is_ignored |= octets.startswith(b"\x16\x03") and at == 2
        if 0 <= at < len(octets):
            return octets[:at] + bytes([octets[at] ^ 1 << bit]) + octets[at + 1 :]
        return octets

    exchange = Exchange(TLS, clients(TLS), [facts_of(0)])
    exchange.run(*((change, as_it_is) if up else (as_it_is, change)))
    assert 0 not in exchange.jobs or passed <= place or is_ignored


@given(st.binary(min_size=6, max_size=300))
def test_octets_that_are_no_tls_cost_the_connection(octets: bytes) -> None:
    stream = Stream(accepts=True)
    try:
        heard, _ = stream.receive(octets)
    except PeerError as error:
        assert "has broken its TLS session" in str(error)
    else:
        assert heard == b""


def test_another_protocol_costs_the_connection() -> None:
    with pytest.raises(PeerError, match="has broken its TLS session"):
        Stream(accepts=True).receive(b"GET / HTTP/1.1\r\n\r\n")


def test_octets_between_the_proofs_and_the_session_are_refused(facts_of: Maker) -> None:
    def add(_conn: int, octets: bytes) -> bytes:
        return (
            octets + encode_command(Command.IMPI, bytes(4))
            if len(octets) == 64
            else octets
        )

    exchange = Exchange(TLS, clients(TLS), [facts_of(0)])
    exchange.run(add)
    [refused] = exchange.events
    assert isinstance(refused, ConnectionRefused)
    assert refused.kind == "sent octets before its TLS session"

    for behind in (b"\0", encode_command(Command.IMPI, (1).to_bytes(4, "big"))):

        def extra(_conn: int, octets: bytes, behind: bytes = behind) -> bytes:
            return octets + behind if b"PROV" in octets else octets

        exchange = Exchange(TLS, clients(TLS), [facts_of(0)])
        exchange.run(to_client=extra)
        assert "sent octets before its TLS session" in str(exchange.errors[0])


def test_a_client_says_nothing_of_itself_before_the_session() -> None:
    machine = clients(TLS)[0]
    machine.data_to_send()
    machine.receive_data(encode_command(Method.TLS, bytes(32)))
    assert len(machine.data_to_send()) == 64
    assert not machine.introduced


def test_a_client_is_introduced_once_its_word_goes_out_at_once(
    facts_of: Maker,
) -> None:
    """One that fails before the handshake is over would end without a word."""
    before: list[bool] = []
    exchange = Exchange(TLS, clients(TLS), [facts_of(0)])
    machine = exchange.clients[0]

    def look(_conn: int, octets: bytes) -> bytes:
        if machine.encrypted and not machine._channel.ready:
            before.append(machine.introduced)
        return octets

    exchange.run(look, look)
    assert before
    assert not any(before)
    assert machine.introduced


def test_long_octets_and_an_orderly_end() -> None:
    accepting, connecting = Stream(accepts=True), Stream(accepts=False)
    assert not connecting.ready
    connected(accepting, connecting)
    assert accepting.ready
    assert connecting.ready
    long = bytes(range(256)) * 2000
    assert accepting.receive(connecting.send(long))[0] == long
    assert accepting.binding == connecting.binding
    assert not accepting.closed

    last = connecting.close()
    assert accepting.receive(last) == (b"", b"")
    assert accepting.closed
    assert not connecting.closed

    # The other end may end its own direction later, or never.
    assert connecting.receive(accepting.close()) == (b"", b"")
    assert connecting.closed


def test_what_was_sent_before_the_end_arrives_before_it() -> None:
    accepting, connecting = Stream(accepts=True), Stream(accepts=False)
    connected(accepting, connecting)
    octets = connecting.send(b"last words") + connecting.close()
    assert accepting.receive(octets)[0] == b"last words"
    assert accepting.closed


@pytest.mark.parametrize(
    ("accepts", "sentence"),
    [
        (False, "ended its TLS session in the handshake"),
        (True, "broken its TLS session"),
    ],
)
def test_an_end_before_the_session_is_a_broken_session(
    accepts: bool, sentence: str
) -> None:
    """Anybody can write these octets: they must not pass for the end of a stream."""
    close_notify = bytes([21, 3, 3, 0, 2, 1, 0])
    stream = Stream(accepts=accepts)
    with pytest.raises(PeerError, match=sentence):
        stream.receive(close_notify)

    assert not stream.closed


def test_the_proof_of_a_session_says_whose_it_is() -> None:
    proofs = {
        session_proof(key, n, accepts=a)
        for key in (b"k", b"l")
        for n in (b"1", b"2")
        for a in (True, False)
    }
    assert len(proofs) == 8


def test_a_session_without_a_number_is_none() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = encrypted.context(accepts=True).wrap_bio(
        incoming, outgoing, server_side=True
    )
    with pytest.raises(PeerError, match="without a Finished message"):
        binding(session)


def test_a_server_that_accepts_tls_needs_nonces() -> None:
    with pytest.raises(Exception, match="cannot be guessed"):
        ServerMachine(1, TLS)
