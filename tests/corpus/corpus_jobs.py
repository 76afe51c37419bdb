"""Runs a compiled program as one job of several clients, or under MPICH's own mpiexec."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))

from compat_run import Layout
from programs_catalogue import Program
from programs_run import Ran, end_all, run

__all__ = ["Ran", "end_all", "run_binary"]


def run_binary(
    binary: Path,
    argv: Sequence[str],
    layout: str,
    limit_s: float,
    environ: Mapping[str, str],
    stdin: str = "",
    cwd: str = "",
) -> Ran:
    """Run it in an empty folder, or in ``cwd``; every process has ended on return.

    Args:
        binary: the program.
        argv: its arguments.
        layout: ``mpich:2,pure:1`` is one job of two clients; ``own:mpich:3`` MPICH alone.
        limit_s: seconds after which the job is ended.
        environ: variables beside the caller's.
        stdin: standard input of rank 0.
        cwd: the folder; empty: a new one.
    """
    parsed = Layout(layout)
    program = Program(
        name=binary.name,
        argv=tuple(argv),
        layouts=(parsed,),
        own="mpich",
        environ=environ,
        stdin=stdin,
        cwd=cwd,
        limit_s=limit_s,
    )
    return run(program, binary, parsed)
