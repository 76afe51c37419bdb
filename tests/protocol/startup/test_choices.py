"""The table of decisions on its way to all clients: our own label, our own version."""

from collections.abc import Callable

import pytest
from labels_heard import CHAIN, NONE, Heard, Versions, broadcast, hears

from impi.base.errors import PeerError, StartupError
from impi.protocol.decisions import BY_SPECIFICATION, USUAL, Decisions, Rule
from impi.protocol.job import LONG8_VERSION, REPRODUCIBLE, STRICT_VERSION, TUNED_VERSION
from impi.protocol.startup.choices import encode_decisions
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    STRICT_VERSIONS,
    ClientMachine,
    Negotiated,
)
from impi.protocol.startup.facts import ClientFacts, encode_facts, encode_versions
from impi.protocol.wire import Command, Label, OwnLabel, encode_command

FLAT = Decisions.of({"bcast": (Rule("flat"),)})

Maker = Callable[..., ClientFacts]


@pytest.mark.parametrize("givers", [(0,), (2,), (0, 1), (0, 1, 2)])
def test_all_clients_have_the_table_of_those_that_were_given_it(
    facts_of: Maker, givers: tuple[int, ...]
) -> None:
    facts = [facts_of(c, decisions=CHAIN if c in givers else None) for c in range(3)]
    heard = Heard(facts, [ALL_VERSIONS] * 3)
    assert [job.decisions for job in heard.jobs.values()] == [CHAIN] * 3
    job = heard.jobs[0]
    assert job.version == TUNED_VERSION
    assert job.from_json(job.to_json()) == job


def test_no_table_no_label(facts_of: Maker) -> None:
    heard = Heard([facts_of(c) for c in range(3)], [ALL_VERSIONS] * 3)
    assert [job.decisions for job in heard.jobs.values()] == [USUAL] * 3
    assert all(set(labels) == set(Label) for labels in heard.labels + heard.submitted)


def test_one_client_can_ask_for_chapter_4(facts_of: Maker) -> None:
    tables = [{}, {"decisions": BY_SPECIFICATION}, {}]
    heard = Heard([facts_of(c, **tables[c]) for c in range(3)], [ALL_VERSIONS] * 3)
    assert [job.decisions for job in heard.jobs.values()] == [BY_SPECIFICATION] * 3
    assert BY_SPECIFICATION.choose("barrier", 2, 0) is None


@pytest.mark.parametrize(
    "older", [STRICT_VERSIONS, (STRICT_VERSION, LONG8_VERSION), ((0, 0), (0, 1))]
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_older_client_and_nobody_sees_any_of_it(
    facts_of: Maker, older: Versions, which: int
) -> None:
    versions: list[Versions] = [ALL_VERSIONS] * 3
    versions[which] = older
    heard = Heard([facts_of(c, decisions=CHAIN) for c in range(3)], versions)
    assert [job.decisions for job in heard.jobs.values()] == [None] * 3
    assert all(set(labels) == set(Label) for labels in heard.labels + heard.submitted)


@pytest.mark.clause("2.3.5")
def test_a_strict_client_ignores_that_label_of_others(facts_of: Maker) -> None:
    machine = ClientMachine(0, NONE, STRICT_VERSIONS)
    machine.receive_data(
        bytes(8) + encode_command(Command.IMPI, (2).to_bytes(4, "big"))
    )
    machine.submit(facts_of(0))
    labels = zip(encode_facts(facts_of(0)), encode_facts(facts_of(1)), strict=True)
    heard = broadcast(Label.C_VERSION, 0b11, encode_versions(STRICT_VERSIONS) * 2)
    heard += b"".join(
        broadcast(label, 0b11, mine + theirs) for (label, mine), (_, theirs) in labels
    )
    heard += broadcast(OwnLabel.C_TUNING, 0b10, b"rubbish") + encode_command(
        Command.DONE
    )
    [event] = machine.receive_data(heard)
    assert isinstance(event, Negotiated)
    assert event.job.decisions is None


def test_tables_that_differ_end_start_up(facts_of: Maker) -> None:
    facts = [facts_of(0), facts_of(1, decisions=CHAIN), facts_of(2, decisions=FLAT)]
    with pytest.raises(
        StartupError,
        match=r"clients 1 and 2 have different tables of --tuning .*: give the same to",
    ):
        Heard(facts, [ALL_VERSIONS] * 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "client 1: C_TUNING is cut short"),
        (b"\0\0\0", "client 1: C_TUNING is cut short"),
        (bytes(4), "client 1: C_TUNING is cut short"),
        (b"\0\0\0\5abcd", "client 1: C_TUNING is cut short"),
        (b"\0\0\0\4abcd", "client 1: C_TUNING is not a table: no JSON"),
        (b"\0\0\0\2{}", 'client 1: C_TUNING is not a table: its "format" is null'),
        (
            encode_decisions(FLAT) + b"\0",
            "C_TUNING has more than the tables of 1 clients",
        ),
        (b"\0\0\0\4\xff\xfe\xfd\xfc", "client 1: C_TUNING is not a table: no JSON"),
    ],
)
def test_data_that_is_no_table(facts_of: Maker, data: bytes, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        hears(facts_of(0), broadcast(OwnLabel.C_TUNING, 0b10, data))


@pytest.mark.parametrize("mask", [0, 0b01, 0b11, 0b110])
def test_a_table_of_clients_that_have_submitted_none(
    facts_of: Maker, mask: int
) -> None:
    with pytest.raises(
        PeerError,
        match="broadcast C_TUNING, but not what the clients of this job submitted",
    ):
        hears(facts_of(0), broadcast(OwnLabel.C_TUNING, mask, encode_decisions(FLAT)))


def test_reproducible_reductions_need_clients_of_ours(facts_of: Maker) -> None:
    """They would be lost without a word otherwise; and nobody has heard of them when it ends."""
    facts = [facts_of(c, collectives=(REPRODUCIBLE,)) for c in range(2)]
    assert Heard(facts, [ALL_VERSIONS] * 2).jobs[1].collectives == (REPRODUCIBLE,)
    with pytest.raises(
        StartupError,
        match=r"--collectives reduce=reproducible is possible only if all clients are",
    ):
        Heard(facts, [ALL_VERSIONS, STRICT_VERSIONS])
    with pytest.raises(
        StartupError, match=r"only client 0 has --collectives: start all clients"
    ):
        Heard([facts[0], facts_of(1)], [ALL_VERSIONS] * 2)
