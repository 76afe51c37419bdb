"""Our server and clients in start-ups written from the clauses, octet for octet."""

import struct

import handwritten
import pytest
from handwritten import Section

from impi.base.errors import StartupError
from impi.protocol.options import Offer
from impi.protocol.startup.agree import agree_on_version
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    STRICT_VERSIONS,
    ClientMachine,
    Joined,
    Negotiated,
)
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.startup.server import JobOver, ServerEvent, ServerMachine
from impi.protocol.wire import addresses

BOTH = Credentials((Method.KEY, Method.NONE), 5678)
PLAIN = Credentials((Method.NONE,))
IPV4 = addresses.from_text
MAPPED = bytes(10) + b"\xff\xff" + IPV4("10.0.0.2")[12:]


def sizes(sections: list[Section]) -> int:
    return 1 + max(
        int(section.argument) for section in sections if section.word == "client"
    )


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize("name", handwritten.cases("client"))
def test_our_server(name: str, chunk: int) -> None:
    sections = handwritten.read(name).sections
    nclients = sizes(sections)
    machine = ServerMachine(nclients, BOTH)
    for conn in range(nclients):
        machine.connected(conn, f"peer{conn}")
    said = dict.fromkeys(range(nclients), b"")
    events: list[ServerEvent] = []
    for section in sections:
        if section.word == "client":
            for at in range(0, len(section.octets), chunk):
                events += machine.receive_data(
                    int(section.argument), section.octets[at : at + chunk]
                )
            said = {conn: said[conn] + machine.data_to_send(conn) for conn in said}
            continue
        assert section.word == "to"
        for conn in said if section.argument == "all" else [int(section.argument)]:
            assert said[conn][: len(section.octets)].hex(" ", 4) == section.octets.hex(
                " ", 4
            )
            said[conn] = said[conn][len(section.octets) :]
    assert not any(said.values())
    ends = any(section.octets.startswith(b"FINI") for section in sections)
    assert isinstance(events[-1], JobOver) is ends


def play(
    name: str, client: int, machine: ClientMachine, facts: ClientFacts
) -> Negotiated | None:
    """``machine`` hears what client ``client`` heard; it must say what that client said."""
    heard = [
        s
        for s in handwritten.read(name).sections
        if s.word == "to" and s.argument in ("all", str(client))
    ]
    job: Negotiated | None = None
    said = machine.data_to_send()
    for section in heard:
        for event in machine.receive_data(section.octets):
            if isinstance(event, Joined):
                said += machine.data_to_send()
                machine.submit(facts)
            elif isinstance(event, Negotiated):
                job = event
        said += machine.data_to_send()
    if job is not None:
        machine.finish()
        said += machine.data_to_send()
    parts = [
        s.octets
        for s in handwritten.read(name).sections
        if (s.word, s.argument) == ("client", str(client))
    ]
    assert said.hex(" ", 4) == b"".join(parts).hex(" ", 4)
    return job


def facts_of_three(client: int) -> ClientFacts:
    shares = [(2, 2, 2), (3, 3), (4, 4)][client]
    hosts = []
    for host, nprocs in enumerate(shares):
        here = IPV4(f"10.0.{client}.{host + 1}")
        procs = tuple(ProcFacts(here, 100 + 10 * host + i) for i in range(nprocs))
        hosts.append(HostFacts(here, 5001 + 1000 * client + host, procs))
    return ClientFacts(
        hosts=tuple(hosts),
        offer=Offer(
            datalen=(8000, 4000, 4000)[client],
            tag_ub=(2147483647, 40000, 32767)[client],
            xsize=(-1, 1024, -1)[client],
            maxlinear=(-1, 4, -1)[client],
            ackmark=(10, 7, 9)[client],
            hiwater=(20, 50, 9)[client],
        ),
    )


@pytest.mark.clause("2.3.4")
@pytest.mark.clause("2.3.5")
@pytest.mark.clause("3.2")
@pytest.mark.parametrize("client", [0, 1, 2])
def test_our_clients_in_a_job_of_three(client: int) -> None:
    credentials = BOTH if client == 1 else PLAIN
    machine = ClientMachine(client, credentials, STRICT_VERSIONS)
    made = play("three_clients", client, machine, facts_of_three(client))
    assert made is not None
    job = made.job
    assert (job.maxdatalen, job.tag_ub, job.xsize, job.maxlinear) == (
        4000,
        32767,
        1024,
        4,
    )
    assert (job.ackmark, job.hiwater) == (7, 9)
    assert [len(host.procs) for host in job.hosts] == [2, 2, 2, 3, 3, 4, 4]
    assert [host.port for host in job.hosts] == [
        5001,
        5002,
        5003,
        6001,
        6002,
        7001,
        7002,
    ]
    assert [addresses.to_text(host.ipv6) for host in job.hosts][2:5] == [
        "10.0.0.3",
        "10.0.1.1",
        "10.0.1.2",
    ]
    assert job.client_procs(1) == (6, 7, 8, 9, 10, 11)
    assert [(job.procs[rank].host, job.procs[rank].pid) for rank in (5, 6, 19)] == [
        (2, 121),
        (3, 100),
        (6, 113),
    ]


@pytest.mark.clause("2.3.2")
@pytest.mark.clause("2.3.5")
def test_our_client_beside_a_newer_one() -> None:
    """It ignores unknown labels and commands, and comes to 0.0 and IPv6 addresses."""
    here = addresses.from_text("fd00::a")
    facts = ClientFacts(
        hosts=(HostFacts(here, 5001, (ProcFacts(here, 100),)),),
        offer=Offer(datalen=8000, ackmark=8, hiwater=32),
    )
    made = play("newer_client", 0, ClientMachine(0, PLAIN, STRICT_VERSIONS), facts)
    assert made is not None
    job = made.job
    assert (job.version, job.maxdatalen) == ((0, 0), 4000)
    assert [host.ipv6 for host in job.hosts] == [here, MAPPED]
    assert [addresses.to_text(host.ipv6) for host in job.hosts] == [
        "fd00::a",
        "10.0.0.2",
    ]
    assert job.procs[1].pid == -(2**63)


@pytest.mark.clause("2.3.5")
def test_our_version_falls_back_beside_a_newer_client() -> None:
    assert agree_on_version(
        struct.pack(">10I", 0, 0, *ALL_VERSIONS[1], 0, 0, 0, 1, 2, 0), 2
    ) == (0, 0)


@pytest.mark.clause("2.3.5")
def test_our_client_where_another_skips_a_mandatory_label() -> None:
    here = IPV4("10.0.0.1")
    facts = ClientFacts(
        hosts=(HostFacts(here, 1, (ProcFacts(here, 1),)),), offer=Offer(datalen=8000)
    )
    with pytest.raises(
        StartupError, match="client 1: did not contribute the mandatory C_DATALEN"
    ):
        play("skipped_label", 0, ClientMachine(0, PLAIN, STRICT_VERSIONS), facts)


@pytest.mark.clause("2.3.5")
def test_the_example_of_the_clause_for_versions() -> None:
    (section,) = handwritten.read("versions_example").sections
    command, length, label, mask = struct.unpack_from(">4sIII", section.octets)
    assert (command, length, label, mask) == (b"COLL", 72, 0x1000, 7)
    assert agree_on_version(section.octets[16:], 3) == (0, 1)


def test_all_conversations_are_there() -> None:
    assert handwritten.names("client") == [
        "newer_client",
        "skipped_label",
        "three_clients",
        "wide_auth_mask",
    ]
