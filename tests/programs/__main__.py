"""``python tests/programs``: programs of others on jobs of three vendors, beside one vendor alone.

catalogue.toml has their commands, requirements.txt their packages, which pip installs once into
build/programs. The same lines of output and the same exit code are demanded; reasons.toml lists
what differs, and a listed program that agrees is a fault, too. The group differentials is
test_differentials.py: two programs of thousands of calls, which differences.toml belongs to.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compat"))

from compat_run import Layout
from programs_build import build
from programs_catalogue import (
    DIFFERENTIALS,
    HERE,
    Program,
    chosen,
    named,
    read_catalogue,
)
from programs_install import demo, missing, packages
from programs_judge import (
    VERDICTS,
    Judged,
    Reason,
    counts,
    judge,
    not_installed,
    read_not_run,
    read_reasons,
    unknown,
)
from programs_run import end_all, reference, run
from rich.console import Console
from rich.table import Table


def judge_all(
    programs: list[Program], python: Path, reasons: dict[str, Reason], jobs: int
) -> list[Judged]:
    """Run and judge each program on each of its layouts, ``jobs`` at a time."""

    def one(cell: tuple[Program, Layout]) -> Judged:
        program, layout = cell
        own = reference(
            lambda: run(program, python, Layout(f"own:{program.own}:{layout.procs}"))
        )
        judged = judge(
            program,
            layout.name,
            run(program, python, layout),
            own,
            reasons.get(program.name),
        )
        times = f"{judged.seconds:.1f} s, alone {judged.own_seconds:.1f} s"
        why = f"\n      {judged.why}" if judged.verdict == "fault" else ""
        print(
            f"  {judged.verdict:6}  {program.name}  {layout.name}  {times}{why}",
            file=sys.stderr,
            flush=True,
        )
        return judged

    absent = [
        not_installed(p, names, reasons.get(p.name))
        for p in programs
        if (names := missing(python, p.needs))
    ]
    without = {judged.program.name for judged in absent}
    for program in programs:
        if program.name not in without and (why := build(program, python)):
            absent.append(Judged(program, "", "fault", why))
            without.add(program.name)
    cells = [
        (p, layout) for p in programs if p.name not in without for layout in p.layouts
    ]
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return [*pool.map(one, cells), *absent]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


def judge_differentials() -> bool:
    """Run the two programs of thousands of calls; whether each difference is a listed one."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        str(HERE / "test_differentials.py"),
    ]
    return subprocess.run(command, check=False, stdout=sys.stderr).returncode == 0


def main() -> int:
    """Run the command line; 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(
        prog="python tests/programs",
        description="Run programs of others across vendors.",
    )
    parser.add_argument(
        "programs",
        nargs="*",
        help="names, groups or patterns of catalogue.toml (default: all)",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="those that need mpi4py and numpy alone, for CI",
    )
    parser.add_argument(
        "--layout",
        action="append",
        help="such as mpich:1,pure:1 (default: the program's)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, (os.cpu_count() or 1) // 2),
        help="at a time (%(default)s)",
    )
    args = parser.parse_args()
    # SIGTERM ends the jobs, too: an mpiexec that is left alone spins for ever.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    every = read_catalogue()
    reasons = read_reasons()
    try:
        programs = chosen(every, args.programs, smoke=args.smoke)
    except ValueError as error:
        parser.error(str(error))
    demo()
    python = Path(sys.executable) if args.smoke else packages()
    if args.layout:
        layouts = tuple(Layout(name) for name in args.layout)
        programs = [
            Program(**{**vars(program), "layouts": layouts}) for program in programs
        ]
    judged = judge_all(programs, python, reasons, args.jobs)
    wanted = read_not_run() if not args.smoke else {}
    not_run = {
        name: why
        for name, why in wanted.items()
        if not args.programs or named(name, args.programs)
    }
    found = counts(judged, not_run)
    if not args.smoke and (not args.programs or DIFFERENTIALS in args.programs):
        found[DIFFERENTIALS] = Counter(["same" if judge_differentials() else "fault"])
    stray = unknown(reasons, every)
    report(found, judged, not_run, stray)
    return 1 if stray or any(number["fault"] for number in found.values()) else 0


def report(
    found: dict[str, Counter[str]],
    judged: list[Judged],
    not_run: dict[str, str],
    stray: list[str],
) -> None:
    """Print the table of groups and verdicts, and a line for each program that is not the same."""
    table = Table("group", *VERDICTS)
    for group, number in found.items():
        table.add_row(group, *(str(number[verdict] or "") for verdict in VERDICTS))
    Console(width=100).print(table)
    for verdict in VERDICTS[1:]:
        for one in judged:
            if one.verdict == verdict:
                print(f"{verdict}: {one.program.name} {one.layout}: {one.why}")
    for name, why in not_run.items():
        print(f"not run: {name}: {why}")
    for name in stray:
        print(f"fault: reasons.toml lists {name}, which no program has as its name")


if __name__ == "__main__":
    sys.exit(main())
