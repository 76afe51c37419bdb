"""The options of ``impi bench``, apart from its work, which other verbs never load."""

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
Without a MEASURE: what users get, and the bounds that hold for it. These are latency, rate, collectives (Barrier,
Allreduce, Bcast, Allgather, Alltoall), startup and idle: of every pair of the vendors, one and two procs a client, by
programs in Python and in C, with numpy arrays of float64 as comm.Send(a, dest=1) sends them, and with waits and places
of ranks as they are by default. Beside them run the same programs over MPICH's and Open MPI's own TCP, and plain Python
sockets. Tuned cases are options: --data bytearray, --spin 1, --pin.

Other measures, by name: blocked, bandwidth, bidirectional, native, derived, local, local-only, memory, all-collectives,
overlap and rma, each by the definition of the OSU micro-benchmark of that kind; their both ends spin, but where they
are about sleeping. Of native and derived the reference is IMPI, too: with external32, and with packed datatypes. osu
runs mpi4py's own osu_*.py, from its source package, which pip fetches once, as they are.

Every row is a median; ratios and differences are of pairs of runs, ours and the reference's in one round. Values of rma
in trips, calls and x are ratios themselves, of neighbours in one job. In the table and in the JSON file a bound is a
sign and a limit: "<= 2 x" is at most twice the reference, ">= 0.9 x" at least 0.9 of it, "<= +3 us" at most 3 us more,
"<= 5 %" the value itself. Do not run anything else meanwhile.

Sizes (--sizes) are octets like 8, 64K (65536) or 64KB (64000); of osu, blocked, derived, startup, memory, idle and
rma they are fixed. A bound that is about a size holds at that size only, those of long local messages from 64K on.

With --profile each job of ours in Python runs once, without its references and without judgement, every rank under
cProfile. It leaves DIR/MEASURE-VENDORS-rankN.prof (for pstats or snakeviz; a second job of a measure has -2 after the
vendors) and a table of the functions that took most of the time in themselves; spinning is waiting. Only that of
startup has imports.

compare with one file holds it against the run that the last release keeps in its tree. page writes a run's figures into
the pages of docs/measurements, with the commit, the date and the machine.

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

The exit code is 0 if all bounds hold (compare: if nothing is worse by more than the spread), 1 if not, 3 when something
of its own failed, 4 when something was asked wrongly."""
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
            "--vendors": {"default": "pure,mpich,openmpi", "metavar": "LIST", "help": "default: %(default)s"},
            "--sizes": {"metavar": "LIST", "help": "octets of messages, such as 8,64K (default: the measure's own)"},
            "--runs": {"type": _runs, "metavar": "N", "help": "pairs of runs a row (default: 9; with --quick 3)"},
            "--quick": {"action": "store_true", "help": "a tenth of the iterations, and 3 runs"},
            "--languages": {"default": "python,c", "metavar": "LIST", "help": "of programs (default: %(default)s)"},
            "--data": {"default": "array", "choices": _DATA, "help": "messages of two ranks (default: %(default)s)"},
            "--spin": {"type": _seconds, "metavar": "S", "help": "how long waits spin (default: as they are)"},
            "--pin": {"action": "store_true", "help": "give every rank, where there are enough, a core"},
            "--json": {"type": Path, "metavar": "FILE", "help": "write all rows with their samples"},
            "--plot": {"type": Path, "metavar": "FILE", "help": "draw the ratios: a file that ends in .svg or .png"},
            "--profile": {"type": Path, "metavar": "DIR", "help": "no rows, but where our ranks spend their time"},
        },
        help="measure IMPI beside what it is made of",
        description="Measure what IMPI costs beside what it is made of, side by side, as ratios.",
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
        raise UsageError(f"{error.name} is not installed; run: pip install 'impilab[lab]'") from None
    return bench(options)
