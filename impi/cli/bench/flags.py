"""The options of ``impi bench``, apart from its work, which other verbs never load."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from impi.cli.ending import Ending
from impi.exit_codes import ExitCode

BENCH_ENDING: Final = Ending(prog="impi bench", wrong=ExitCode.OWN_FAULT)
_HELP: Final = """\
MEASURE is any of latency, blocked, bandwidth, rate, bidirectional, native, derived, local, local-only, startup, memory,
idle, collectives, overlap and rma (default: all), each by the definition of the OSU micro-benchmark of that kind, over
IMPI between every pair of the vendors, over each vendor's own TCP and shared memory by the same program, and over plain
Python sockets. Of native and derived the reference is IMPI, too: with external32, and with packed datatypes.

Every row is a median; ratios and differences are of pairs of runs, ours and the reference's in turn. Values of rma in
trips, calls and x are ratios themselves, of neighbours in one job. In the table and in the JSON file a bound is a sign
and a limit: "<= 2 x" is at most twice the reference, ">= 0.9 x" at least 0.9 of it, "<= +3 us" at most 3 us more, "<= 5
%" the value itself. Do not run anything else meanwhile.

Sizes (--sizes) are octets like 8, 64K (65536) or 64KB (64000); of blocked, derived, startup, memory, idle and rma they
are fixed. A bound that is about a size holds at that size only, those of long local messages from 64K on.

With --profile each job of ours runs once, without its references and without judgement, every rank under cProfile. It
leaves DIR/MEASURE-VENDORS-rankN.prof (for pstats or snakeviz; a second job of a measure has -2 after the vendors) and a
table of the functions that took most of the time in themselves; spinning is waiting. Only that of startup has imports.

examples:
  impi bench latency blocked --vendors pure
  impi bench collectives --vendors mpich,openmpi --sizes 8,4K,1M
  impi bench rate --vendors pure --profile profiles
  impi bench --quick --json quick.json
  impi bench --json new.json
  impi bench compare old.json new.json
  impi bench show new.json --plot new.svg

The exit code is 0 if all bounds hold (compare: if nothing is worse by more than the spread), 1 if not, 3 when something
of its own failed, 4 when something was asked wrongly."""


def add_bench(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line of ``impi``."""
    parser = verbs.add_parser(
        "bench",
        help="measure IMPI beside what it is made of",
        description="Measure what IMPI costs beside what it is made of, side by side, as ratios.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", nargs="*", metavar="MEASURE", help="what to measure, or: compare OLD NEW, show RUN")
    parser.add_argument("--vendors", default="pure,mpich,openmpi", metavar="LIST", help="default: %(default)s")
    parser.add_argument(
        "--sizes", metavar="LIST", help="octets of messages, such as 8,64K (default: the measure's own)"
    )
    parser.add_argument("--runs", type=_runs, metavar="N", help="pairs of runs a row (default: 9; with --quick 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the iterations, and 3 runs")
    parser.add_argument("--no-pin", action="store_true", help="do not give every rank, where there are enough, a core")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows with their samples")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios: a file that ends in .svg or .png")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="no rows, but where our ranks spend their time")
    parser.set_defaults(handler=_bench)


def _runs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _bench(options: argparse.Namespace) -> int:
    try:
        from impi.cli.bench.verb import bench
    except ModuleNotFoundError as error:
        from impi.errors import UsageError

        if error.name is None or error.name.startswith("impi"):
            raise
        raise UsageError(f"{error.name} is not installed; run: pip install 'impilab[lab,vendors]'") from None
    return bench(options)
