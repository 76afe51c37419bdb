"""From contributions to the job, and every way in which they make none (IMPI 2.3.5)."""

import struct
from collections.abc import Callable

import pytest

from impi.base.errors import LocalProtocolError, StartupError, UsageError
from impi.protocol.job import LONG8_VERSION
from impi.protocol.startup.agree import agree_on_job, agree_on_version
from impi.protocol.startup.facts import (
    ClientFacts,
    HostFacts,
    ProcFacts,
    encode_facts,
    encode_versions,
)
from impi.protocol.wire import Label, addresses

Maker = Callable[..., ClientFacts]


def collate(
    *clients: ClientFacts, versions: tuple[tuple[int, int], ...] = ((0, 0),)
) -> dict[int, bytes]:
    values: dict[int, bytes] = {
        Label.C_VERSION: encode_versions(versions) * len(clients)
    }
    for facts in clients:
        for label, data in encode_facts(facts):
            values[label] = values.get(label, b"") + data
    return values


def uint4(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def int4(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def test_labels_ascend_and_are_all_there(facts_of: Maker) -> None:
    labels = [label for label, _ in encode_facts(facts_of(0, (2, 1)))]
    assert [Label.C_VERSION, *labels] == sorted(Label)


@pytest.mark.clause("2.3.5")
def test_the_example_of_2_3_4(facts_of: Maker) -> None:
    """Three clients of 3, 2, 2 hosts with 2, 3, 4 processes each."""
    clients = [facts_of(0, (2, 2, 2)), facts_of(1, (3, 3)), facts_of(2, (4, 4))]
    job = agree_on_job(3, collate(*clients))
    assert [h.client for h in job.hosts] == [0, 0, 0, 1, 1, 2, 2]
    assert [h.procs for h in job.hosts] == [
        (0, 1), (2, 3), (4, 5), (6, 7, 8), (9, 10, 11), (12, 13, 14, 15), (16, 17, 18, 19)
    ]  # fmt: skip
    assert [p.rank for p in job.procs] == list(range(20))
    assert job.client_procs(1) == (6, 7, 8, 9, 10, 11)
    assert job.procs[9].host == 4
    assert addresses.to_text(job.procs[9].ipv6) == "10.0.1.1"
    assert job.procs[9].pid == 100
    assert job.hosts[4].port == 5001
    assert job.from_json(job.to_json()) == job


@pytest.mark.clause("2.3.5")
def test_minima_and_defaults(facts_of: Maker) -> None:
    a = facts_of(0, (1, 1), datalen=8000, tag_ub=40000, ackmark=9, hiwater=10)
    b = facts_of(
        1,
        (1,),
        datalen=4000,
        tag_ub=2**31 - 1,
        ackmark=2,
        hiwater=50,
        xsize=1024,
        maxlinear=4,
    )
    job = agree_on_job(2, collate(a, b))
    assert (job.maxdatalen, job.tag_ub, job.ackmark, job.hiwater) == (
        4000,
        40000,
        2,
        10,
    )
    assert (job.xsize, job.maxlinear) == (1024, 4)


@pytest.mark.clause("3.9")
def test_the_lowest_values_that_are_allowed(facts_of: Maker) -> None:
    lowest = {"datalen": 1, "tag_ub": 32767, "ackmark": 1, "hiwater": 1}
    job = agree_on_job(2, collate(facts_of(0, **lowest), facts_of(1)))
    assert (job.maxdatalen, job.tag_ub, job.ackmark, job.hiwater) == (1, 32767, 1, 1)


def test_chosen_values(facts_of: Maker) -> None:
    job = agree_on_job(
        2, collate(*(facts_of(c, xsize=0, maxlinear=2**31 - 1) for c in (0, 1)))
    )
    assert (job.xsize, job.maxlinear) == (0, 2**31 - 1)


def test_a_host_without_processes_is_only_a_host(facts_of: Maker) -> None:
    job = agree_on_job(1, collate(facts_of(0, (0, 2))))
    assert [h.procs for h in job.hosts] == [(), (0, 1)]


def test_ipv6(facts_of: Maker) -> None:
    here = addresses.from_text("fd00::5")
    job = agree_on_job(
        1,
        collate(ClientFacts(hosts=(HostFacts(here, 1, (ProcFacts(here, -(2**63)),)),))),
    )
    assert job.hosts[0].ipv6 == here
    assert job.procs[0].pid == -(2**63)


BROKEN = [
    ({Label.C_NHOSTS: uint4(0, 1)}, "client 0: C_NHOSTS is 0"),
    (
        {Label.C_NHOSTS: uint4(2**32 - 1, 2**32 - 1)},
        "H_IPV6 has 48 octets, but 8589934590 hosts",
    ),
    ({Label.C_NHOSTS: uint4(2, 2)}, "H_IPV6 has 48 octets, but 4 hosts make 64"),
    ({Label.C_NHOSTS: uint4(2)}, "C_NHOSTS has 4 octets, but 2 clients make 8"),
    ({Label.C_NPROCS: uint4(3, 0)}, "client 1: C_NPROCS is 0"),
    (
        {Label.C_NPROCS: uint4(4, 1)},
        "client 0: C_NPROCS says 4 processes, but its hosts .* have 3",
    ),
    (
        {Label.C_NPROCS: uint4(2**32 - 1, 1), Label.H_NPROCS: uint4(2**32 - 2, 1, 1)},
        "P_PID has 32 octets",
    ),
    ({Label.C_DATALEN: uint4(1, 0)}, "client 1: C_DATALEN is 0"),
    (
        {Label.C_TAGUB: int4(32766, 40000)},
        "client 0: C_TAGUB is 32766, but must be 32767 to 2147483647",
    ),
    ({Label.C_TAGUB: int4(40000, -1)}, "client 1: C_TAGUB is -1"),
    (
        {Label.C_COLL_XSIZE: int4(-1, 1023)},
        "client 0 has C_COLL_XSIZE 1024 and client 1 has 1023",
    ),
    ({Label.C_COLL_XSIZE: int4(-1, -2)}, "client 1: C_COLL_XSIZE is -2"),
    (
        {Label.C_COLL_MAXLINEAR: int4(5, -1)},
        "client 0 has C_COLL_MAXLINEAR 5 and client 1 has 4",
    ),
    ({Label.H_IPV6: bytes(47)}, "H_IPV6 has 47"),
    ({Label.H_IPV6: bytes(32) + b"\1" * 16}, "client 0: a host advertises no address"),
    ({Label.H_PORT: uint4(1, 2)}, "H_PORT has 8 octets, but 3 hosts make 12"),
    ({Label.H_PORT: uint4(1, 2, 65536)}, "client 1: H_PORT is 65536"),
    ({Label.H_PORT: uint4(1, 0, 3)}, "client 0: H_PORT is 0"),
    ({Label.H_NPROCS: uint4(1, 2)}, "H_NPROCS has 8 octets"),
    ({Label.H_NPROCS: uint4(1, 2, 2)}, "client 1: C_NPROCS says 1 .* have 2"),
    ({Label.H_ACKMARK: uint4(1, 0, 1)}, "client 0: H_ACKMARK is 0"),
    (
        {Label.H_ACKMARK: uint4(1, 1, 65)},
        "client 1: ackmark 65 is greater than hiwater 64",
    ),
    ({Label.H_HIWATER: uint4(1, 1, 1, 1)}, "H_HIWATER has 16"),
    ({Label.P_IPV6: bytes(16)}, "P_IPV6 has 16 octets, but 4 procs make 64"),
    ({Label.P_PID: bytes(24)}, "P_PID has 24 octets, but 4 procs make 32"),
    ({Label.C_VERSION: bytes(4)}, "C_VERSION"),
]


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize(("values", "message"), BROKEN)
def test_what_makes_no_job(
    facts_of: Maker, values: dict[int, bytes], message: str
) -> None:
    """Client 0 has hosts of 1 and 2 processes, client 1 one of 1; then some labels are replaced."""
    good = collate(facts_of(0, (1, 2)), facts_of(1, (1,)))
    assert agree_on_job(2, good)
    with pytest.raises(StartupError, match=message):
        agree_on_job(2, good | values)


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize("label", list(Label))
def test_every_label_is_mandatory(facts_of: Maker, label: Label) -> None:
    values = collate(facts_of(0))
    del values[label]
    with pytest.raises(StartupError, match=f"mandatory {label.name}"):
        agree_on_job(1, values)


@pytest.mark.clause("3.2")
def test_equal_names_of_processes_tell_both_clients(facts_of: Maker) -> None:
    values = collate(facts_of(0, (2,)), facts_of(1, (2,)))
    values[Label.P_IPV6] = addresses.from_text("192.168.0.1") * 4
    values[Label.P_PID] = struct.pack(">4q", 7, 8, 9, 8)
    with pytest.raises(StartupError) as caught:
        agree_on_job(2, values)
    assert "rank 1 of client 0 and rank 3 of client 1" in str(caught.value)
    assert "192.168.0.1 and process id 8" in str(caught.value)


def versions(*pairs: tuple[int, int]) -> bytes:
    return encode_versions(pairs)


def test_the_versions_of_the_clauses_example() -> None:
    data = versions((0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (0, 2))
    assert agree_on_version(data, 3) == (0, 1)


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize(
    ("data", "nclients", "version"),
    [
        (versions((0, 0)), 1, (0, 0)),
        (versions((0, 0), LONG8_VERSION) * 2, 2, LONG8_VERSION),
        (versions((0, 0), LONG8_VERSION, (0, 0)), 2, (0, 0)),
        (versions((0, 0), (1, 0), LONG8_VERSION, (0, 0), (1, 0)), 2, (1, 0)),
        (versions((0, 0), (0, 2), (1, 0), (0, 0), (0, 1), (1, 1)), 2, (0, 0)),
    ],
)
def test_highest_common_version(
    data: bytes, nclients: int, version: tuple[int, int]
) -> None:
    assert agree_on_version(data, nclients) == version


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize(
    ("data", "nclients", "message"),
    [
        (b"", 1, "0 of 1"),
        (versions((0, 1), (0, 0)), 1, "client 0: does not offer version 0.0 first"),
        (versions((0, 0), (0, 1), (1, 0)), 2, "1 of 2 clients"),
        (versions((0, 0), (0, 0)), 1, "2 of 1 clients"),
        (
            versions((0, 0), (0, 0), (1, 0), (0, 1)),
            2,
            "client 1: offers versions that do not ascend",
        ),
        (versions((0, 0), (0, 1), (0, 1)), 1, "do not ascend"),
        (versions((0, 0)) + b"\0", 1, "8 octets"),
    ],
)
def test_broken_versions(data: bytes, nclients: int, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        agree_on_version(data, nclients)


@pytest.mark.clause("3.9")
@pytest.mark.parametrize(
    "values",
    [
        {"datalen": 0},
        {"datalen": 2**32},
        {"tag_ub": 32766},
        {"tag_ub": 2**31},
        {"xsize": -2},
        {"maxlinear": -2},
        {"ackmark": 0},
        {"ackmark": 65},
        {"hiwater": 0},
        {"verify": 5},
        {"verify": -1},
    ],
)
def test_values_that_a_user_may_not_choose(
    facts_of: Maker, values: dict[str, int]
) -> None:
    with pytest.raises(UsageError, match=str(next(iter(values.values())))):
        facts_of(0, **values)


HERE = addresses.from_text("10.0.0.1")


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        (HostFacts(HERE, 1, ()),),
        (HostFacts(HERE, 0, (ProcFacts(HERE, 1),)),),
        (HostFacts(HERE, 65536, (ProcFacts(HERE, 1),)),),
        (HostFacts(b"", 1, (ProcFacts(HERE, 1),)),),
        (HostFacts(HERE, 1, (ProcFacts(bytes(4), 1),)),),
    ],
)
def test_hosts_of_no_job(hosts: tuple[HostFacts, ...]) -> None:
    with pytest.raises(LocalProtocolError):
        ClientFacts(hosts=hosts)
