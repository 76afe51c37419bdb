"""An experiment: one job of ours and its references, run in turn; and the resulting rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from impi.bench.rows import Bound, Row
from impi.bench.timed_jobs import Job, Results
from impi.errors import LaunchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The source of one row: a result of our job, and a result of a reference."""

    measure: str
    key: str
    """Name of the result in what our job tells."""
    unit: str
    better: str = "lower"
    size: int = 0
    variant: str = ""
    references: tuple[int, ...] = ()
    """Which references of the experiment; of several the worst one counts, by its median."""
    reference_key: str = ""
    """Name of the result there; empty: the same."""
    bound: Bound | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further results of ours, by the name that the row gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Jobs that are run one after the other, again and again."""

    name: str
    """By which users select it."""
    vendors: str
    ours: Job
    references: tuple[Job, ...] = ()
    lines: tuple[Line, ...]


def run(experiment: Experiment, runs: int, told: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Run it ``runs`` times: ours, each reference, ours, each reference, ... A failed job ends it.

    Args:
        experiment: the jobs and rows.
        runs: at least 1; a bound asks for 9.
        told: is called with the title of each run before it starts.
    """
    samples: list[list[Results]] = [[] for _ in range(1 + len(experiment.references))]
    try:
        for number in range(runs):
            for job, results in zip((experiment.ours, *experiment.references), samples, strict=True):
                told(f"{experiment.name} {experiment.vendors} {number + 1}/{runs}: {job.title}")
                results.append(job.run())
        return [_row(experiment, line, samples) for line in experiment.lines]
    except LaunchError as error:
        return [_failed(experiment, line, str(error)) for line in experiment.lines]


def _row(experiment: Experiment, line: Line, samples: Sequence[Sequence[Results]]) -> Row:
    key = line.reference_key or line.key
    candidates = {number: [results[key] for results in samples[1 + number]] for number in line.references}
    worst = max if line.better == "lower" else min
    chosen = worst(candidates, key=lambda number: median(candidates[number]), default=None)
    return replace(
        _about(experiment, line, chosen),
        values=tuple(results[line.key] for results in samples[0]),
        references=tuple(candidates[chosen]) if chosen is not None else (),
        extra={name: median(results[other] for results in samples[0]) for name, other in line.extra.items()},
    )


def _failed(experiment: Experiment, line: Line, error: str) -> Row:
    return replace(_about(experiment, line, line.references[0] if line.references else None), error=error)


def _about(experiment: Experiment, line: Line, reference: int | None) -> Row:
    """Return a row without results; ``reference`` is the number of its reference job."""
    return Row(
        measure=line.measure,
        vendors=experiment.vendors,
        variant=line.variant,
        size=line.size,
        unit=line.unit,
        better=line.better,
        against=experiment.references[reference].title if reference is not None else "",
        bound=line.bound,
    )
