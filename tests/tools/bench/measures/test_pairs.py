"""Messages of two ranks: with which jobs, and where a bound is."""

from __future__ import annotations

import pytest

from impi.tools.bench.experiment import Experiment
from impi.tools.bench.measures import pairs
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.limits import limited


def bounded(experiment: Experiment) -> dict[tuple[int, str], str]:
    """The bounds by size and reference."""
    return {
        (
            line.size,
            " ".join(experiment.references[number].title for number in line.references),
        ): str(line.bound)
        for line in limited(experiment).lines
        if line.bound
    }


def test_the_reference_of_short_messages_are_plain_sockets() -> None:
    [experiment] = pairs.blocked(("pure", "pure"), Effort())
    assert bounded(experiment) == {(8, "plain sockets, blocking"): "<= 1.2 x"}
    [experiment] = pairs.blocked(("pure", "mpich"), Effort())
    assert bounded(experiment) == {}


def test_streams_of_octets_and_of_numbers_have_limits_of_their_own() -> None:
    found = [
        bounded(experiment)
        for experiment in pairs.bandwidth(("pure", "pure"), Effort())
    ]
    assert [list(bounds.values()) for bounds in found] == [[">= 0.9 x"], [">= 0.75 x"]]


@pytest.mark.parametrize("measure", [pairs.local, pairs.local_only])
def test_two_procs_of_a_client_need_a_library(measure: object) -> None:
    assert list(measure(("pure", "pure"), Effort())) == []  # type: ignore[operator]
    assert list(measure(("mpich", "pure"), Effort())) == []  # type: ignore[operator]
    assert all(
        each.vendors == "mpich"
        for each in measure(("mpich", "mpich"), Effort())  # type: ignore[operator]
    )


def test_rates_and_bandwidths_are_better_high() -> None:
    for measure, better in (
        (pairs.bandwidth, "higher"),
        (pairs.bidirectional, "higher"),
        (pairs.blocked, "lower"),
    ):
        assert {
            line.better
            for each in measure(("pure", "pure"), Effort())
            for line in each.lines
        } == {better}
