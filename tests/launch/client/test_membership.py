"""The way of one client into its job."""

from __future__ import annotations

import json
from typing import Any

import client_world as world
import pytest
from hosts_world import job_of_hosts

from impi.base.errors import JobError, PeerError, UsageError
from impi.base.records import replaced
from impi.launch.client.membership import Membership, ways
from impi.protocol.job import LAZY_VERSION, Host
from impi.protocol.options import ClientOptions, Offer
from impi.protocol.settings import made
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.client import Joined, Lost, Negotiated, Unused
from impi.protocol.wire import addresses
from impi.rank.engine.channels.mesh import unreachable

PROC = {
    "address": world.HERE.hex(),
    "port": 7,
    "pid": 11,
    "form": "00112233",
    "node": "a",
}


class Client:
    def __init__(self, **options: Any) -> None:
        self.control, self.server = world.Control(), world.Rendezvous()
        self.warned: list[str] = []
        server: Any = self.server
        control: Any = self.control
        chosen = made(ClientOptions, rank=0, server="", argv=(), **options)
        self.member = Membership(chosen, server, control, None, self.warned.append)

    def hear(self, *events: object) -> None:
        self.server.events = list(events)
        self.member.hear()


def test_phases() -> None:
    client = Client()
    phases = [client.member.phase]
    client.hear(Joined(1))
    phases.append(client.member.phase)
    client.hear(Negotiated(job=world.job_of(1, 1), trust=Trust()))
    phases.append(client.member.phase)
    assert phases[:2] == ["before the program had initialised MPI"] * 2
    assert phases[-1] == "while the job was running"


def test_the_facts_of_all_procs_go_to_the_server() -> None:
    client = Client(vendor="mpich")
    client.control.rank0 = {
        "tag_ub": 1000000,
        "procs": [PROC, {**PROC, "pid": 12}],
        "software": "00000001",
    }
    client.member.submit()
    assert client.member.submitted
    [facts] = client.server.said
    assert [host.port for host in facts.hosts] == [7, 7]  # type: ignore[attr-defined]
    assert facts.offer.tag_ub == 1000000  # type: ignore[attr-defined]
    assert (facts.representation, facts.software) == (  # type: ignore[attr-defined]
        bytes.fromhex("00112233"),
        bytes.fromhex("00000001"),
    )


def test_a_tag_that_the_vendor_does_not_have() -> None:
    client = Client(vendor="mpich", offer=Offer(tag_ub=100000))
    client.control.rank0 = {"tag_ub": 32767, "procs": [PROC]}
    with pytest.raises(
        UsageError, match="--tag-ub 100000 is more than the 32767 that mpich has"
    ):
        client.member.submit()


def test_facts_that_make_no_sense() -> None:
    client = Client()
    client.control.rank0 = {"tag_ub": 32767, "procs": [{}]}
    with pytest.raises(
        PeerError,
        match="the processes of this client have reported wrong data about themselves",
    ):
        client.member.submit()


def test_procs_get_the_job_once_start_up_is_complete() -> None:
    client = Client(explain=True)
    client.hear(Joined(1), Negotiated(job=world.job_of(1, 1), trust=Trust()))
    assert client.member.all_clients and client.member.job is not None
    [reply] = client.control.told
    assert {"job", "agents", "quirks", "submitted", "trust"} == reply.keys()


def test_who_listens_at_the_control_socket_gets_no_key_of_the_job() -> None:
    client = Client()
    trust = Trust(key=bytes(range(32)))
    client.hear(Joined(1), Negotiated(job=world.job_of(1, 1), trust=trust))
    [reply] = client.control.told
    assert trust.key.hex() not in json.dumps(reply)
    assert Trust.of(token=client.control.token, **reply["trust"]) == trust  # type: ignore[arg-type]


def test_ways_are_told_where_the_user_asks() -> None:
    client = Client(explain=True)
    client.hear(Joined(1), Negotiated(job=world.job_of(1, 1), trust=Trust()))
    assert client.member.survival is None
    assert client.warned, "who connects to whom"


def test_losses_are_heard_in_a_resilient_job() -> None:
    client = Client()
    client.hear(Negotiated(job=world.job_of(1, 1, resilient=True), trust=Trust()))
    client.server.losses = [Lost(client=1, ranks=(), reason="it was killed")]
    client.member.hear()
    assert client.warned == ["it was killed; the job goes on without"]
    client.server.why = JobError("the server has ended the job")
    with pytest.raises(JobError):
        client.member.hear()


def test_programs_without_mpi() -> None:
    client = Client()
    client.hear(Unused())
    assert client.member.unused


# ---- what --explain says of connections between clients (IMPI 2.3.8)

JOB = job_of_hosts(
    [
        Host(
            index=i,
            client=client,
            ipv6=addresses.from_text(f"192.0.2.{client + 1}"),
            port=4000 + i,
            procs=(i,),
        )
        for i, client in enumerate([0, 1, 1, 1, 1, 1, 1, 2])
    ]
)
MIDDLE = "192.0.2.2:4001, 192.0.2.2:4002, 192.0.2.2:4003, 192.0.2.2:4004 and 2 more"


@pytest.mark.clause("2.3.8")
def test_the_higher_client_connects_to_the_ports_of_the_lower_one() -> None:
    assert ways(JOB, 1) == [
        "clients 1 and 0: client 1 connects to 192.0.2.1:4000",
        f"clients 1 and 2: client 2 connects to {MIDDLE}",
    ]


def test_in_a_lazy_job_either_may() -> None:
    assert ways(replaced(JOB, version=LAZY_VERSION), 0)[1] == (
        "clients 0 and 2: at the first message, either connects: to 192.0.2.3:4007, or to 192.0.2.1:4000"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            TimeoutError("timed out"),
            "no answer: a firewall drops the connection, or there is no route",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_a_host_that_cannot_be_reached_is_told_with_the_cure(
    error: OSError, reason: str
) -> None:
    said = str(unreachable(JOB, 7, 0, error))
    assert said.startswith(
        f"host 7 cannot connect to host 0 (client 0) at 192.0.2.1:4000: {reason}"
    )
