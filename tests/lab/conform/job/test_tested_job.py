"""The job as tests use it: its names, groups and wishes, and what its client says at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tester_world import TesterWorld

from impi.lab.conform.job import tested_command
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.job.start_dialogue import KEY
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.outcomes import Broken, NotTested


def test_names_are_limits_and_ranks_of_the_job() -> None:
    names = TesterWorld(datalen=16).job.names()
    assert (names["datalen"], names["xsize"], names["size"], names["np"]) == (
        16,
        1024,
        4,
        2,
    )
    assert (names["I1"], names["S0"]) == (1, 2)


def test_a_group_knows_whose_ranks_they_are() -> None:
    group = TesterWorld().job.group("world")
    assert (group.members, group.client, group.cid, group.maxlinear) == (
        (0, 1, 2, 3),
        [0, 0, 1, 1],
        0,
        4,
    )


@pytest.mark.parametrize(
    ("setup", "variables"),
    [
        ({}, {"IMPI_AUTH_NONE": "1"}),
        ({"variation": "empty IMPI_AUTH_NONE"}, {"IMPI_AUTH_NONE": ""}),
        ({"auth": "key"}, {"IMPI_AUTH_KEY": str(KEY), "IMPI_AUTH_WEAK": "1"}),
        (
            {"auth": "key", "refusal": "wrong key"},
            {"IMPI_AUTH_KEY": str(KEY + 1), "IMPI_AUTH_WEAK": "1"},
        ),
    ],
)
def test_variables_of_a_client_that_may_join_or_not(
    setup: dict, variables: dict
) -> None:
    job = TestedJob(tested_command.Tested(), Configuration(**setup))
    assert job._authentication() == variables
    job.close()


def test_a_wish_that_the_client_does_not_grant_is_not_tested() -> None:
    job = TestedJob(tested_command.Tested(), Configuration(xsize=7))
    dialogue: Any = SimpleNamespace(value={"XSIZE": 1024, "MAXLINEAR": 4}.get)
    job.dialogue = dialogue
    with pytest.raises(NotTested, match=r"XSIZE 1024, not 7; --client needs \{xsize\}"):
        job._check_wishes()
    job.close()


def test_the_client_says_fini_and_nothing_else() -> None:
    world = TesterWorld()
    world.server.incoming += b"FINI\0\0\0\0"
    world.job.await_fini()
    with pytest.raises(Broken, match="does not say FINI") as raised:
        world.job.await_fini()
    assert (raised.value.clause, raised.value.actual) == ("2.3.7", "nothing")
    world.server.incoming += b"DONE\0\0\0\0"
    with pytest.raises(Broken, match="no FINI"):
        world.job.await_fini()


def test_a_step_of_start_up_that_fails_has_last_words() -> None:
    def phase() -> None:
        raise Broken("no", actual="nothing")

    with pytest.raises(Broken) as raised:
        TesterWorld().job._step(phase)
    assert (raised.value.said, raised.value.actual) == (
        "words",
        "nothing; it said: words",
    )
