"""A process of a compat run with endpoints as the ranks: each thread runs the module for itself.

``compat_endpoints.py ENDPOINTS SUITE MODULE OUT [PATTERN...]``, as in :mod:`compat_program`. For
each endpoint the module is loaded anew; its COMM_WORLD is the endpoint, its COMM_SELF one alone.
"""

from __future__ import annotations

import sys
import threading
import traceback
import types
import unittest
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mpi4py
from compat_program import recorder_of, tests_of
from mpi4py import MPI

BUFFERED = 1 << 20
world: Any = MPI.COMM_WORLD


def in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Make the calls at once; an exception ends the job."""

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException:
            traceback.print_exc()
            world.Abort(1)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def seen_by(endpoint: Any, alone: Any) -> types.ModuleType:
    """The module MPI as the tests of an endpoint see it.

    A process has one buffer for buffered sends: :func:`main` attaches one that is enough for all.
    """
    seen = types.ModuleType("mpi4py.MPI")
    own = {
        "COMM_WORLD": endpoint,
        "COMM_SELF": alone,
        "Attach_buffer": lambda _: None,
        "Detach_buffer": lambda: None,
    }
    seen.__dict__.update(vars(MPI), **own)
    vars(seen)["__getattr__"] = partial(getattr, MPI)
    return seen


def load(
    suite: Path, seen: types.ModuleType, module: str, patterns: list[str]
) -> unittest.TestSuite:
    """The tests of the module, loaded with its helpers anew."""
    for name, loaded in list(sys.modules.items()):
        if Path(getattr(loaded, "__file__", None) or "/").parent == suite:
            del sys.modules[name]
    mpi4py.MPI = sys.modules["mpi4py.MPI"] = seen
    return tests_of(module, patterns)


def main() -> None:
    number, suite, module, out, *patterns = sys.argv[1:]
    sys.path.insert(0, suite)
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None  # type: ignore[assignment]
    MPI.Attach_buffer(bytearray(BUFFERED))
    endpoints = world.Create_endpoints(int(number))
    alone: dict[int, Any] = {}

    def split(ep: Any) -> None:
        alone[ep.rank] = ep.Split(ep.rank)

    in_threads([partial(split, ep) for ep in endpoints])
    recorders = [recorder_of(ep.rank, Path(out), MPI) for ep in endpoints]
    suites = [
        load(Path(suite), seen_by(ep, alone[ep.rank]), module, patterns)
        for ep in endpoints
    ]
    in_threads(
        [
            partial(tests.run, recorder)
            for tests, recorder in zip(suites, recorders, strict=True)
        ]
    )


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
