"""``python tests/corpus``: what others compiled or wrote in C, on jobs of several clients.

Each module of :data:`MODULES` is a corpus: a name, a title, and ``run``, which fetches what it
needs into build/corpus, runs it and prints its table. Where the jobs end otherwise than a module's
file of expectations says, the exit code is 1.

Without ``--whole``, a corpus with layouts of pairs and of three vendors runs in the last one alone,
without the programs that take longest.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compat"))

import corpus_debian
import corpus_fortran
import corpus_hpcc
import corpus_imb
import corpus_mpich
import corpus_netpipe
import corpus_petsc
import corpus_scalapack

MODULES: tuple[ModuleType, ...] = (
    *(corpus_mpich, corpus_imb, corpus_netpipe, corpus_hpcc),
    *(corpus_scalapack, corpus_fortran, corpus_petsc, corpus_debian),
)


def main() -> int:
    """Run the command line; 1 if anything is not as it must be."""
    known = {module.NAME: module for module in MODULES}
    listed = "; ".join(f"{name}: {module.TITLE}" for name, module in known.items())
    parser = argparse.ArgumentParser(
        prog="python tests/corpus", description="Run programs of others, in C."
    )
    parser.add_argument("names", nargs="*", help=f"which (default: all). {listed}")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="every program and layout, also those that take long",
    )
    parser.add_argument(
        "--only", default="", help="regular expression: those programs or tests"
    )
    parser.add_argument(
        "--layout",
        action="append",
        help="such as mpich:2,pure:1 (default: the module's)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        help="seconds for a program (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="at a time (default: %(default)s)",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no {unknown[0]}: choose of {', '.join(known)}")
    # SIGTERM ends the jobs, too: an mpiexec that is left alone spins for ever.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return max([known[name].run(options) for name in options.names or known])


if __name__ == "__main__":
    sys.exit(main())
