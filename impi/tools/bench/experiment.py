"""An experiment: one job of ours and its references, run in turn, and the resulting rows.

Several experiments may run in the same rounds. Each round runs every job of them once, and starts
with another job than the round before: so no job always follows the same one, and a slow moment of
the machine hits ours and its reference alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from impi.base.errors import LaunchError
from impi.tools.bench.rows import Bound, Row
from impi.tools.bench.timed_jobs import Job, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The source of one row: a result of our job, and a result of a reference."""

    measure: str
    key: str  # name of the result in our job's output
    unit: str
    better: str = "lower"
    size: int = 0
    variant: str = ""
    # Numbers of the experiment's references; of several, the worst one by its median counts.
    references: tuple[int, ...] = ()
    # Name of the result in the reference's output; empty: the same name
    reference_key: str = ""
    bound: Bound | None = None
    # Further results of our job, by their names in the row.
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A job of ours and its references, run one after the other in each round."""

    name: str  # the name by which users select it
    vendors: str
    ours: Job
    references: tuple[Job, ...] = ()
    lines: tuple[Line, ...]
    # Experiments with the same word share their rounds; empty: it has its own
    beside: str = ""


def grouped(experiments: Sequence[Experiment]) -> list[list[Experiment]]:
    """Return groups of experiments that share their rounds, in the order of their first members."""
    groups: dict[object, list[Experiment]] = {}
    for number, experiment in enumerate(experiments):
        groups.setdefault(experiment.beside or number, []).append(experiment)

    return list(groups.values())


def run(
    experiments: Sequence[Experiment],
    runs: int,
    told: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Run experiments in common rounds and return their rows.

    A failed job ends its experiments; the others go on.

    Args:
        experiments: the experiments; a job that several have runs once a round.
        runs: number of rounds, at least 1; a bound asks for 9.
        told: called with the title of each job before it starts.
    """

    samples: dict[Job, list[Results]] = {}

    errors: dict[Job, str] = {}
    for number in range(runs):
        start = number % len(experiments)

        done: set[Job] = set()
        for experiment in (*experiments[start:], *experiments[:start]):
            for job in (experiment.ours, *experiment.references):
                if job in done:
                    continue

                # A comparison without one of its jobs says nothing, so the others need not run.
                if any(
                    other in errors
                    for other in (experiment.ours, *experiment.references)
                ):
                    break

                done.add(job)

                told(
                    f"{experiment.name} {experiment.vendors} {number + 1}/{runs}: {job.title}"
                )
                try:
                    samples.setdefault(job, []).append(job.run())
                except LaunchError as error:
                    errors[job] = str(error)

    return [
        row for experiment in experiments for row in _rows(experiment, samples, errors)
    ]


def _rows(
    experiment: Experiment,
    samples: Mapping[Job, list[Results]],
    errors: Mapping[Job, str],
) -> list[Row]:
    jobs = (experiment.ours, *experiment.references)

    error = next((errors[job] for job in jobs if job in errors), "")
    if not error:
        return [
            _row(experiment, line, [samples[job] for job in jobs])
            for line in experiment.lines
        ]

    return [
        replace(
            _about(experiment, line, next(iter(line.references), None)), error=error
        )
        for line in experiment.lines
    ]


def _row(
    experiment: Experiment, line: Line, samples: Sequence[Sequence[Results]]
) -> Row:
    key = line.reference_key or line.key
    candidates = {
        number: [results[key] for results in samples[1 + number]]
        for number in line.references
    }
    worst = max if line.better == "lower" else min
    chosen = worst(
        candidates, key=lambda number: median(candidates[number]), default=None
    )

    return replace(
        _about(experiment, line, chosen),
        values=tuple(results[line.key] for results in samples[0]),
        references=tuple(candidates[chosen]) if chosen is not None else (),
        extra={
            name: median(results[other] for results in samples[0])
            for name, other in line.extra.items()
        },
    )


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
