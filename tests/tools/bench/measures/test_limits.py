"""The table of bounds: which rows it is about."""

from __future__ import annotations

from itertools import product

import pytest

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.limits import LIMITS
from impi.tools.bench.measures.suite import MEASURES, experiments
from impi.tools.bench.measures.usual import CALLS, IN_ONE_JOB
from impi.tools.bench.rows import bound_from

VENDORS = ["pure", "mpich", "openmpi"]
KIB, MIB = 1 << 10, 1 << 20


def lines_of(
    effort: Effort = Effort(), names: tuple[str, ...] = IN_ONE_JOB
) -> list[tuple[Experiment, Line, str]]:
    """Experiments, their lines, and the title of each line's reference."""
    return [
        (
            experiment,
            line,
            experiment.references[line.references[0]].title if line.references else "",
        )
        for experiment in experiments(names, VENDORS, effort)
        for line in experiment.lines
    ]


def bound(measure: str, variant: str, size: int, against: str) -> set[str]:
    """The bounds of all pairs of vendors; an empty text where there is none."""
    return {
        str(line.bound or "")
        for _, line, title in lines_of()
        if (line.measure, line.variant, line.size) == (measure, variant, size)
        and title.startswith(against)
    }


@pytest.mark.parametrize(
    ("variant", "bounds"),
    [
        ("Python, 1+1", ("<= 1.6 x",) * 3 + ("<= 1.2 x",)),
        ("C, 1+1", ("<= 1.4 x", "<= 1.6 x", "<= 1.6 x", "<= 1.2 x")),
    ],
)
def test_messages_beside_mpich(variant: str, bounds: tuple[str, ...]) -> None:
    for size, expected in zip((8, 16 * KIB, 64 * KIB, MIB), bounds, strict=True):
        assert bound("latency", variant, size, "mpich's own TCP") == {expected}


def test_rates_beside_sockets() -> None:
    for variant in ("Python, 1+1", "C, 1+1"):
        assert bound("rate", variant, 8, "plain sockets") == {">= 0.8 x"}
        assert bound("rate", variant, 8, "mpich's own TCP") == {""}


@pytest.mark.parametrize("language", ["Python", "C"])
def test_collectives_beside_mpich(language: str) -> None:
    for name, (size, expected) in product(
        CALLS[1:], {8: 3, KIB: 3, 64 * KIB: 2, MIB: 1.5}.items()
    ):
        assert bound(name, f"{language}, 1+1", size, "mpich") == {f"<= {expected:g} x"}
        assert bound(name, f"{language}, 2+2", size, "mpich") == {"<= 2.5 x"}
    assert bound("Barrier", f"{language}, 1+1", 0, "mpich") == {"<= 3 x"}
    assert bound("Barrier", f"{language}, 2+2", 0, "mpich") == {"<= 2.5 x"}


def test_programs_in_c_are_as_fast_as_those_in_python() -> None:
    beside = [
        (line.measure, str(line.bound))
        for _, line, title in lines_of()
        if title.startswith("IMPI")
    ]
    assert {text for name, text in beside if name != "rate"} == {"<= 1 x"}
    assert {text for name, text in beside if name == "rate"} == {">= 1 x"}
    assert {name for name, _ in beside} == {"latency", "rate", *CALLS}


def test_the_start_of_pure_ranks_has_a_bound_of_its_own() -> None:
    bounds = {
        experiment.vendors: str(line.bound)
        for experiment, line, _ in lines_of(names=("startup",))
    }
    assert bounds.pop("pure+pure") == "<= 1.3 x"
    assert set(bounds.values()) == {"<= 1.6 x"}


def test_tuned_runs_have_their_own_bounds() -> None:
    tuned = lines_of(
        Effort(data="bytearray", spin_s=1.0, cores=(0, 1), languages=("python",))
    )
    found = {
        (line.measure, title, experiment.vendors): str(line.bound)
        for experiment, line, title in tuned
        if line.bound and line.size == 8 and line.measure in {"latency", "rate"}
    }
    sockets = "plain sockets, spinning"
    assert found["latency", sockets, "pure+pure"] == "<= 2 x"
    assert found["latency", "mpich's own TCP", "mpich+mpich"] == "<= 1.5 x"
    assert found["rate", sockets, "pure+mpich"] == ">= 0.7 x"


def test_each_limit_is_about_a_row_and_is_a_bound() -> None:
    everything = [
        (experiment, line)
        for effort in (
            Effort(),
            Effort(data="bytearray", spin_s=1.0, cores=(0, 1), languages=("python",)),
        )
        for experiment in experiments(
            [name for name in MEASURES if name != "osu"], VENDORS, effort
        )
        for line in experiment.lines
    ]
    for limit in LIMITS:
        assert str(bound_from(limit.bound)) == limit.bound
        assert any(limit.fits(*both) for both in everything), (
            f"{limit} is about nothing"
        )
