"""Time profiles of our jobs: each rank under cProfile, and the most expensive functions."""

from __future__ import annotations

import os
import pstats
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from impi.base.errors import LaunchError, UsageError
from impi.launch.start.program import ROOT
from impi.tools.bench.compiled import is_compiled
from impi.tools.bench.experiment import Experiment
from impi.tools.bench.timed_jobs import Imp


@dataclass(frozen=True, slots=True)
class Hot:
    """One function, in all ranks of a job together."""

    where: str  # file, line and name of a Python function; name of a builtin
    calls: int
    # Seconds in the function itself, without callees; profiling adds to each call
    seconds: float
    share: float  # share of all ranks' time, from 0 to 1


def prepare(folder: Path) -> None:
    """Make the folder for profiles if there is none.

    Raises:
        UsageError: it cannot be made, is not a folder, or cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise UsageError(
            f"--profile {folder} is not a folder; name one, or one to be made"
        ) from None
    except OSError as error:
        raise UsageError(
            f"--profile {folder} cannot be made: {error.strerror}; name another folder"
        ) from None

    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"--profile {folder} cannot be written into; name another folder"
        )


def profiled(
    experiments: Sequence[Experiment], folder: Path
) -> Iterator[tuple[str, Imp]]:
    """Yield the IMPI jobs in Python, each with a prefix for its files.

    The prefix has the measure and the vendors, and a number from a measure's second job on.
    """
    seen: Counter[str] = Counter()
    for experiment in experiments:
        if isinstance(experiment.ours, Imp) and not is_compiled(
            experiment.ours.argv[0]
        ):
            name = f"{experiment.name}-{experiment.vendors}"
            seen[name] += 1
            name += f"-{seen[name]}" if seen[name] > 1 else ""
            yield name, replace(experiment.ours, profile=str(folder.absolute() / name))


def run_profiled(job: Imp) -> list[Path]:
    """Run a job once; return the profile of each rank, in the order of ranks.

    Raises:
        LaunchError: the job failed.
    """

    files = [
        Path(f"{job.profile}-rank{rank}.prof")
        for rank in range(sum(client.procs for client in job.clients))
    ]
    # A profile of an earlier run must not be taken for one of this.
    for file in files:
        file.unlink(missing_ok=True)

    job.run()
    if missing := [file for file in files if not file.exists()]:
        raise LaunchError(
            f"{job.title} has written no {missing[0]}; check the space in that folder"
        )

    return files


def hottest(files: Sequence[Path], most: int) -> list[Hot]:
    """Return at most ``most`` functions with the largest time of their own."""

    stats: Any = pstats.Stats(*map(str, files))
    whole = stats.total_tt or 1.0
    found = [
        Hot(where=_named(*function), calls=calls, seconds=own, share=own / whole)
        for function, (_, calls, own, _, _) in stats.stats.items()
    ]

    return sorted(found, key=lambda hot: hot.seconds, reverse=True)[:most]


def _named(file: str, line: int, name: str) -> str:
    # The name by which pstats has builtins.
    if file == "~":
        return name

    path = Path(file)
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{line} {name}"
