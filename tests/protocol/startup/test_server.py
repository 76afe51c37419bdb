"""The server by commands: joins, lost connections, lost jobs (IMPI 2.3)."""

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import ALL_VERSIONS, RESILIENT_VERSIONS
from impi.protocol.startup.facts import encode_versions
from impi.protocol.startup.server import (
    AuthenticatedByNone,
    ClientFinished,
    ClientJoined,
    ClientLost,
    ConnectionRefused,
    JobFailed,
    JobOver,
    JobStarted,
    ServerEvent,
    ServerMachine,
)
from impi.protocol.wire import (
    MAX_PAYLOAD,
    Command,
    Label,
    OwnCommand,
    encode_command,
    encode_loss,
    encode_reason,
)

NONE = Credentials((Method.NONE,))
KEY = Credentials((Method.KEY,), 5678)
BOTH = Credentials((Method.KEY, Method.NONE), 5678)


def auth(mask: int) -> bytes:
    return encode_command(Command.AUTH, mask.to_bytes(4, "big"))


def impi(rank: int) -> bytes:
    return encode_command(Command.IMPI, rank.to_bytes(4, "big", signed=True))


def coll(label: int, data: bytes = b"") -> bytes:
    return encode_command(Command.COLL, label.to_bytes(4, "big", signed=True) + data)


def broadcast(label: int, mask: int, data: bytes = b"") -> bytes:
    return encode_command(Command.COLL, struct.pack(">iI", label, mask) + data)


DONE = encode_command(Command.DONE)
FINI = encode_command(Command.FINI)
SIZE_2 = b"IMPI" + bytes.fromhex("00000004 00000002")
CHOSE_NONE = bytes(8)
CHOSE_KEY = bytes.fromhex("00000001 00000000")
RIGHT_KEY = (5678).to_bytes(8, "big")


def server(
    nclients: int = 2, credentials: Credentials = NONE, connections: int = 4
) -> ServerMachine:
    machine = ServerMachine(nclients, credentials)
    for conn in range(connections):
        machine.connected(conn, f"peer{conn}")
    return machine


def joined(nclients: int = 2) -> ServerMachine:
    """All clients have joined, client i on connection i; earlier output is dropped."""
    machine = server(nclients)
    for conn in range(nclients):
        machine.receive_data(conn, auth(1) + impi(conn))
    for conn in range(nclients):
        machine.data_to_send(conn)
    return machine


def running(nclients: int = 2) -> ServerMachine:
    machine = joined(nclients)
    events = [e for conn in range(nclients) for e in machine.receive_data(conn, DONE)]
    assert events == [JobStarted()]
    for conn in range(nclients):
        assert machine.data_to_send(conn) == DONE
    return machine


def refusal(events: list[ServerEvent]) -> str:
    """The reason, if that is the last that happened."""
    assert isinstance(events[-1], ConnectionRefused), events
    return events[-1].reason


def failure(events: list[ServerEvent]) -> JobFailed:
    assert len(events) == 1, events
    assert isinstance(events[0], JobFailed)
    return events[0]


@pytest.mark.clause("2.2.1")
@pytest.mark.parametrize("count", [0, 33, -1])
def test_numbers_of_clients(count: int) -> None:
    with pytest.raises(UsageError, match="1 to 32"):
        ServerMachine(count, NONE)


@pytest.mark.clause("2.3.5")
def test_32_clients_and_one_too_many() -> None:
    machine = server(32, connections=33)
    for conn in range(32):
        machine.receive_data(conn, auth(1) + impi(conn))
    assert "peer32: is one client too many: all 32" in refusal(
        machine.receive_data(32, auth(1) + impi(32))
    )
    for conn in range(32):
        machine.receive_data(conn, coll(7, bytes([conn])))
    for conn in range(32):
        expected = (
            CHOSE_NONE
            + b"IMPI"
            + bytes.fromhex("00000004 00000020")
            + broadcast(7, 2**32 - 1, bytes(range(32)))
        )
        assert machine.data_to_send(conn) == expected


# Authentication


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize(
    ("credentials", "mask", "answer"),
    [
        (NONE, 1, CHOSE_NONE),
        (NONE, 3, CHOSE_NONE),
        (KEY, 2, CHOSE_KEY),
        (BOTH, 3, CHOSE_KEY),
        (BOTH, 1, CHOSE_NONE),
        (BOTH, 0x80000002, CHOSE_KEY),
        (Credentials((Method.NONE, Method.KEY), 1), 3, CHOSE_NONE),
    ],
)
def test_negotiation_of_the_method(
    credentials: Credentials, mask: int, answer: bytes
) -> None:
    machine = server(credentials=credentials)
    assert machine.receive_data(0, auth(mask)) == []
    assert machine.data_to_send(0) == answer
    key = (credentials.key).to_bytes(8, "big")
    events = machine.receive_data(0, impi(0) if answer == CHOSE_NONE else key + impi(0))
    warning = [AuthenticatedByNone(0, "peer0")] if answer == CHOSE_NONE else []
    assert events == [*warning, ClientJoined(0, 0, "peer0")]


@pytest.mark.clause("2.3.3")
def test_masks_longer_than_32_bits() -> None:
    machine = server(credentials=KEY)
    assert (
        machine.receive_data(
            0, encode_command(Command.AUTH, bytes.fromhex("00000002 ffffffff"))
        )
        == []
    )
    assert machine.data_to_send(0) == CHOSE_KEY
    # Bit 0 of a further word is method 32, not 0.
    assert "offers 32" in refusal(
        machine.receive_data(
            1, encode_command(Command.AUTH, bytes.fromhex("00000000 00000001"))
        )
    )


@pytest.mark.clause("2.3.3")
def test_a_right_key_is_answered_by_nothing() -> None:
    machine = server(credentials=KEY)
    assert machine.receive_data(0, auth(2)) == []
    assert machine.data_to_send(0) == CHOSE_KEY
    assert machine.receive_data(0, RIGHT_KEY) == []
    assert machine.receive_data(0, impi(0)) == [ClientJoined(0, 0, "peer0")]
    assert machine.data_to_send(0) == b""


STRANGERS = [
    (KEY, auth(2) + bytes(8), "wrong authentication key"),
    (
        KEY,
        auth(1),
        r"no common authentication method: it offers 0, this server accepts KEY \(1\)",
    ),
    (NONE, auth(0), "it offers none"),
    (NONE, encode_command(Command.AUTH), "mask"),
    (NONE, encode_command(Command.AUTH, b"\0\0\1"), "mask"),
    (NONE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "announces"),
    (NONE, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "announces"),
    (NONE, encode_command(Command.AUTH, bytes(1028)), "1024"),
    (NONE, encode_command(Command.AUTH)[:4] + b"\xff\xff\xff\xff", "-1"),
    (NONE, impi(0), "did not begin with AUTH"),
    (NONE, encode_command(-5, b"abc"), "did not begin with AUTH"),
    (NONE, auth(1) + auth(1), "sent AUTH before it said"),
    (NONE, auth(1) + coll(0x1000), "sent COLL before it said"),
    (NONE, auth(1) + DONE, "sent DONE before it said"),
    (NONE, auth(1) + FINI, "sent FINI before it said"),
    (NONE, auth(1) + encode_command(Command.IMPI), "not one rank"),
    (NONE, auth(1) + encode_command(Command.IMPI, bytes(8)), "not one rank"),
    (NONE, auth(1) + impi(2), "wants to be client 2, but this job has clients 0 to 1"),
    (NONE, auth(1) + impi(-1), "wants to be client -1"),
    (NONE, auth(1) + encode_command(77, bytes(1025)), "1025"),
]


@pytest.mark.clause("2.2.4")
@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize(("credentials", "data", "reason"), STRANGERS)
def test_what_costs_a_stranger_its_connection_and_nobody_else(
    credentials: Credentials, data: bytes, reason: str
) -> None:
    machine = server(credentials=credentials)
    text = refusal(machine.receive_data(3, data + b"more of it"))
    assert text.startswith("peer3: ")
    assert re.search(reason, text), text
    assert machine.receive_data(3, b"ignored") == machine.eof(3) == []
    assert machine.data_to_send(3) == b""
    # The job goes on.
    login = auth(1) if credentials is NONE else auth(2) + RIGHT_KEY
    assert ClientJoined(0, 0, "peer0") in machine.receive_data(0, login + impi(0))
    assert ClientJoined(1, 1, "peer1") in machine.receive_data(1, login + impi(1))
    assert machine.data_to_send(0).endswith(SIZE_2)


@pytest.mark.parametrize("data", [b"", b"AUT", auth(1), auth(1) + impi(0)[:-1]])
def test_the_end_of_a_stranger(data: bytes) -> None:
    machine = server()
    machine.receive_data(0, data)
    assert "peer0: its connection ended" in refusal(machine.eof(0))
    assert machine.missing() == [0, 1]


@pytest.mark.clause("2.2.2")
def test_a_duplicate_rank_names_both_and_costs_only_the_second() -> None:
    machine = server(3)
    machine.receive_data(0, auth(1) + impi(1))
    text = refusal(machine.receive_data(1, auth(1) + impi(1)))
    assert (
        text
        == "peer1: wants to be client 1, which peer0 is already; still free: 0, 2 (IMPI 2.3.4)"
    )
    assert machine.missing() == [0, 2]
    assert machine.is_stranger(2)
    assert not machine.is_stranger(0)
    assert not machine.is_stranger(1)


def test_one_client_too_many_while_the_job_runs() -> None:
    machine = running()
    assert "one client too many" in refusal(machine.receive_data(2, auth(1) + impi(0)))
    assert machine.receive_data(0, FINI) == [ClientFinished(0, 0)]


# Labels


@pytest.mark.clause("2.3.4")
def test_size_only_when_all_have_joined() -> None:
    machine = server()
    machine.receive_data(1, auth(1) + impi(1))
    assert machine.data_to_send(1) == CHOSE_NONE
    machine.receive_data(0, auth(1) + impi(0))
    assert machine.data_to_send(0) == CHOSE_NONE + SIZE_2
    assert machine.data_to_send(1) == SIZE_2


def test_labels_that_come_before_the_size_wait_for_it() -> None:
    machine = server()
    machine.receive_data(0, auth(1) + impi(0) + coll(1, b"a") + DONE)
    assert machine.data_to_send(0) == CHOSE_NONE
    events = machine.receive_data(1, auth(1) + impi(1) + coll(1, b"b") + DONE)
    assert events[-1] == JobStarted()
    assert machine.data_to_send(0) == SIZE_2 + broadcast(1, 3, b"ab") + DONE


@pytest.mark.clause("2.3.1")
@pytest.mark.clause("2.3.5")
def test_unknown_labels_are_relayed_and_skipped_ones_have_no_bit() -> None:
    machine = joined(3)
    machine.receive_data(0, coll(0x1000, b"a"))
    machine.receive_data(1, coll(0x1777, b"b"))
    machine.receive_data(2, coll(0x1000, b"c") + coll(0x7FFFFFFF, b"d"))
    expected = broadcast(0x1000, 0b101, b"ac")
    assert [machine.data_to_send(conn) for conn in range(3)] == [expected] * 3
    machine.receive_data(0, DONE)
    assert machine.data_to_send(1) == broadcast(0x1777, 0b010, b"b")
    machine.receive_data(1, DONE)
    assert machine.data_to_send(1) == broadcast(0x7FFFFFFF, 0b100, b"d")
    assert machine.receive_data(2, DONE) == [JobStarted()]
    assert machine.data_to_send(1) == DONE


@pytest.mark.clause("2.3.2")
def test_unknown_commands_are_skipped_in_every_phase() -> None:
    unknown = encode_command(0x58585858, b"payload")
    machine = server(1)
    parts = [auth(1), impi(0), coll(1), DONE, FINI]
    events = [
        e
        for part in parts
        for e in machine.receive_data(0, part if part == FINI else part + unknown)
    ]
    assert [type(e) for e in events] == [
        AuthenticatedByNone,
        ClientJoined,
        JobStarted,
        ClientFinished,
        JobOver,
    ]


# Faults that end the job

CLIENT_FAULTS = [
    (coll(2) + coll(2), "ascend", "2.3.5"),
    (coll(2) + coll(1), "ascend", "2.3.5"),
    (DONE + coll(3), "submitted label 0x0003 after DONE", "2.3.6"),
    (DONE + DONE, "sent DONE twice", "2.3.6"),
    (FINI, "sent FINI before its start-up", "2.3"),
    (DONE + FINI, "sent FINI before the start-up of all", "2.3"),
    (impi(1), "sent IMPI before its start-up", "2.3"),
    (auth(1), "sent AUTH before its start-up", "2.3"),
    (encode_command(Command.COLL, b"\0\0\1"), "without a label", "2.3.5"),
    (
        encode_command(Command.COLL)[:4] + (MAX_PAYLOAD + 1).to_bytes(4, "big"),
        "announces",
        "2.3.2",
    ),
]


@pytest.mark.clause("2.3.5")
@pytest.mark.clause("2.3.6")
@pytest.mark.parametrize(("data", "reason", "clause"), CLIENT_FAULTS)
def test_a_client_that_breaks_the_protocol_costs_the_job(
    data: bytes, reason: str, clause: str
) -> None:
    machine = joined()
    failed = failure(machine.receive_data(1, data))
    assert failed.client == 1
    assert failed.reason.startswith("client 1 (peer1): ")
    assert reason in failed.reason
    assert f"(IMPI {clause})" in failed.reason
    assert machine.receive_data(0, coll(1)) == machine.eof(0) == []


def test_the_longest_payload_is_accepted() -> None:
    machine = joined()
    assert (
        machine.receive_data(0, encode_command(Command.COLL, bytes(MAX_PAYLOAD))) == []
    )


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "before its start-up was complete"),
        (coll(4), "before its start-up was complete"),
        (b"COL", "in the middle of a command, before its start-up"),
        (DONE, "before the start-up of all clients was complete"),
    ],
)
def test_a_client_lost_before_done(sent: bytes, words: str) -> None:
    machine = joined()
    machine.receive_data(1, sent)
    failed = failure(machine.eof(1))
    assert failed.client == 1
    assert words in failed.reason
    assert "client 1 (peer1)" in failed.reason


def test_a_client_lost_while_others_are_awaited() -> None:
    machine = server()
    machine.receive_data(0, auth(1) + impi(0))
    assert failure(machine.eof(0)).client == 0


@pytest.mark.clause("2.3.7")
@pytest.mark.parametrize("sent", [b"", FINI[:7]])
def test_a_client_lost_without_fini(sent: bytes) -> None:
    machine = running()
    machine.receive_data(0, sent)
    failed = failure(machine.eof(0))
    assert "client 0 (peer0)" in failed.reason
    assert "without FINI" in failed.reason
    assert "2.3.7" in failed.reason


@pytest.mark.clause("2.3.7")
def test_the_end_in_any_order() -> None:
    machine = running(3)
    assert machine.receive_data(2, FINI) == [ClientFinished(2, 2)]
    assert machine.eof(2) == []
    assert machine.receive_data(0, FINI + b"ignored") == [ClientFinished(0, 0)]
    assert machine.receive_data(1, FINI) == [ClientFinished(1, 1), JobOver()]


def test_a_client_lost_after_another_has_finished() -> None:
    machine = running()
    machine.receive_data(0, FINI)
    assert failure(machine.eof(1)).client == 1


def test_a_client_that_does_not_read_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.protocol.startup.server._MAX_UNREAD", 100)
    machine = joined()
    machine.receive_data(0, DONE)
    assert machine.receive_data(1, coll(1, bytes(60))) == []
    assert machine.data_to_send(0) == broadcast(1, 0b10, bytes(60))
    failed = failure(machine.receive_data(1, coll(2, bytes(60))))
    assert failed.client == 1
    assert "unread" in failed.reason


# Any split

CONVERSATIONS = st.lists(
    st.sampled_from(
        [
            auth(1),
            auth(3),
            impi(0),
            impi(1),
            impi(5),
            coll(1, b"abc"),
            coll(9),
            DONE,
            FINI,
            encode_command(3, b"x"),
            b"GET / H",
        ]
    ),
    max_size=7,
)


@given(CONVERSATIONS, CONVERSATIONS, st.data())
def test_any_split_gives_the_same_events(
    first: list[bytes], second: list[bytes], data: st.DataObject
) -> None:
    whole, cut = server(credentials=NONE), server(credentials=NONE)
    for conn, stream in enumerate(
        [auth(1) + b"".join(first), auth(1) + b"".join(second)]
    ):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
        pieces = [
            stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        ]
        assert [
            e for piece in pieces for e in cut.receive_data(conn, piece)
        ] == whole.receive_data(conn, stream)
        assert cut.data_to_send(conn) == whole.data_to_send(conn)
    assert cut.eof(1) == whole.eof(1)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_octets_of_a_stranger_never_cost_the_job(before: bytes, after: bytes) -> None:
    machine = server()
    machine.receive_data(0, auth(1) + impi(0))
    events = (
        machine.receive_data(1, before)
        + machine.receive_data(1, after)
        + machine.eof(1)
    )
    assert not any(isinstance(e, JobFailed) for e in events) or any(
        isinstance(e, ClientJoined) for e in events
    )
    assert machine.is_stranger(2)


def resilient(
    nclients: int = 3, *, demanded: bool = False, versions: bytes = b""
) -> ServerMachine:
    """A server whose clients, on connections of their numbers, have all started up."""
    machine = ServerMachine(nclients, NONE, resilient=demanded)
    for client in range(nclients):
        machine.connected(client, f"peer{client}")
        machine.receive_data(client, auth(1) + impi(client))
    for client in range(nclients):
        machine.receive_data(
            client,
            coll(Label.C_VERSION, versions or encode_versions(RESILIENT_VERSIONS))
            + DONE,
        )
    for client in range(nclients):
        machine.data_to_send(client)
    return machine


def test_a_resilient_job_goes_on_without_a_client() -> None:
    machine = resilient()
    assert machine.survives
    [lost] = machine.eof(1)
    assert isinstance(lost, ClientLost) and (lost.client, lost.conn) == (1, 1)
    told = encode_loss(1, (), lost.reason)
    assert [machine.data_to_send(client) for client in (0, 2)] == [told, told]
    assert machine.missing() == []
    assert machine.receive_data(0, FINI) == [ClientFinished(0, 0)]
    assert machine.receive_data(2, FINI) == [ClientFinished(2, 2), JobOver()]


def test_nobody_takes_the_place_of_a_lost_client() -> None:
    machine = resilient()
    machine.eof(1)
    machine.connected(7, "peer7")
    [refused] = machine.receive_data(7, auth(1) + impi(1))
    assert isinstance(refused, ConnectionRefused)


def test_procs_of_a_client_are_lost() -> None:
    machine = resilient()
    events = machine.receive_data(
        1, encode_loss(1, (4, 5), "rank 1 of this client was ended")
    )
    reason = "client 1 (peer1): rank 1 of this client was ended"
    assert events == [ClientLost(1, reason, None)]
    assert {machine.data_to_send(client) for client in range(3)} == {
        encode_loss(1, (4, 5), reason)
    }


def test_the_last_client_that_is_lost_ends_the_job() -> None:
    machine = resilient(2)
    machine.eof(0)
    lost, failed = machine.receive_data(1, encode_loss(1, (), "all is lost"))
    assert isinstance(lost, ClientLost)
    assert failed == JobFailed(1, "client 1 (peer1): all is lost")


def test_an_abort_ends_a_resilient_job() -> None:
    machine = resilient()
    assert machine.receive_data(1, encode_reason("MPI_Abort", 5)) == [
        JobFailed(1, "client 1 (peer1): MPI_Abort", 5)
    ]


@pytest.mark.parametrize(
    "payload",
    [b"", bytes(7), struct.pack(">ii", 1, 2) + bytes(4), struct.pack(">ii", -1, 0)],
)
def test_a_loss_that_is_cut_short_loses_its_client(payload: bytes) -> None:
    machine = resilient()
    [lost] = machine.receive_data(1, encode_command(OwnCommand.LOSS, payload))
    assert isinstance(lost, ClientLost) and lost.conn == 1


def test_without_the_version_a_loss_ends_the_job() -> None:
    machine = resilient(versions=encode_versions(ALL_VERSIONS))
    assert not machine.survives
    [failed] = machine.eof(1)
    assert isinstance(failed, JobFailed)
    machine = resilient(versions=encode_versions(ALL_VERSIONS))
    [failed] = machine.receive_data(1, encode_loss(1, (), "x"))
    assert isinstance(failed, JobFailed)


def test_the_server_may_demand_it() -> None:
    assert resilient(demanded=True).survives
    machine = ServerMachine(1, NONE, resilient=True)
    machine.connected(0, "peer0")
    events = machine.receive_data(
        0,
        auth(1) + impi(0) + coll(Label.C_VERSION, encode_versions(ALL_VERSIONS)) + DONE,
    )
    assert isinstance(events[-1], JobFailed)
    assert "not all clients were" in events[-1].reason
