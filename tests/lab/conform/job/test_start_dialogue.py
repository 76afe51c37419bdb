"""Start-up as a client meets it: each phase, and what is wrong in it."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from tester_world import FakeWire, FakeWiring

from impi.lab.conform.job.configuration import LABELS, Configuration
from impi.lab.conform.job.encoding import command, ipv6, uint4, uint8
from impi.lab.conform.job.start_dialogue import KEY, Dialogue, pid_of
from impi.lab.conform.outcomes import Broken

SAID = {
    "VERSION": uint4(0, 0), "NHOSTS": uint4(1), "NPROCS": uint4(2), "DATALEN": uint4(99), "TAGUB": uint4(1000),
    "XSIZE": uint4(-1), "MAXLINEAR": uint4(7), "H_IPV6": ipv6("10.0.0.1"), "H_PORT": uint4(5000), "H_NPROCS": uint4(2),
    "ACKMARK": uint4(3), "HIWATER": uint4(6), "P_IPV6": ipv6("10.0.0.1") * 2, "P_PID": uint8(7, 8),
}  # fmt: skip


def labels(**changed: bytes) -> list[bytes]:
    said = {**SAID, **changed}
    return [
        command("COLL", uint4(LABELS[name]) + value) for name, value in said.items()
    ]


def start(*said: bytes, **setup: Any) -> Any:
    """The dialogue with a client 0 that says all this, beside a simulated client of two hosts."""
    pieces, wire = deque(said), FakeWire()

    def turn() -> bool:
        if pieces:
            wire.incoming += pieces.popleft()
            return True
        return False

    configuration = Configuration(clients=("IUT", "1,1"), **setup)
    addresses = [("127.0.0.2", 6001), ("127.0.0.3", 6002)]
    found = Dialogue(
        FakeWiring(turn), configuration, addresses, patience_s=0.1, start_s=0.1
    )
    found.accepted(wire)
    return found


def test_a_whole_start_up_and_the_job_that_follows() -> None:
    it = start(
        command("AUTH", uint4(1)), command("IMPI", uint4(0)), *labels(), command("DONE")
    )
    it.authenticate()
    it.join()
    it.agree()
    layout = it.layout()
    assert [(host.client, host.port, host.nprocs) for host in layout.hosts] == [
        (0, 5000, 2),
        (1, 6001, 1),
        (1, 6002, 1),
    ]
    assert [(p.rank, p.client, p.host, p.pid) for p in layout.procs] == [
        (0, 0, 0, 7), (1, 0, 0, 8), (2, 1, 1, pid_of(1, 0)), (3, 1, 2, pid_of(1, 1)),
    ]  # fmt: skip
    assert (it.value("XSIZE"), it.value("MAXLINEAR")) == (1024, 7), (
        "-1 stands for the default"
    )
    assert (it.limit("DATALEN"), it.limit("ACKMARK"), it.limit("TAGUB")) == (
        99,
        3,
        1000,
    ), "the least of all"
    sent = bytes(it.wire.sent)
    assert sent.startswith(uint4(0, 0) + command("IMPI", uint4(2)))
    assert sent.endswith(command("DONE"))
    assert sent.count(b"COLL") == 14


def test_unknown_commands_are_skipped_but_not_for_ever() -> None:
    other = command(0x58595A31, b"abc")
    start(other, other, command("AUTH", uint4(1))).authenticate()
    with pytest.raises(Broken, match="does not come to its end") as raised:
        start(other * 501).authenticate()
    assert raised.value.clause == "2.3.2"


@pytest.mark.parametrize(
    ("said", "setup", "told"),
    [
        (command("AUTH", b"abc"), {}, "not a list of words"),
        (command("AUTH", uint4(2)), {}, "method 0 is not offered"),
        (
            command("AUTH", uint4(2)) + uint8(KEY + 1),
            {"auth": "key"},
            "not that of IMPI_AUTH_KEY",
        ),
        (command("IMPI", uint4(0)), {}, "IMPI comes where AUTH is next"),
        (b"AUTH" + uint4(-1), {}, "a command of -1 octets"),
        (b"AUT", {}, "where AUTH should come"),
    ],
)
def test_what_is_wrong_in_authentication(said: bytes, setup: dict, told: str) -> None:
    with pytest.raises(Broken, match=told):
        start(said, **setup).authenticate()


def test_a_client_that_says_another_number() -> None:
    with pytest.raises(Broken, match="the number that it was given") as raised:
        start(command("IMPI", uint4(1))).join()
    assert raised.value.clause == "2.3.4"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (labels()[::-1], "labels do not ascend"),
        ([*labels()[1:], command("DONE")], "VERSION are missing"),
    ],
)
def test_what_is_wrong_with_labels(said: list[bytes], told: str) -> None:
    with pytest.raises(Broken, match=told):
        start(*said).agree()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("NHOSTS", uint4(2), "H_PORT: 1"),
        ("NPROCS", uint4(3), "the sum of H_NPROCS: 2"),
        ("P_PID", uint8(7), "octets of P_PID: 8"),
        ("H_NPROCS", uint4(3), "the sum of H_NPROCS: 3"),
    ],
)
def test_numbers_that_contradict_each_other(name: str, value: bytes, told: str) -> None:
    it = start(*labels(**{name: value}), command("DONE"))
    it.agree()
    with pytest.raises(Broken, match=told):
        it.layout()


def test_variations_change_what_others_say() -> None:
    for variation, has in (
        ("unknown labels", uint4(0x1050)),
        ("newer versions", uint4(0, 0, 0, 0, 0, 7, 2, 1)),
        ("IPv4-mapped addresses", bytes(10) + b"\xff\xff\x7f\0\0\2"),
        ("explicit defaults", uint4(-1, 1024)),
        ("equal pids", uint8(7, 8, pid_of(0, 0), pid_of(0, 0))),
    ):
        plain, varied = (
            start(*labels(), command("DONE")),
            start(*labels(), command("DONE"), variation=variation),
        )
        plain.agree()
        varied.agree()
        assert has in varied.wire.sent, variation
        assert has not in plain.wire.sent, variation


@pytest.mark.parametrize(
    "refusal", ["no common method", "garbage", "wrong key", "server lost"]
)
def test_where_no_job_can_follow_the_server_stops(refusal: str) -> None:
    auth = "key" if refusal == "wrong key" else "none"
    it = start(
        command("AUTH", uint4(3)),
        uint8(5) if auth == "key" else b"",
        command("IMPI", uint4(0)),
        refusal=refusal,
        auth=auth,
    )
    it.refuse()
    assert it.wire.closed is (refusal != "garbage")
    assert (len(it.wire.sent) > 100) is (refusal == "garbage")


def test_the_client_is_the_first_that_says_a_word() -> None:
    """A stranger that comes before it, and says little or goes, takes no host's place."""
    it = start()
    gone, little, client, silent = FakeWire(), FakeWire(), FakeWire(), FakeWire()
    gone.ended = True
    little.incoming += b"IMP"
    for wire in (gone, little, client, silent):
        it.accepted(wire)
    client.incoming += command("AUTH", uint4(1))
    it.authenticate()
    assert it.wire is client
    assert silent.closed
    assert little.closed
    it.accepted(late := FakeWire())
    assert late.closed
