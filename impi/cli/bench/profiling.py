"""``impi bench --profile DIR``: where the ranks of our jobs spend their time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from impi.bench.experiment import Experiment
from impi.bench.profiles import hottest, profiled, run_profiled
from impi.bench.terminal_table import hot_table
from impi.errors import LaunchError

_MOST: Final = 12


def profile(experiments: Sequence[Experiment], folder: Path, console: Console) -> int:
    """Run each job of ours once, and tell of its hottest functions; 1 if one of the jobs failed."""
    print("impi bench: a profiled run is no measurement: no reference runs, and no bound is judged", file=sys.stderr)
    code = 0
    for name, job in profiled(experiments, folder):
        try:
            files = run_profiled(job)
        except LaunchError as error:
            print(f"impi bench: {name}: {error}", file=sys.stderr)
            code = 1
            continue
        console.print(hot_table(f"{name}: {job.title}, all ranks together", hottest(files, _MOST)))
        print(f"each rank's own: {folder / name}-rank*.prof", flush=True)
    return code
