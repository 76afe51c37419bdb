"""Configurations of jobs: who is in them, and what makes no sense."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.job.configuration import UNDER_TEST, Configuration


def test_the_control_rank_is_the_last_simulated_one() -> None:
    assert Configuration(clients=("IUT", "2,1"), procs=2).control == 4
    assert Configuration(clients=("2,1", "IUT"), procs=2).control == 2
    assert Configuration(clients=("1", "IUT", "1"), procs=3).control == 4


def test_procs_are_named_in_the_order_of_their_ranks() -> None:
    setup = Configuration(clients=("2,1", UNDER_TEST), procs=2)
    assert setup.proc_names() == {"S0": 0, "S1": 1, "S2": 2, "I0": 3, "I1": 4}
    assert (setup.client, setup.size, setup.hosts_of(0)) == (1, 5, (2, 1))
    assert setup.with_procs(3).size == 6


def test_usual_names_have_the_defaults_of_2_3_5() -> None:
    names = Configuration().usual_names()
    assert (names["xsize"], names["maxlinear"], names["size"]) == (1024, 4, 5)
    assert Configuration(xsize=7).usual_names()["xsize"] == 7


def test_a_configuration_tells_what_is_unusual() -> None:
    assert str(Configuration()) == "2*+2,1"
    assert (
        str(Configuration(clients=("1", UNDER_TEST), datalen=9, auth="key"))
        == "1+2* datalen=9 auth=key"
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"clients": (UNDER_TEST,)}, "one client of several"),
        ({"clients": ("1", "1")}, "one client of several"),
        ({"clients": (UNDER_TEST, "0")}, "the procs of its hosts, not '0'"),
        ({"variation": "wind"}, "variation 'wind' is not one of"),
        ({"refusal": "no"}, "refusal 'no' is not one of"),
        ({"auth": "both"}, "auth must be none or key"),
    ],
)
def test_what_makes_no_sense(wrong, told) -> None:
    Configuration().check("a.toml")
    with pytest.raises(UsageError, match=rf"^a.toml: .*{told}"):
        Configuration(**wrong).check("a.toml")
