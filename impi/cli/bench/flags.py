"""The options of ``impi bench``, apart from :mod:`.verb`, which other verbs of impi never load."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Final

from impi.base.exit_codes import ExitCode
from impi.base.units import parse_count
from impi.cli.ending import Ending, Verbs, add_verb

BENCH_ENDING: Final = Ending(prog="impi bench", wrong=ExitCode.OWN_FAULT)
_HELP: Final = """\
Without a MEASURE you get the usual cases and their bounds: latency, rate, collectives (Barrier, Allreduce, Bcast,
Allgather, Alltoall), startup and idle. They run for every pair of vendors, with one and two procs a client, by programs
in Python and in C. Messages are numpy arrays of float64, as in comm.Send(a, dest=1); waits and places of ranks are the
defaults. For comparison, the same programs run over MPICH's and Open MPI's own TCP, and over plain Python sockets. With
--data bytearray, --spin 1 and --pin you choose tuned cases.

Other measures, by name: blocked, bandwidth, bidirectional, native, derived, local, local-only, memory, all-collectives,
overlap and rma. Each follows the OSU micro-benchmark of that kind; both ends spin, except where sleeping is measured.
The reference of native and derived is IMPI itself: with external32, and with packed datatypes. osu runs mpi4py's own
osu_*.py unchanged, from its source package, which pip fetches once.

Every row is a median. Ratios and differences come from pairs of runs, ours and the reference's in the same round. For
rma, values in trips, calls and x are ratios themselves, of neighbours in one job. In the table and in the JSON file a
bound is a sign and a limit: "<= 2 x" is at most twice the reference, ">= 0.9 x" at least 0.9 of it, "<= +3 us" at most
3 us more, "<= 5 %" the value itself. Run nothing else on the machine meanwhile.

Sizes (--sizes) are octets like 8, 64K (65536) or 64KB (64000); those of osu, blocked, derived, startup, memory, idle
and rma are fixed. A bound for a size holds at that size only, those of long local messages from 64K on.

With --profile each job of ours in Python runs once, without references and bounds, every rank under cProfile. It leaves
DIR/MEASURE-VENDORS-rankN.prof (for pstats or snakeviz; a second job of a measure has -2 after the vendors) and prints
the functions with the largest time of their own; spinning is waiting. Only the profile of startup has imports.

compare with one file compares it with the run in the tree of the last release. page writes a run's figures into the
pages of docs/measurements, with the commit, the date and the machine.

examples:
  impi bench
  impi bench latency blocked --vendors pure
  impi bench latency rate --data bytearray --spin 1 --pin
  impi bench collectives --vendors mpich,openmpi --sizes 8,4K,1M
  impi bench rate --vendors pure --profile profiles
  impi bench --quick --json quick.json
  impi bench --json new.json
  impi bench compare old.json new.json
  impi bench show new.json --plot new.svg
  impi bench page new.json

The exit code is 0 if all bounds hold (compare: if nothing is worse by more than the spread), 1 if not, 3 if the
benchmark itself failed, 4 for a wrong command line."""
_DATA: Final = ("array", "bytearray")


def add_bench(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impi``."""
    add_verb(
        verbs,
        "bench",
        _bench,
        {
            "what": {
                "nargs": "*",
                "metavar": "MEASURE",
                "help": "what to measure, or: compare [OLD] NEW, show RUN, page RUN",
            },
            "--vendors": {
                "default": "pure,mpich,openmpi",
                "metavar": "LIST",
                "help": "vendors of the pairs (default: %(default)s)",
            },
            "--sizes": {
                "metavar": "LIST",
                "help": "octets of messages, such as 8,64K (default: the measure's own)",
            },
            "--runs": {
                "type": _runs,
                "metavar": "N",
                "help": "number of pairs of runs for each row (default: 9; with --quick 3)",
            },
            "--quick": {
                "action": "store_true",
                "help": "a tenth of the iterations, and 3 runs",
            },
            "--languages": {
                "default": "python,c",
                "metavar": "LIST",
                "help": "language of the programs (default: %(default)s)",
            },
            "--data": {
                "default": "array",
                "choices": _DATA,
                "help": "form of messages (default: %(default)s)",
            },
            "--spin": {
                "type": _seconds,
                "metavar": "S",
                "help": "seconds that waits spin (default: as in any job)",
            },
            "--pin": {
                "action": "store_true",
                "help": "give each rank a core, if there are enough",
            },
            "--json": {
                "type": Path,
                "metavar": "FILE",
                "help": "write all rows with their samples",
            },
            "--plot": {
                "type": Path,
                "metavar": "FILE",
                "help": "draw the ratios: a file that ends in .svg or .png",
            },
            "--profile": {
                "type": Path,
                "metavar": "DIR",
                "help": "profile our ranks instead of measuring rows",
            },
        },
        help="measure the costs of IMPI beside those of its parts",
        description="Measure the costs of IMPI side by side with those of its parts, as ratios.",
        epilog=_HELP,
        allow_abbrev=False,
    )


def _runs(text: str) -> int:
    if not parse_count(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")

    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0

    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")

    return value


def _bench(options: argparse.Namespace) -> int:
    try:
        from impi.cli.bench.verb import bench
    except ModuleNotFoundError as error:
        from impi.base.errors import UsageError

        if error.name is None or error.name.startswith("impi"):
            raise

        raise UsageError(
            f"{error.name} is not installed; run: pip install 'impilab[lab]'"
        ) from None

    return bench(options)
