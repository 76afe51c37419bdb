"""``python tests/planted``: every fault of mutants.toml, and what the tester says of each.

``make weekly`` runs all; CI runs one or two of each clause. The exit code is 1 if one is not caught
by the test of its clause, or if a test is red without any fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from planted_faults import Fault, copy_to, faults, judged, planted


def main() -> int:
    """Run the faults of the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python tests/planted", description=__doc__)
    parser.add_argument(
        "clause", nargs="*", help="clauses whose faults are planted (all)"
    )
    wanted = parser.parse_args().clause
    chosen = [fault for fault in faults() if not wanted or fault.clause in wanted]
    with tempfile.TemporaryDirectory() as name:
        copy_to(Path(name))
        missed = sum(not _caught(Path(name), fault) for fault in chosen)
        red = sum(
            not _green(Path(name), test)
            for test in dict.fromkeys(fault.test for fault in chosen)
        )
    print(
        f"{len(chosen)} faults: {len(chosen) - missed} caught; {red} tests are red without any"
    )
    return int(bool(missed or red))


def _caught(folder: Path, fault: Fault) -> bool:
    out = folder / "run.json"
    out.unlink(missing_ok=True)
    with planted(folder, fault):
        found = judged(folder, fault.test, out)
    caught = found.caught(fault)
    print(
        f"{'caught' if caught else 'MISSED':7} {fault.clause:6} {fault.name} | {fault.test}: {found.why}",
        flush=True,
    )
    return caught


def _green(folder: Path, test: str) -> bool:
    out = folder / "run.json"
    out.unlink(missing_ok=True)
    found = judged(folder, test, out)
    if found.verdict != "holds":
        print(f"RED     {test}: {found.printed}", flush=True)
    return found.verdict == "holds"


if __name__ == "__main__":
    sys.exit(main())
