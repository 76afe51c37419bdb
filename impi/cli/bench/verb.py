"""``impi bench``: ratios of IMPI to its parts; ``impi bench compare``: two such runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.status import Status

from impi.bench.compare import ENOUGH, compare
from impi.bench.effort import Effort
from impi.bench.experiment import Experiment, run
from impi.bench.ratio_plot import draw
from impi.bench.rows import Row
from impi.bench.run_file import Report, load, machine, save, versions
from impi.bench.suite import MEASURES, OF_NUMBERS, SIZED, experiments
from impi.bench.terminal_table import changes_table, rows_table
from impi.errors import LaunchError, UsageError
from impi.launch.prefix import find
from impi.manifests import backed
from impi.plotting import check_file, check_plot
from impi.settings import SPIN, ZERO_COPY
from impi.units import parse_size

_QUICK: Final = 3
_RUNS: Final = 9
_WIDTH: Final = 200
_LARGEST: Final = 1 << 30
_BUSY: Final = 0.7
"""Runnable processes in the last minute, from which on something else runs."""


def bench(options: argparse.Namespace) -> int:
    """Run the verb; return the exit code: 0 all bounds hold (compare: nothing is worse), 1 not so.

    Raises:
        UsageError: an option names something that does not exist.
    """
    verb = options.what[0] if options.what[:1] in (["compare"], ["show"]) else ""
    _check_files(options, verb)
    if verb:
        return _compare(options.what[1:]) if verb == "compare" else _show(options.what[1:], options.plot)
    return _bench(options)


def _check_files(options: argparse.Namespace, verb: str) -> None:
    """UsageError: an option does not fit ``compare`` or ``show``, or a file cannot be written."""
    if verb and (options.sizes or options.profile):
        raise UsageError(f"{verb} measures nothing, so it takes no --sizes and no --profile")
    if verb == "compare" and (options.plot or options.json):
        raise UsageError("compare takes no --plot and no --json; impi bench show RUN.json --plot FILE draws one run")
    if options.plot:
        check_plot(options.plot)
    if options.json:
        check_file(options.json)


def _bench(options: argparse.Namespace) -> int:
    """Measure; 1 if a bound does not hold."""
    # The measures set both themselves; a nonsensical value should be reported now.
    SPIN.of(os.environ)
    ZERO_COPY.of(os.environ)
    names = _measures(options.what)
    vendors = _vendors(options.vendors)
    cores = () if options.no_pin else tuple(sorted(os.sched_getaffinity(0)))
    effort = Effort(quick=options.quick, cores=cores, sizes=_sizes(options.sizes, names))
    chosen = list(experiments(names, vendors, effort))
    if not chosen:
        raise UsageError(
            f"nothing of {', '.join(names)} is about {' and '.join(vendors)} alone; name more vendors with --vendors"
        )
    # If we are ended (timeout, CI), no spinning job may stay behind: unwinding ends it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if options.profile:
        return _profile(options, chosen)
    runs = options.runs or (_QUICK if options.quick else _RUNS)
    before = machine()
    _warn_if_busy(before)
    rows = _measure(chosen, runs)
    asked: dict[str, object] = {
        "measures": names,
        "vendors": vendors,
        "runs": runs,
        "quick": options.quick,
        "cores": cores,
        "sizes": effort.sizes,
    }
    report = Report(rows=tuple(rows), machine=before, versions=versions(vendors), options=asked)
    if options.json:
        save(report, options.json)
    code = _tell(report, options.plot)
    if any(row.bound for row in rows) and runs < _RUNS:
        print(f"impi bench: medians of {runs} runs; the bounds are about at least {_RUNS}", file=sys.stderr)
    return code


def _profile(options: argparse.Namespace, chosen: Sequence[Experiment]) -> int:
    if options.json or options.plot or options.runs:
        raise UsageError("--profile runs each job once and makes no rows: leave out --runs, --json and --plot")
    from impi.bench.profiles import prepare
    from impi.cli.bench.profiling import profile

    prepare(options.profile)
    return profile(chosen, options.profile, _console())


def _show(files: Sequence[str], plot: Path | None) -> int:
    if len(files) != 1:
        raise UsageError("show needs one file: impi bench show RUN.json")
    return _tell(load(Path(files[0])), plot)


def _tell(report: Report, plot: Path | None) -> int:
    """The table and the picture; 1 if a bound does not hold, or something could not be measured."""
    rows = report.rows
    _console().print(rows_table(rows))
    versions = ", ".join(f"{name} {text}" for name, text in report.versions.items())
    print(f"{versions}; {_title(report.machine)}")
    for row in rows:
        if row.error:
            print(f"impi bench: {row.title}: {row.error}", file=sys.stderr)
    if plot:
        draw(rows, plot, f"{versions}\n{_title(report.machine)}")
    return 1 if any(row.holds is False or row.error for row in rows) else 0


def _title(machine: Mapping[str, object]) -> str:
    return f"{machine.get('processor')}, {machine.get('cores')} cores"


def _warn_if_busy(machine: Mapping[str, object]) -> None:
    """Ratios of pairs tolerate much, but ranks on cores with other work measure that work."""
    load = machine["load"]
    if isinstance(load, list) and load[0] > _BUSY:
        print(
            f"impi bench: this machine is busy (load {load[0]:.1f}): end what else runs, or do not trust the figures",
            file=sys.stderr,
        )


def _measure(chosen: Sequence[Experiment], runs: int) -> list[Row]:
    rows: list[Row] = []
    console = Console(stderr=True)
    with Status("starting", console=console) as status:
        for experiment in chosen:
            rows += run(experiment, runs, status.update)
            if not console.is_terminal:
                print(f"{experiment.name} {experiment.vendors}", file=sys.stderr, flush=True)
    return rows


def _measures(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in MEASURES:
            raise UsageError(f"there is no measure {name!r}; the choices are {', '.join(MEASURES)}, compare or show")
    return [name for name in MEASURES if not names or name in names]


def _sizes(text: str | None, names: Sequence[str]) -> tuple[int, ...]:
    """The list of --sizes, each once; none where it was not given."""
    if text is None:
        return ()
    if fixed := [name for name in names if name not in SIZED]:
        raise UsageError(f"--sizes is not for {', '.join(fixed)}; name measures of {', '.join(SIZED)}")
    sizes = tuple(dict.fromkeys(parse_size(word) for word in text.split(",")))
    if 0 in sizes:
        raise UsageError(f"--sizes {text}: messages of no octets are not measured; give sizes from 1")
    if max(sizes) > _LARGEST:
        raise UsageError(f"--sizes {text}: messages of more than 1 GiB are not measured; give shorter ones")
    numbers = [name for name in names if name in OF_NUMBERS]
    if numbers and (odd := [size for size in sizes if size % 8]):
        raise UsageError(f"--sizes {text}: {numbers[0]} has numbers of 8 octets, of which {odd[0]} are no multiple")
    return sizes


def _vendors(text: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        if backed(name).has_library:
            try:
                find(name, "", os.environ)
            except LaunchError as error:
                raise UsageError(f"{error}, or leave it out with --vendors") from None
    if not names:
        raise UsageError("--vendors needs a name, such as pure,mpich")
    return names


def _compare(files: Sequence[str]) -> int:
    if len(files) != 2:
        raise UsageError("compare needs two files: impi bench compare OLD.json NEW.json")
    old, new = (load(Path(file)) for file in files)
    changes, gone, added = compare(old.rows, new.rows)
    if not changes:
        raise UsageError(f"{files[0]} and {files[1]} have no row in common; compare runs of the same measures")
    _console().print(changes_table(changes))
    for text, rows in (("only in the old run", gone), ("only in the new run", added)):
        if rows:
            print(f"{text}: {len(rows)} rows, such as {rows[0].title}")
    if {**old.machine, "load": 0} != {**new.machine, "load": 0}:
        print("the machines differ: values without a reference say little", file=sys.stderr)
    few = sum(min(len(change.old.values), len(change.new.values)) < ENOUGH for change in changes)
    if few:
        print(f"rows with fewer than {ENOUGH} runs, of which no change is called one: {few}", file=sys.stderr)
    return 1 if any(change.worse for change in changes) else 0


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)
