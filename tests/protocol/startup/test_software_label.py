"""Clients tell each other their versions of Python and numpy: our own label, in our own version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from labels_heard import Heard, Versions

from impi.base.errors import LocalProtocolError
from impi.protocol.job import STRICT_VERSION, Job
from impi.protocol.startup.client import ALL_VERSIONS, STRICT_VERSIONS
from impi.protocol.startup.facts import ClientFacts
from impi.protocol.wire import Label, OwnLabel

Maker = Callable[..., ClientFacts]
OLD, NEW = bytes([3, 11, 1, 26]), bytes([3, 13, 2, 4])


def test_each_client_knows_all(facts_of: Maker) -> None:
    heard = Heard(
        [facts_of(0, software=OLD), facts_of(1, software=NEW)], [ALL_VERSIONS] * 2
    )
    assert [job.software for job in heard.jobs.values()] == [
        ((3, 11, 1, 26), (3, 13, 2, 4))
    ] * 2
    job = heard.jobs[0]
    assert Job.from_json(job.to_json()) == job


def test_a_client_that_says_nothing_is_unknown(facts_of: Maker) -> None:
    heard = Heard([facts_of(0), facts_of(1, software=NEW)], [ALL_VERSIONS] * 2)
    assert [job.software for job in heard.jobs.values()] == [((), (3, 13, 2, 4))] * 2


@pytest.mark.parametrize("older", [STRICT_VERSIONS, (STRICT_VERSION, (0, 1))])
def test_one_older_client_and_nobody_sees_any_of_it(
    facts_of: Maker, older: Versions
) -> None:
    heard = Heard(
        [facts_of(client, software=NEW) for client in range(2)], [ALL_VERSIONS, older]
    )
    assert [job.software for job in heard.jobs.values()] == [((), ())] * 2
    assert all(set(labels) == set(Label) for labels in heard.labels + heard.submitted)


def test_after_the_native_form(facts_of: Maker) -> None:
    facts = [
        facts_of(client, software=NEW, representation=bytes([1, 8, 16, 64]))
        for client in range(2)
    ]
    heard = Heard(facts, [ALL_VERSIONS] * 2)
    assert heard.submitted[1][-2:] == [OwnLabel.C_NATIVE, OwnLabel.C_SOFTWARE]


def test_versions_are_four_octets(facts_of: Maker) -> None:
    with pytest.raises(LocalProtocolError, match="four octets"):
        facts_of(0, software=b"\3\13")
