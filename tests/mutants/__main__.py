"""``python tests/mutants``: impi with one fault at a time, and the cells that must see it.

``make mutants`` runs all of them. A mutant is caught if its cell turns red, and caught rightly if
phase and blame are as the table says. The exit code is 1 if one is not, or if a cell is red without
any fault.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mutants_run import Ran, run_all, vendors_of
from mutants_table import Mutant, clauses_of, read_tables

from impi.base.errors import ImpiError
from impi.lab.backends import choose_backend


def main() -> int:
    """Run the mutants of the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "pattern", nargs="*", help="names of mutants, clauses or cells, with globs"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the table and run nothing"
    )
    parser.add_argument(
        "--slow",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="lengthen all time limits",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what became of each"
    )
    options = parser.parse_args()
    try:
        mutants = [m for m in read_tables().mutants if _wanted(m, options.pattern)]
        for mutant in mutants:
            mutant.broken()
    except ValueError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1
    if not mutants:
        print(
            f"mutants: none is {' or '.join(options.pattern)}; --list shows them",
            file=sys.stderr,
        )
        return 2
    if options.list:
        for mutant in mutants:
            print(
                f"{mutant.clause:7} {mutant.tier:5} {mutant.cell.id:44} {mutant.culprit:11} {mutant.name}"
            )
        return 0
    return _run(mutants, options.slow, options.json)


def _wanted(mutant: Mutant, patterns: Sequence[str]) -> bool:
    names = (mutant.name, mutant.clause, mutant.cell.id)
    return not patterns or any(
        fnmatchcase(name, pattern) for name in names for pattern in patterns
    )


def _run(mutants: Sequence[Mutant], factor: float, file: Path | None) -> int:
    began = time.monotonic()
    try:
        backend = choose_backend("docker")
        backend.prepare(vendors_of(mutants))
    except ImpiError as error:
        print(
            f"mutants: captures need a container engine that answers: {error}",
            file=sys.stderr,
        )
        return 3
    all_ran: list[Ran] = []
    for ran in run_all(backend, mutants, factor):
        all_ran.append(ran)
        print(_line(ran), flush=True)
    if file is not None:
        file.write_text(json.dumps([_told(ran) for ran in all_ran], indent=1))
    return _sum_up(mutants, all_ran, time.monotonic() - began)


def _line(ran: Ran) -> str:
    mark = "✗" if ran.fault else "✓"
    if ran.mutant is None:
        why = f"\n      {ran.fault}: {ran.verdict.reason}" if ran.fault else ""
        return f"{mark} -       twin of {ran.cell.id}  {ran.seconds:.1f} s{why}"
    mutant, verdict = ran.mutant, ran.verdict
    item = verdict.culprit.name if verdict.culprit is not None else "-"
    head = f"{mark} {mutant.clause:7} {mutant.tier:5} {mutant.name}  [{mutant.cell.id}]"
    told = f"{verdict.outcome} {item}, phase {verdict.phase or '-'}, blame {verdict.blame or '-'}"
    text = f"{head}\n      {told}, {ran.seconds:.1f} s"
    if ran.fault:
        text += f"\n      ** {ran.fault}{'' if ran.loaded else ' (no rank has loaded it)'}: {verdict.reason[:400]}"
    return text


def _told(ran: Ran) -> dict[str, object]:
    mutant, verdict = ran.mutant, ran.verdict
    return {
        "name": mutant.name if mutant is not None else "",
        "clause": mutant.clause if mutant is not None else "",
        "tier": mutant.tier if mutant is not None else "",
        "cell": ran.cell.id,
        "outcome": verdict.outcome,
        "item": verdict.culprit.name if verdict.culprit is not None else "",
        "phase": verdict.phase,
        "blame": verdict.blame,
        "reason": verdict.reason,
        "items": [item.name for item in verdict.items if not item.ok],
        "fault": ran.fault,
        "loaded": ran.loaded,
        "seconds": round(ran.seconds, 2),
    }


def _sum_up(mutants: Sequence[Mutant], all_ran: Sequence[Ran], seconds: float) -> int:
    runs = [ran for ran in all_ran if ran.mutant is not None]
    caught = [ran for ran in runs if ran.caught]
    right = [ran for ran in runs if not ran.fault]
    tiers = {
        tier: sum(ran.mutant is not None and ran.mutant.tier == tier for ran in right)
        for tier in ("core", "pairs")
    }
    print(
        f"{len(mutants)} mutants of {len(clauses_of(mutants))} clauses: {len(caught)} caught, "
        f"{len(right)} with phase and blame right ({tiers['core']} in core, {tiers['pairs']} in pairs); "
        f"{seconds:.0f} s"
    )
    sick = [ran for ran in all_ran if ran.mutant is None and ran.fault]
    for ran in sick:
        print(f"red without any fault: {ran.cell.id}: {ran.verdict.reason}")
    for ran in runs:
        if ran.fault and ran.mutant is not None:
            print(f"not right: {ran.mutant.name}: {ran.fault}")
    return 0 if len(right) == len(mutants) and not sick else 1


if __name__ == "__main__":
    sys.exit(main())
