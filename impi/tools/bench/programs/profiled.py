"""Run another program under cProfile: ``profiled.py [--start] PREFIX PROGRAM ARGUMENTS...``.

Rank N leaves PREFIX-rankN.prof, of the program from its first line to its last. Import and
initialisation of MPI and numpy count only with ``--start``; MPI's finalization never does.
"""

from __future__ import annotations

import cProfile
import runpy
import sys


def main() -> None:
    """Run the program as if it had been started by itself."""

    if sys.argv[1] == "--start":
        del sys.argv[1]
    else:
        import numpy  # noqa: F401
        from mpi4py import MPI

    prefix = sys.argv[1]
    del sys.argv[:2]

    profile = cProfile.Profile()
    try:
        with profile:
            runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        from mpi4py import MPI

        profile.dump_stats(f"{prefix}-rank{MPI.COMM_WORLD.Get_rank()}.prof")


main()
