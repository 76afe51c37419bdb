"""``python tests/programs``: programs of others on jobs of three vendors, beside one vendor alone.

catalogue.toml has their commands, requirements.txt their packages, which pip installs once into
build/programs. The same lines of output and the same exit code are demanded; reasons.toml lists
what differs, and a listed program that agrees is a fault, too.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compat"))

from compat_run import Layout
from programs_catalogue import Program, chosen, read_catalogue
from programs_install import demo, missing, packages
from programs_judge import VERDICTS, Judged, Reason, counts, judge, not_installed, read_reasons, unknown
from programs_run import Ran, run
from rich.console import Console
from rich.table import Table


def judge_all(programs: list[Program], python: Path, reasons: dict[str, Reason], jobs: int) -> list[Judged]:
    """Run and judge each program on each of its layouts, ``jobs`` at a time."""

    def one(cell: tuple[Program, Layout]) -> Judged:
        program, layout = cell
        own: Ran = run(program, python, Layout(f"own:{program.own}:{layout.procs}"))
        judged = judge(program, layout.name, run(program, python, layout), own, reasons.get(program.name))
        times = f"{judged.seconds:.1f} s, alone {judged.own_seconds:.1f} s"
        why = f"\n      {judged.why}" if judged.verdict == "fault" else ""
        print(f"  {judged.verdict:6}  {program.name}  {layout.name}  {times}{why}", file=sys.stderr, flush=True)
        return judged

    absent = [not_installed(p, names, reasons.get(p.name)) for p in programs if (names := missing(python, p.needs))]
    without = {judged.program.name for judged in absent}
    cells = [(p, layout) for p in programs if p.name not in without for layout in p.layouts]
    with ThreadPoolExecutor(jobs) as pool:
        return [*pool.map(one, cells), *absent]


def main() -> int:
    """Run the command line; 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(prog="python tests/programs", description="Run programs of others across vendors.")
    parser.add_argument("programs", nargs="*", help="names, groups or patterns of catalogue.toml (default: all)")
    parser.add_argument("--smoke", action="store_true", help="those that need mpi4py and numpy alone, for CI")
    parser.add_argument("--layout", action="append", help="such as mpich:1,pure:1 (default: the program's)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="at a time (%(default)s)")
    args = parser.parse_args()
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
        programs = [Program(**{**vars(program), "layouts": layouts}) for program in programs]
    judged = judge_all(programs, python, reasons, args.jobs)
    table = Table("group", *VERDICTS)
    for group, found in counts(judged).items():
        table.add_row(group, *(str(found[verdict] or "") for verdict in VERDICTS))
    Console(width=100).print(table)
    for name in VERDICTS[1:]:
        for one in judged:
            if one.verdict == name:
                print(f"{name}: {one.program.name} {one.layout}: {one.why}")
    stray = unknown(reasons, every)
    for name in stray:
        print(f"fault: reasons.toml lists {name}, which no program has as its name")
    return 1 if stray or any(one.verdict == "fault" for one in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
