"""The alternation of runs, what becomes of them, and the catalogue's bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from impi.base.errors import LaunchError
from impi.tools.bench.experiment import Experiment, Line, grouped, run
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.suite import MEASURES, experiments
from impi.tools.bench.rows import at_most
from impi.tools.bench.timed_jobs import Alone, Imp


@dataclass(eq=False)
class _Fake:
    """A job whose results are given."""

    title: str
    values: list[float]
    order: list[str]

    def run(self) -> dict[str, float]:
        self.order.append(self.title)
        if not self.values:
            raise LaunchError(f"{self.title} was lost")
        return {"key": self.values.pop(0)}


def _experiment(ours: _Fake, *references: _Fake, better: str = "lower") -> Experiment:
    line = Line(
        measure="m",
        key="key",
        unit="us",
        better=better,
        references=tuple(range(len(references))),
        bound=at_most(2),
    )
    return Experiment(
        name="m",
        vendors="a+b",
        ours=ours,  # type: ignore[arg-type]
        references=references,  # type: ignore[arg-type]
        lines=(line,),
    )


def test_ours_and_references_alternate() -> None:
    order: list[str] = []
    rows = run(
        [
            _experiment(
                _Fake("ours", [1, 2, 3], order), _Fake("theirs", [1, 2, 3], order)
            )
        ],
        3,
    )
    assert order == ["ours", "theirs"] * 3
    assert rows[0].values == rows[0].references == (1, 2, 3)
    assert rows[0].holds is True


def test_of_two_references_the_worse_counts() -> None:
    order: list[str] = []
    for better, name in (("lower", "slow"), ("higher", "fast")):
        ours, fast, slow = (
            _Fake("ours", [1], order),
            _Fake("fast", [1], order),
            _Fake("slow", [5], order),
        )
        assert run([_experiment(ours, fast, slow, better=better)], 1)[0].against == name


def test_a_lost_job_is_a_row_that_does_not_hold() -> None:
    order: list[str] = []
    rows = run([_experiment(_Fake("ours", [1], order), _Fake("theirs", [1], order))], 2)
    assert order == ["ours", "theirs", "ours"]
    assert rows[0].error == "ours was lost"
    assert rows[0].holds is False
    assert rows[0].against == "theirs"


def test_equal_jobs_run_once_a_round_and_each_begins_one() -> None:
    order: list[str] = []
    shared = _Fake("shared", [10, 20], order)
    first, second = (
        _experiment(_Fake(name, [1, 2], order), shared) for name in ("first", "second")
    )
    rows = run([first, second], 2)
    assert order == ["first", "shared", "second", "second", "shared", "first"]
    assert [row.references for row in rows] == [(10, 20), (10, 20)]
    assert [row.values for row in rows] == [(1, 2), (1, 2)]


def test_beside_a_lost_job_the_others_go_on() -> None:
    order: list[str] = []
    shared = _Fake("shared", [1, 1, 1], order)
    lost, sound = (
        _experiment(_Fake(name, values, order), shared)
        for name, values in (("a", [1.0]), ("b", [1.0] * 3))
    )
    rows = run([lost, sound], 3)
    assert [row.error for row in rows] == ["a was lost", ""]
    assert rows[1].values == rows[1].references == (1, 1, 1)


def test_experiments_side_by_side_are_those_of_one_word() -> None:
    order: list[str] = []
    one, two, three = (
        replace(_experiment(_Fake("ours", [], order)), beside=word)
        for word in ("word", "", "word")
    )
    assert grouped([one, two, three]) == [[one, three], [two]]


def test_every_row_of_the_catalogue_is_there_once_with_jobs_that_exist() -> None:
    seen = set()
    for experiment in experiments(
        list(MEASURES), ["pure", "mpich", "openmpi"], Effort(cores=(0, 1))
    ):
        assert all(
            isinstance(job, Alone | Imp) or job.title.startswith("plain")
            for job in experiment.references
        )
        for line in experiment.lines:
            titles = tuple(
                experiment.references[number].title for number in line.references
            )
            key = (line.measure, experiment.vendors, line.variant, line.size, titles)
            assert key not in seen, key
            seen.add(key)


def test_the_bounds_are_those_that_were_set() -> None:
    bounds = {}
    for experiment in experiments(list(MEASURES), ["pure", "mpich"], Effort()):
        for line in experiment.lines:
            if line.bound:
                bounds[experiment.name, experiment.vendors, line.key, line.variant] = (
                    str(line.bound)
                )
    expected = {
        ("blocked", "pure+pure", "latency/8", "blocked"): "<= 1.2 x",
        ("bandwidth", "pure+pure", "bandwidth/16777216", "byte"): ">= 0.9 x",
        ("bandwidth", "pure+pure", "bandwidth/16777216", "float64"): ">= 0.75 x",
        ("native", "pure+pure", "bandwidth/16777216", "float64, native"): ">= 1 x",
        (
            "derived",
            "pure+pure",
            "bandwidth/1048576/65536",
            "in place, blocks of 64 KiB",
        ): ">= 1 x",
        ("local", "mpich", "latency/8", "spanning communicator"): "<= +3 us",
        ("local", "mpich", "latency/65536", "spanning communicator"): "<= 1.1 x",
        ("local-only", "mpich", "Bcast/8", "local-only communicator"): "<= +3 us",
        ("local-only", "mpich", "Bcast/65536", "local-only communicator"): "<= 1.1 x",
        ("startup", "mpich+mpich", "startup", "2 x 2 procs"): "<= 1.6 x",
        ("idle", "pure+mpich", "idle", "CPU in Recv"): "<= 5 %",
    }
    assert expected.items() <= bounds.items()
