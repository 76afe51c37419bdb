"""What --explain says of connections between clients (IMPI 2.3.8)."""

from __future__ import annotations

import pytest
from hosts_world import job_of_hosts

from impi.engine.mesh import unreachable
from impi.job import LAZY_VERSION, Host
from impi.launch.ways import ways
from impi.records import replaced
from impi.wire import addresses

JOB = job_of_hosts(
    [
        Host(index=i, client=client, ipv6=addresses.from_text(f"192.0.2.{client + 1}"), port=4000 + i, procs=(i,))
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
        (TimeoutError("timed out"), "no answer: a firewall drops the connection, or there is no route"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_a_host_that_cannot_be_reached_is_told_with_the_cure(error: OSError, reason: str) -> None:
    said = str(unreachable(JOB, 7, 0, error))
    assert said.startswith(f"host 7 cannot connect to host 0 (client 0) at 192.0.2.1:4000: {reason}")
