"""A client's conversation, and what ends it (IMPI 2.3)."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import (
    ImpiError,
    JobError,
    LocalProtocolError,
    PeerError,
    StartupError,
    UsageError,
)
from impi.base.records import replaced
from impi.protocol.job import ALTERNATIVES, LAZY_VERSION, STRICT_VERSION, TUNED_VERSION
from impi.protocol.options import ClientOptions
from impi.protocol.proofs import NONCE_SIZE
from impi.protocol.settings import made
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    LAZY_VERSIONS,
    RESILIENT_VERSIONS,
    STRICT_VERSIONS,
    ClientEvent,
    ClientMachine,
    Joined,
    Lost,
    Negotiated,
    Unused,
    versions_to_offer,
)
from impi.protocol.startup.facts import (
    ClientFacts,
    HostFacts,
    ProcFacts,
    encode_facts,
    encode_versions,
)
from impi.protocol.startup.server import ServerMachine
from impi.protocol.wire import (
    Command,
    CommandReader,
    Label,
    OwnLabel,
    encode_command,
    encode_loss,
)

NONE = Credentials((Method.NONE,))
KEY = Credentials((Method.KEY,), 5678)
BOTH = Credentials((Method.KEY, Method.NONE), 5678)

Maker = Callable[..., ClientFacts]

DONE = encode_command(Command.DONE)
CHOSE_NONE = bytes(8)


def size(nclients: int) -> bytes:
    return encode_command(Command.IMPI, nclients.to_bytes(4, "big", signed=True))


def broadcast(label: int, mask: int, data: bytes = b"") -> bytes:
    return encode_command(Command.COLL, struct.pack(">iI", label, mask) + data)


def joined(
    rank: int = 0,
    nclients: int = 2,
    versions: tuple[tuple[int, int], ...] = ALL_VERSIONS,
) -> ClientMachine:
    machine = ClientMachine(rank, NONE, versions)
    assert machine.receive_data(CHOSE_NONE + size(nclients)) == [Joined(nclients)]
    machine.data_to_send()
    return machine


def rendezvous(
    machines: list[ClientMachine], facts: list[ClientFacts], credentials: Credentials
) -> list[Negotiated]:
    """Our own server between our own clients, in memory."""
    server = ServerMachine(len(machines), credentials)
    jobs: dict[int, Negotiated] = {}
    for conn in range(len(machines)):
        server.connected(conn, f"peer{conn}")
    for _ in range(100):
        for conn, machine in enumerate(machines):
            server.receive_data(conn, machine.data_to_send())
            for event in machine.receive_data(server.data_to_send(conn)):
                if isinstance(event, Joined):
                    machine.submit(facts[conn])
                elif isinstance(event, Negotiated):
                    jobs[conn] = event
    return [jobs[conn] for conn in range(len(machines))]


@pytest.mark.parametrize("credentials", [NONE, KEY, BOTH])
@pytest.mark.parametrize("nclients", [1, 2, 5, 32])
def test_all_come_to_the_same_job(
    facts_of: Maker, nclients: int, credentials: Credentials
) -> None:
    machines = [ClientMachine(rank, credentials) for rank in range(nclients)]
    jobs = rendezvous(
        machines, [facts_of(c, (1, 2)) for c in range(nclients)], credentials
    )
    assert len(jobs) == nclients
    assert jobs == [jobs[0]] * nclients
    job = jobs[0].job
    assert (job.nclients, len(job.hosts), len(job.procs)) == (
        nclients,
        2 * nclients,
        3 * nclients,
    )
    assert (job.version, job.long_size) == (TUNED_VERSION, 8)


def test_one_strict_client_makes_a_strict_job(facts_of: Maker) -> None:
    machines = [
        ClientMachine(0, NONE),
        ClientMachine(1, NONE, STRICT_VERSIONS),
        ClientMachine(2, NONE),
    ]
    jobs = rendezvous(machines, [facts_of(c) for c in range(3)], NONE)
    assert {(j.job.version, j.job.long_size) for j in jobs} == {(STRICT_VERSION, 4)}


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({}, ALL_VERSIONS),
        ({"impi_version": "0.0"}, STRICT_VERSIONS),
        ({"resilient": True}, RESILIENT_VERSIONS),
        ({"lazy": True}, LAZY_VERSIONS),
    ],
)
def test_options_stand_for_versions(
    option: dict[str, object], expected: tuple[tuple[int, int], ...]
) -> None:
    options = made(
        ClientOptions, rank=0, server="localhost:1", argv=("program",), **option
    )
    assert versions_to_offer(options) == expected


@pytest.mark.parametrize(
    ("others", "version"),
    [
        (LAZY_VERSIONS, LAZY_VERSION),
        (ALL_VERSIONS, TUNED_VERSION),
        (RESILIENT_VERSIONS, TUNED_VERSION),
    ],
)
def test_a_job_is_lazy_if_all_clients_are(
    facts_of: Maker, others: tuple[tuple[int, int], ...], version: tuple[int, int]
) -> None:
    machines = [ClientMachine(0, NONE, LAZY_VERSIONS), ClientMachine(1, NONE, others)]
    jobs = rendezvous(machines, [facts_of(c) for c in range(2)], NONE)
    assert {(j.job.version, j.job.is_lazy) for j in jobs} == {
        (version, version == LAZY_VERSION)
    }


# Programs that end without MPI


def passing(
    machines: list[ClientMachine], facts: dict[int, ClientFacts]
) -> list[ClientEvent]:
    """Our own server; the clients without facts submit nothing."""
    server = ServerMachine(len(machines), NONE)
    for conn in range(len(machines)):
        server.connected(conn, f"peer{conn}")
    told: list[ClientEvent] = []
    for _ in range(20):
        for conn, machine in enumerate(machines):
            server.receive_data(conn, machine.data_to_send())
            for event in machine.receive_data(server.data_to_send(conn)):
                if not isinstance(event, Joined):
                    told.append(event)
                elif conn in facts:
                    machine.submit(facts[conn])
                else:
                    machine.submit_nothing()
    return told


@pytest.mark.parametrize("nclients", [1, 2, 32])
def test_where_nobody_uses_mpi_there_is_no_job_and_fini_ends_it(nclients: int) -> None:
    machines = [ClientMachine(rank, NONE) for rank in range(nclients)]
    assert passing(machines, {}) == [Unused()] * nclients
    for machine in machines:
        machine.finish()
        assert machine.data_to_send() == encode_command(Command.FINI)
        assert machine.eof() is None


@pytest.mark.parametrize("absent", [0, 1])
def test_one_client_without_mpi_ends_the_job(facts_of: Maker, absent: int) -> None:
    machines = [ClientMachine(rank, NONE) for rank in range(2)]
    with pytest.raises(StartupError) as told:
        passing(machines, {1 - absent: facts_of(1 - absent)})
    assert str(told.value) in (
        "other clients wait for it",
        f"client {absent}: did not contribute the mandatory C_VERSION, which means that the program there has ended "
        "without initialising MPI (IMPI 2.3.5)",
    )


def test_a_client_that_submits_nothing_learns_that_others_wait() -> None:
    machine = joined()
    machine.submit_nothing()
    assert machine.data_to_send() == DONE
    # Not understood (2.3.5)
    assert machine.receive_data(broadcast(0x7FFFFFF0, 2)) == []
    with pytest.raises(StartupError, match="other clients wait for it"):
        machine.receive_data(
            broadcast(Label.C_VERSION, 2, encode_versions(ALL_VERSIONS))
        )


def test_nothing_is_submitted_once_and_after_all_have_joined() -> None:
    machine = ClientMachine(0, NONE)
    with pytest.raises(LocalProtocolError):
        machine.submit_nothing()
    machine = joined()
    machine.submit_nothing()
    with pytest.raises(LocalProtocolError):
        machine.submit_nothing()


# Octets


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize(("credentials", "mask"), [(NONE, 1), (KEY, 2), (BOTH, 3)])
def test_it_begins_with_its_mask(credentials: Credentials, mask: int) -> None:
    assert ClientMachine(
        0, credentials
    ).data_to_send() == b"AUTH\0\0\0\4" + mask.to_bytes(4, "big")


@pytest.mark.clause("2.3.3")
@pytest.mark.clause("2.3.4")
@pytest.mark.parametrize(
    ("which", "answer"), [(0, b""), (1, (5678).to_bytes(8, "big"))]
)
def test_it_follows_the_servers_choice(which: int, answer: bytes) -> None:
    machine = ClientMachine(3, BOTH)
    machine.data_to_send()
    assert machine.receive_data(which.to_bytes(4, "big") + b"\0\0\0\3abc") == []
    assert machine.data_to_send() == answer + b"IMPI\0\0\0\4\0\0\0\3"


def test_it_is_introduced_once_its_rank_is_among_what_is_to_be_written() -> None:
    machine = ClientMachine(3, KEY)
    machine.data_to_send()
    assert not machine.introduced
    machine.receive_data(b"\0\0\0\1" + bytes(4))
    assert machine.introduced
    assert machine.data_to_send().endswith(b"IMPI\0\0\0\4\0\0\0\3")
    machine.receive_data(size(4))
    assert machine.introduced


@pytest.mark.clause("2.3.5")
@pytest.mark.clause("2.3.6")
def test_one_label_at_a_time(facts_of: Maker) -> None:
    machine = joined(nclients=1)
    facts = facts_of(0, (1, 3))
    machine.submit(facts)
    for label, data in [
        (Label.C_VERSION, encode_versions(ALL_VERSIONS)),
        *encode_facts(facts),
    ]:
        assert machine.data_to_send() == encode_command(
            Command.COLL, label.to_bytes(4, "big") + data
        )
        assert machine.data_to_send() == b""
        assert machine.receive_data(broadcast(label, 1, data)) == []
    assert machine.data_to_send() == DONE
    (event,) = machine.receive_data(DONE)
    assert isinstance(event, Negotiated)
    machine.finish()
    assert machine.data_to_send() == b"FINI" + bytes(4)
    assert machine.eof() is None


@pytest.mark.clause("2.3.2")
@pytest.mark.clause("2.3.5")
def test_unknown_commands_and_labels_are_skipped_in_every_phase(
    facts_of: Maker,
) -> None:
    noise = (
        encode_command(0x58585858, b"abc")
        + broadcast(0x1777, 2, b"theirs")
        + broadcast(0x7000, 0)
    )
    machine = joined(nclients=1)
    assert machine.receive_data(noise) == []
    machine.submit(facts_of(0))
    for label, data in [
        (Label.C_VERSION, encode_versions(ALL_VERSIONS)),
        *encode_facts(facts_of(0)),
    ]:
        assert machine.receive_data(broadcast(label, 1, data) + noise) == []
    assert len(machine.receive_data(DONE)) == 1
    assert machine.receive_data(encode_command(0x58585858, b"print this")) == []


@given(st.lists(st.integers(0, 400), max_size=12))
def test_any_split_gives_the_same_job(cuts: list[int]) -> None:
    here = bytes(12) + b"\x0a\0\0\1"
    facts = ClientFacts(hosts=(HostFacts(here, 1, (ProcFacts(here, 1),)),))
    heard = CHOSE_NONE + size(1)
    later = b"".join(
        broadcast(label, 1, data)
        for label, data in [
            (Label.C_VERSION, encode_versions(ALL_VERSIONS)),
            *encode_facts(facts),
        ]
    )
    outcomes = []
    for wanted in ([], cuts):
        machine = ClientMachine(0, NONE)
        events: list[ClientEvent] = []
        said = b""
        for part in (heard, later + DONE):
            inside = sorted(cut for cut in wanted if cut < len(part))
            for a, b in zip([0, *inside], [*inside, len(part)], strict=True):
                events += machine.receive_data(part[a:b])
                said += machine.data_to_send()
            if part is heard:
                machine.submit(facts)
        outcomes.append((events, said))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) == 2


# The end of start-up


@pytest.mark.clause("2.2.2")
@pytest.mark.parametrize("rank", [-1, 32])
def test_no_client_has_this_number(rank: int) -> None:
    with pytest.raises(UsageError, match=str(rank)):
        ClientMachine(rank, NONE)


@pytest.mark.parametrize(
    "versions",
    [(), (TUNED_VERSION,), (STRICT_VERSION, STRICT_VERSION), ((0, 0), (2, 0), (1, 0))],
)
def test_versions_that_cannot_be_offered(versions: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(LocalProtocolError):
        ClientMachine(0, NONE, versions)


@pytest.mark.parametrize(
    ("credentials", "answer"),
    [
        (KEY, CHOSE_NONE),
        (NONE, b"\0\0\0\1" + bytes(4)),
        (BOTH, b"\0\0\0\7" + bytes(4)),
        (BOTH, b"\xff\xff\xff\xff" + bytes(4)),
        (NONE, b"HTTP/1.1 400"),
        (NONE, bytes(4) + b"\xff\xff\xff\xff"),
        (NONE, bytes(4) + b"\0\0\xff\xff"),
        (NONE, CHOSE_NONE + size(2) + size(2)),
        (NONE, CHOSE_NONE + DONE),
        (NONE, CHOSE_NONE + broadcast(0x1000, 3)),
        (NONE, CHOSE_NONE + encode_command(Command.AUTH)),
        (NONE, CHOSE_NONE + encode_command(Command.FINI)),
        (NONE, CHOSE_NONE + size(0)),
        (NONE, CHOSE_NONE + size(33)),
        (NONE, CHOSE_NONE + size(-1)),
        (NONE, CHOSE_NONE + encode_command(Command.IMPI)),
        (NONE, CHOSE_NONE + size(2) + broadcast(0x1000, 3)),
    ],
)
def test_servers_that_break_the_protocol(
    credentials: Credentials, answer: bytes
) -> None:
    with pytest.raises(PeerError):
        ClientMachine(0, credentials).receive_data(answer)


def test_a_job_too_small_for_this_client() -> None:
    with pytest.raises(PeerError, match="client 2"):
        ClientMachine(2, NONE).receive_data(CHOSE_NONE + size(2))


VERSIONS_OF_TWO = encode_versions(STRICT_VERSIONS) * 2


@pytest.mark.parametrize(
    ("heard", "error", "message"),
    [
        (
            broadcast(0x1000, 0b01, VERSIONS_OF_TWO),
            StartupError,
            "client 1: did not contribute the mandatory C_VERSION",
        ),
        (
            broadcast(0x1000, 0b10, VERSIONS_OF_TWO),
            PeerError,
            "without what this client submitted",
        ),
        (broadcast(0x1000, 0b111, VERSIONS_OF_TWO), PeerError, "do not exist"),
        (broadcast(0x1000, 0b11, b""), StartupError, "0 of 2 clients"),
        (broadcast(0x1100, 0b11, bytes(8)), PeerError, "not its turn"),
        (broadcast(0x1000, 0b11, VERSIONS_OF_TWO) * 2, PeerError, "not its turn"),
        (encode_command(Command.COLL, bytes(7)), PeerError, "without label"),
        (DONE, PeerError, "wrong place"),
    ],
)
def test_broadcasts_that_make_no_job(
    facts_of: Maker, heard: bytes, error: type[ImpiError], message: str
) -> None:
    machine = joined()
    machine.submit(facts_of(0))
    with pytest.raises(error, match=message):
        machine.receive_data(heard)


def test_three_missing_clients_are_all_named(facts_of: Maker) -> None:
    machine = joined(rank=1, nclients=4)
    machine.submit(facts_of(1))
    with pytest.raises(StartupError, match="clients 0, 2, 3: did not"):
        machine.receive_data(broadcast(0x1000, 0b0010, VERSIONS_OF_TWO))


def test_contradictions_are_found_at_the_end(facts_of: Maker) -> None:
    machines = [ClientMachine(rank, NONE) for rank in range(2)]
    with pytest.raises(
        StartupError, match="client 0 has C_COLL_XSIZE 1024 and client 1 has 5"
    ):
        rendezvous(machines, [facts_of(0), facts_of(1, xsize=5)], NONE)


Choices = list[dict[str, object]]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            [{"verify": 2}, {}, {}],
            "only client 0 has IMPI_VERIFY: start all clients with the same, or none",
        ),
        (
            [{}, {"verify": 1}, {"verify": 1}],
            "only clients 1, 2 have IMPI_VERIFY: start all clients with the same, or",
        ),
        (
            [{"verify": 1}, {"verify": 1}, {"verify": 3}],
            "client 0 has IMPI_VERIFY=1 and client 2 has IMPI_VERIFY=3: ",
        ),
        (
            [{}, {"collectives": ("scatter=masters",)}, {}],
            "only client 1 has --collectives: start all",
        ),
        (
            [
                {"collectives": ("scatter=masters",)},
                {"collectives": ("scatter=masters", "alltoall=masters")},
                {"verify": 1},
            ],
            "only client 2 has IMPI_VERIFY",
        ),
        (
            [
                {"collectives": ALTERNATIVES[:1]},
                {"collectives": ALTERNATIVES[:2]},
                {"collectives": ALTERNATIVES[:1]},
            ],
            "client 0 has --collectives scatter=masters and client 1 has --collectives scatter=masters,allgatherv=g",
        ),
    ],
)
def test_choices_that_differ(facts_of: Maker, choices: Choices, message: str) -> None:
    for first in range(3):  # whoever hears it first
        order = [first, *(rank for rank in range(3) if rank != first)]
        with pytest.raises(StartupError, match=message):
            rendezvous(
                [ClientMachine(r, NONE) for r in order],
                [facts_of(r, **choices[r]) for r in order],
                NONE,
            )


def test_choices_that_agree(facts_of: Maker) -> None:
    chosen = {"verify": 2, "collectives": ALTERNATIVES[:0:-1]}
    jobs = rendezvous(
        [ClientMachine(r, NONE) for r in range(2)],
        [facts_of(r, **chosen) for r in range(2)],
        NONE,
    )
    assert [(j.job.verify, j.job.collectives) for j in jobs] == [
        (2, ALTERNATIVES[1:])
    ] * 2
    assert jobs[0].job.from_json(jobs[0].job.to_json()) == jobs[0].job


def test_choices_that_do_not_exist(facts_of: Maker) -> None:
    with pytest.raises(
        LocalProtocolError, match=r"there are no such collectives: .*'scatter=slaves'"
    ):
        facts_of(0, collectives=(ALTERNATIVES[0], "scatter=slaves"))


def test_a_reading_of_the_specification_may_be_that_of_a_silent_client(
    facts_of: Maker,
) -> None:
    facts = facts_of(0, collectives=ALTERNATIVES[:1])
    labels = zip(encode_facts(facts), encode_facts(facts_of(1)), strict=True)
    heard = broadcast(Label.C_VERSION, 0b11, encode_versions(ALL_VERSIONS) * 2)
    heard += b"".join(
        broadcast(label, 0b11, mine + theirs) for (label, mine), (_, theirs) in labels
    )
    machine = joined()
    machine.submit(facts)
    heard += broadcast(OwnLabel.C_COLLECTIVES, 0b01, bytes([0, 0, 0, 1])) + DONE
    [negotiated] = machine.receive_data(heard)
    assert isinstance(negotiated, Negotiated)
    assert negotiated.job.collectives == ALTERNATIVES[:1]


@pytest.mark.parametrize(
    ("mask", "data"),
    [
        (0b11, bytes(8)),
        (0b01, bytes(4)),
        (0b10, bytes(3)),
        (0b110, bytes(8)),
        (0, b""),
        (0b10, bytes(8)),
    ],
)
def test_choices_that_nobody_submitted(mask: int, data: bytes, facts_of: Maker) -> None:
    machine = joined()
    machine.submit(facts_of(0, verify=1))
    with pytest.raises((PeerError, StartupError)):
        machine.receive_data(broadcast(OwnLabel.C_VERIFY, mask, data))


@pytest.mark.clause("2.3.3")
def test_the_words_of_the_clause_for_a_wrong_key() -> None:
    machine = ClientMachine(1, KEY)
    first, second = str(machine.eof()).split("\n")
    assert first == "Server disconnected (wrong authentication key?)"
    assert "This client offered KEY" in second
    machine.receive_data(b"\0\0\0\1" + bytes(4))
    first, second = str(machine.eof()).split("\n")
    assert first == "Server disconnected (wrong authentication key?)"
    assert "client 1 may exist already" in second


def test_who_sends_no_key_in_clear_hears_how_to() -> None:
    said = str(
        ClientMachine(
            1, Credentials((Method.CHALLENGE,), 0, b"secret"), nonce=bytes(NONCE_SIZE)
        ).eof()
    )
    assert said.endswith(
        "To a server that knows IMPI_AUTH_KEY in clear only, -auth 1 sends it."
    )


def test_the_end_in_each_phase(facts_of: Maker) -> None:
    machine = ClientMachine(1, NONE)
    machine.receive_data(CHOSE_NONE)
    assert "client 1 exists already" in str(machine.eof())
    machine = joined()
    for _ in range(2):
        error = machine.eof()
        assert isinstance(error, StartupError)
        assert "another client was lost" in str(error)
        if machine.data_to_send() == b"":
            machine.submit(facts_of(0))


def test_the_end_while_the_job_runs(facts_of: Maker) -> None:
    machine = ClientMachine(0, NONE)
    rendezvous([machine], [facts_of(0)], NONE)
    error = machine.eof()
    assert isinstance(error, JobError)
    assert "the server was lost, or ended the job" in str(error)


def test_a_resilient_job_hears_of_losses(facts_of: Maker) -> None:
    machines = [ClientMachine(rank, NONE, RESILIENT_VERSIONS) for rank in range(2)]
    machines[0].lose((0,), "too early: this job does not run yet")
    jobs = rendezvous(
        machines, [replaced(facts_of(rank), resilient=True) for rank in range(2)], NONE
    )
    assert all(each.job.is_resilient for each in jobs)
    machines[0].lose((0,), "rank 0 of this client was ended")
    told = encode_loss(0, (0,), "rank 0 of this client was ended")
    assert machines[0].data_to_send() == told
    assert machines[1].receive_data(told) == [
        Lost(0, (0,), "rank 0 of this client was ended")
    ]


def test_a_resilient_client_needs_resilient_clients(facts_of: Maker) -> None:
    machines = [ClientMachine(0, NONE, RESILIENT_VERSIONS), ClientMachine(1, NONE)]
    with pytest.raises(
        StartupError,
        match="--resilient needs all clients of ours, each with --resilient",
    ):
        rendezvous(machines, [replaced(facts_of(0), resilient=True), facts_of(1)], NONE)


@pytest.mark.clause("2.3.7")
def test_calls_in_the_wrong_order(facts_of: Maker) -> None:
    machine = ClientMachine(0, NONE)
    with pytest.raises(LocalProtocolError):
        machine.submit(facts_of(0))
    with pytest.raises(LocalProtocolError):
        machine.finish()
    machine = joined()
    machine.submit(facts_of(0))
    with pytest.raises(LocalProtocolError):
        machine.submit(facts_of(0))


def test_too_many_processes_for_one_command() -> None:
    here = bytes(12) + b"\x0a\0\0\1"
    machine = joined()
    with pytest.raises(UsageError, match="P_IPV6"):
        machine.submit(
            ClientFacts(hosts=(HostFacts(here, 1, (ProcFacts(here, 1),) * 262144),))
        )


@given(st.binary(max_size=80))
def test_any_octets_are_understood_or_refused(data: bytes) -> None:
    machine = ClientMachine(0, BOTH)
    try:
        machine.receive_data(data)
    except (PeerError, StartupError):
        return
    assert machine.eof() is not None


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize(
    ("offer", "name"),
    [
        ({"verify": 1}, "IMPI_VERIFY"),
        ({"collectives": ALTERNATIVES[:1]}, "--collectives"),
    ],
)
def test_a_server_that_keeps_back_a_label_that_a_choice_needs(
    facts_of: Maker, offer: dict[str, object], name: str
) -> None:
    """Another implementation's server may drop labels that it does not know; ours never does."""
    with pytest.raises(StartupError, match=f"this server does not relay .*{name}"):
        _behind_a_server_that_drops(facts_of(0, **offer))


@pytest.mark.clause("2.3.5")
def test_a_server_that_keeps_back_what_nobody_needs(facts_of: Maker) -> None:
    assert _behind_a_server_that_drops(
        facts_of(0, software=bytes([3, 11, 1, 26]))
    ).job.software == ((),)


def _behind_a_server_that_drops(facts: ClientFacts) -> Negotiated:
    """The end of the start-up of one client, whose own labels come to nothing."""
    server, machine = ServerMachine(1, NONE), ClientMachine(0, NONE)
    server.connected(0, "peer")
    submitted = False
    while True:
        up = machine.data_to_send()
        server.receive_data(0, _without_own_labels(up) if submitted else up)
        for event in machine.receive_data(server.data_to_send(0)):
            if isinstance(event, Negotiated):
                return event
            machine.submit(facts)
            submitted = True


def _without_own_labels(octets: bytes) -> bytes:
    reader, kept = CommandReader(), b""
    reader.receive_data(octets)
    while (command := reader.next_command()) is not None:
        name, payload = command
        if not (
            name == Command.COLL and int.from_bytes(payload[:4], "big") in set(OwnLabel)
        ):
            kept += encode_command(Command(name), payload)
    return kept
