"""``impi bench``: measure ratios of IMPI to its parts; compare, show and publish such runs."""

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

from impi.base.errors import LaunchError, UsageError, refuse
from impi.base.machine import machine
from impi.base.manifests import backed
from impi.base.plotting import check_file, check_plot
from impi.base.units import parse_size
from impi.launch.start.prefix import find
from impi.protocol.settings import SPIN, ZERO_COPY
from impi.tools.bench.compare import ENOUGH, compare
from impi.tools.bench.experiment import Experiment, grouped, run
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.suite import MEASURES, OF_NUMBERS, SIZED, experiments
from impi.tools.bench.measures.usual import IN_ONE_JOB, LANGUAGES, USUAL
from impi.tools.bench.pages import write_pages
from impi.tools.bench.profiles import hottest, prepare, profiled, run_profiled
from impi.tools.bench.ratio_plot import draw
from impi.tools.bench.release import released
from impi.tools.bench.rows import Row
from impi.tools.bench.run_file import Report, load, save, versions
from impi.tools.bench.terminal_table import changes_table, hot_table, rows_table

_VERBS: Final = ("compare", "show", "page")
"""Words in the place of measures that do something with files of runs."""
_MOST_HOT: Final = 12
_QUICK: Final = 3
_RUNS: Final = 9
_WIDTH: Final = 200
_LARGEST: Final = 1 << 30
# Runnable processes in the last minute that mean: something else runs
_BUSY: Final = 0.7


def bench(options: argparse.Namespace) -> int:
    """Run the verb; return 0 if all bounds hold (compare: if nothing is worse), else 1.

    Raises:
        UsageError: an option names something that does not exist.
    """

    verb = options.what[0] if options.what and options.what[0] in _VERBS else ""
    _check_files(options, verb)

    files = options.what[1:]
    if verb == "compare":
        return _compare(files)

    if verb == "page":
        return _page(files)

    return _show(files, options.plot) if verb else _bench(options)


def _check_files(options: argparse.Namespace, verb: str) -> None:
    """Check options before a long run.

    Raises:
        UsageError: an option does not fit ``compare`` or ``show``, or a file cannot be written.
    """
    refuse(
        (
            verb and (options.sizes or options.profile),
            f"{verb} measures nothing, so it takes no --sizes and no --profile",
        ),
        (
            verb in {"compare", "page"} and (options.plot or options.json),
            f"{verb} takes no --plot and no --json; impi bench show RUN.json --plot FILE draws one run",
        ),
    )
    if options.plot:
        check_plot(options.plot)

    if options.json:
        check_file(options.json)


def _bench(options: argparse.Namespace) -> int:
    # The measures set both variables themselves; report a malformed value before that.
    SPIN.of(os.environ)
    ZERO_COPY.of(os.environ)
    names = _measures(options.what)
    vendors = _vendors(options.vendors)
    refuse(
        (
            (options.spin is not None or options.data != "array")
            and not set(names) & set(IN_ONE_JOB),
            f"--spin and --data are for {', '.join(IN_ONE_JOB)}, not for {', '.join(names)}",
        )
    )
    cores = tuple(sorted(os.sched_getaffinity(0))) if options.pin else ()
    effort = Effort(
        quick=options.quick,
        cores=cores,
        sizes=_sizes(options.sizes, names),
        spin_s=options.spin,
        data=options.data,
        languages=_languages(options),
    )

    chosen = list(experiments(names, vendors, effort))
    if not chosen:
        raise UsageError(
            f"{', '.join(names)} cannot be measured with {' and '.join(vendors)} alone; name more with --vendors"
        )

    # SIGTERM (timeout, CI) becomes an exception, whose unwinding ends the job: a spinning one must
    # not stay behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if options.profile:
        return _profile(options, chosen)

    runs = options.runs or (_QUICK if options.quick else _RUNS)
    # Now, because the commit may change during the run
    before, found = machine(), versions(vendors)
    _warn_if_busy(before)
    rows = _measure(chosen, runs)
    asked: dict[str, object] = {
        "measures": names,
        "vendors": vendors,
        "runs": runs,
        "quick": options.quick,
        "cores": cores,
        "sizes": effort.sizes,
        "spin": effort.spin_s,
        "data": effort.data,
        "languages": effort.languages,
    }

    # Saved before it is shown: a closed terminal must not cost the measurement.
    report = Report(rows=tuple(rows), machine=before, versions=found, options=asked)
    if options.json:
        save(report, options.json)

    code = _tell(report, options.plot)
    if any(row.bound for row in rows) and runs < _RUNS:
        print(
            f"impi bench: medians of {runs} runs; the bounds are about at least {_RUNS}",
            file=sys.stderr,
        )

    return code


def _profile(options: argparse.Namespace, chosen: Sequence[Experiment]) -> int:
    """Run each job of ours once and print its hottest functions; return 1 if a job failed."""

    if options.json or options.plot or options.runs:
        raise UsageError(
            "--profile runs each job once and makes no rows: leave out --runs, --json and --plot"
        )

    prepare(options.profile)
    print(
        "impi bench: a profiled run is not a measurement: no reference runs, and no bound is judged",
        file=sys.stderr,
    )

    code, console = 0, _console()
    # One failed job does not keep the others from being looked at.
    for name, job in profiled(chosen, options.profile):
        try:
            files = run_profiled(job)
        except LaunchError as error:
            print(f"impi bench: {name}: {error}", file=sys.stderr)
            code = 1
            continue

        console.print(
            hot_table(
                f"{name}: {job.title}, all ranks together", hottest(files, _MOST_HOT)
            )
        )
        print(f"each rank's own: {options.profile / name}-rank*.prof", flush=True)

    return code


def _show(files: Sequence[str], plot: Path | None) -> int:
    if len(files) != 1:
        raise UsageError("show needs one file: impi bench show RUN.json")

    return _tell(load(Path(files[0])), plot)


def _page(files: Sequence[str]) -> int:
    if len(files) != 1:
        raise UsageError("page needs one file: impi bench page RUN.json")

    for path in write_pages(load(Path(files[0]))):
        print(path)

    return 0


def _tell(report: Report, plot: Path | None) -> int:
    """Print the table, draw the plot; return 1 if a bound does not hold or a row has an error."""

    rows = report.rows
    _console().print(rows_table(rows))
    versions = ", ".join(f"{name} {text}" for name, text in report.versions.items())
    print(f"{versions}; {_title(report.machine)}")

    # Each error once, with the first row that has it.
    errors = {row.error: row.title for row in reversed(rows) if row.error}
    for error, title in reversed(errors.items()):
        print(f"impi bench: {title}: {error}", file=sys.stderr)

    if plot:
        draw(rows, plot, f"{versions}\n{_title(report.machine)}")

    return 1 if any(row.holds is False or row.error for row in rows) else 0


def _title(machine: Mapping[str, object]) -> str:
    return f"{machine.get('processor')}, {machine.get('cores')} cores"


def _warn_if_busy(machine: Mapping[str, object]) -> None:
    """Warn if the machine is busy: ratios tolerate much, but not cores shared with other work."""
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
        for group in grouped(chosen):
            rows += run(group, runs, status.update)
            # A log shows no status line. A line for each group tells there that the run goes on.
            if not console.is_terminal:
                first = group[0]
                print(
                    f"{first.name} {first.beside or first.vendors}",
                    file=sys.stderr,
                    flush=True,
                )

    return rows


def _measures(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in MEASURES:
            raise UsageError(
                f"there is no measure {name!r}; the choices are {', '.join(MEASURES)}, compare, show or page"
            )

    return [name for name in MEASURES if name in (names or USUAL)]


def _languages(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the languages of --languages; with --data bytearray, Python only."""

    names = tuple(dict.fromkeys(options.languages.split(",")))
    for name in names:
        if name not in LANGUAGES:
            raise UsageError(
                f"--languages has no {name!r}; the choices are {', '.join(LANGUAGES)}"
            )

    if options.data == "array":
        return names

    refuse(
        (
            "python" not in names,
            f"--data {options.data} is for programs in Python: leave --languages out",
        )
    )

    return ("python",)


def _sizes(text: str | None, names: Sequence[str]) -> tuple[int, ...]:
    """Return the sizes of --sizes, each once; none if the option was not given."""

    if text is None:
        return ()

    if fixed := [name for name in names if name not in SIZED]:
        raise UsageError(
            f"--sizes is not for {', '.join(fixed)}; name measures of {', '.join(SIZED)}"
        )

    sizes = tuple(dict.fromkeys(parse_size(word) for word in text.split(",")))
    refuse(
        (
            0 in sizes,
            f"--sizes {text}: messages of no octets are not measured; give sizes from 1",
        ),
        (
            max(sizes) > _LARGEST,
            f"--sizes {text}: messages of more than 1 GiB are not measured; give shorter ones",
        ),
    )

    numbers = [name for name in names if name in OF_NUMBERS]
    if numbers and (odd := [size for size in sizes if size % 8]):
        raise UsageError(
            f"--sizes {text}: {numbers[0]} has numbers of 8 octets, and {odd[0]} is not a multiple of 8"
        )

    return sizes


def _vendors(text: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        # Found before the run: a missing library would be an error in each of its rows.
        if backed(name).has_library:
            try:
                find(name, "", os.environ)
            except LaunchError as error:
                raise UsageError(f"{error}, or leave it out with --vendors") from None

    if not names:
        raise UsageError("--vendors needs a name, such as pure,mpich")

    return names


def _compare(files: Sequence[str]) -> int:
    if len(files) not in {1, 2}:
        raise UsageError(
            "compare needs two files, or one beside the last release: impi bench compare OLD.json NEW.json"
        )

    loaded = [load(Path(file)) for file in files]
    if len(files) == 1:
        if (found := released()) is None:
            print(
                "there is no release with a run of impi bench: nothing to compare with"
            )
            return 0

        print(f"beside the run of {found[0]}")
        files, loaded = [found[0], *files], [found[1], *loaded]

    old, new = loaded

    changes, gone, added = compare(old.rows, new.rows)
    if not changes:
        raise UsageError(
            f"{files[0]} and {files[1]} have no row in common; compare runs of the same measures"
        )

    _console().print(changes_table(changes))
    for text, rows in (("only in the old run", gone), ("only in the new run", added)):
        if rows:
            print(f"{text}: {len(rows)} rows, such as {rows[0].title}")

    # The load differs in every run, and is not a property of the machine.
    if {**old.machine, "load": 0} != {**new.machine, "load": 0}:
        print(
            "the machines differ: values without a reference say little",
            file=sys.stderr,
        )

    few = sum(
        min(len(change.old.values), len(change.new.values)) < ENOUGH
        for change in changes
    )
    if few:
        print(
            f"rows with fewer than {ENOUGH} runs, too few to report a change: {few}",
            file=sys.stderr,
        )

    return 1 if any(change.worse for change in changes) else 0


def _console() -> Console:
    console = Console()
    # A file has no width, and rich would cut its columns at 80.
    return console if console.is_terminal else Console(width=_WIDTH)
