"""The addresses of a host without a proof, and how clients learn them (IMPI 2.3.8)."""

from __future__ import annotations

import pytest
from hosts_world import job_of_hosts

from impi.base.errors import PeerError
from impi.protocol.job import Host
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    LAZY_VERSIONS,
    RESILIENT_VERSIONS,
    STRICT_VERSIONS,
)
from impi.protocol.startup.facts import encode_versions
from impi.protocol.startup.origins import (
    decode_came,
    encode_came,
    expected_addresses,
    offers_ours,
)
from impi.protocol.wire import CommandReader, OwnCommand, addresses

WHERE = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.2"]


def hosts(clients: list[int]) -> list[Host]:
    return [
        Host(
            index=i, client=client, ipv6=addresses.from_text(WHERE[i]), port=7, procs=()
        )
        for i, client in enumerate(clients)
    ]


@pytest.mark.parametrize(
    ("versions", "ours"),
    [(STRICT_VERSIONS, False), (ALL_VERSIONS, True), (RESILIENT_VERSIONS, True)],
)
def test_a_client_of_ours_is_known_by_its_versions(versions, ours) -> None:
    assert offers_ours(encode_versions(versions)) is ours


def test_no_versions_or_half_a_version_are_not_ours() -> None:
    assert not offers_ours(b"")
    assert not offers_ours(encode_versions(LAZY_VERSIONS)[4:8])


def test_addresses_travel_but_those_of_one_machine_alone() -> None:
    reader = CommandReader()
    reader.receive_data(
        encode_came(
            [
                "192.0.2.7",
                "127.0.0.1",
                "2001:db8::1",
                "::1",
                "",
                "127.9.9.9",
                "fe80::1%eth0",
            ]
        )
    )
    command = reader.next_command()
    assert command is not None
    assert command[0] == OwnCommand.CAME
    assert decode_came(command[1], 7) == (
        "192.0.2.7",
        "",
        "2001:db8::1",
        "",
        "",
        "",
        "",
    )


@pytest.mark.parametrize("size", [0, 15, 16, 31, 48])
def test_not_one_address_for_each_client_is_the_servers_fault(size: int) -> None:
    with pytest.raises(PeerError, match="the server"):
        decode_came(bytes(size), 2)


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize(
    ("host", "came", "expected"),
    [
        (0, (), ["192.0.2.1"]),
        (0, ("198.51.100.1", "198.51.100.2"), ["192.0.2.1", "198.51.100.1"]),
        (0, ("192.0.2.1", ""), ["192.0.2.1"]),
        (2, ("", ""), ["192.0.2.3", "192.0.2.2"]),
        (3, ("", "198.51.100.2"), ["192.0.2.2", "192.0.2.3", "198.51.100.2"]),
    ],
)
def test_own_address_first_then_those_of_the_client(host, came, expected) -> None:
    assert expected_addresses(job_of_hosts(hosts([0, 1, 1, 1])), host, came) == expected
