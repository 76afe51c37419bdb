"""A rank of a compat run: one module of mpi4py's suite, outcomes to ``OUT/RANK.jsonl``.

``compat_program.py SUITE MODULE OUT [PATTERN...]``: those that match a pattern, or all; not those
that match a ``!PATTERN``. The first line says how many clients the job has. A test is a line when
it begins and another when it ends, so that a module that hangs or ends names the test that it was
in.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import unittest
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_CLIENT_SIZE = 0x494D5001
"""IMPI_CLIENT_SIZE in C."""


class _Recorder(unittest.TestResult):
    def __init__(self, path: Path, clients: int) -> None:
        super().__init__()
        self._lines = path.open("w", encoding="utf-8")
        print(json.dumps({"clients": clients}), file=self._lines, flush=True)
        self._failed: list[str] = []

    def _say(self, test: Any, outcome: str, text: str = "") -> None:
        print(json.dumps([test.id(), outcome, text]), file=self._lines, flush=True)

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._failed = []
        self._say(test, "unfinished")

    def addSuccess(self, test: Any) -> None:
        self._say(test, "failed" if self._failed else "passed", "".join(self._failed))

    def addError(self, test: Any, err: Any) -> None:
        self._say(test, "failed", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._failed.append(f"{subtest}: {self._exc_info_to_string(err, test)}")  # type: ignore[attr-defined]
            self._say(test, "failed", "".join(self._failed))

    def addSkip(self, test: Any, reason: str) -> None:
        self._say(test, "skipped", reason)


def _without(suite: unittest.TestSuite, patterns: list[str]) -> unittest.TestSuite:
    """The tests whose names match no pattern."""
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(_without(test, patterns))
        elif not any(fnmatchcase(test.id(), pattern) for pattern in patterns):
            kept.addTest(test)
    return kept


def _clients(MPI: Any) -> int:
    """The number of clients; a vendor alone has no such attribute."""
    # mpi4py itself over our library: the attribute is C's
    if "IMPI_HANDLES_FROM" in os.environ:
        assert MPI.__file__ == os.environ["IMPI_HANDLES_FROM"].split(os.pathsep)[1]
        return ctypes.c_int.from_address(MPI.COMM_WORLD.Get_attr(_CLIENT_SIZE)).value
    keyval = getattr(MPI, "IMPI_CLIENT_SIZE", None)
    clients = 0 if keyval is None else MPI.COMM_WORLD.Get_attr(keyval)
    assert isinstance(clients, int)
    return clients


def recorder_of(rank: int, out: Path, MPI: Any) -> unittest.TestResult:
    """Return the writer of a rank's outcomes."""
    return _Recorder(out / f"{rank}.jsonl", _clients(MPI))


def tests_of(module: str, patterns: list[str]) -> unittest.TestSuite:
    """The tests of a module, chosen by patterns."""
    loader = unittest.TestLoader()
    chosen = [f"*{pattern}*" for pattern in patterns if not pattern.startswith("!")]
    loader.testNamePatterns = chosen or None
    tests = loader.loadTestsFromName(module)
    return _without(
        tests, [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    )


def main() -> int:
    suite_dir, module, out, *patterns = sys.argv[1:]
    sys.path.insert(0, suite_dir)
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None  # type: ignore[assignment]
    from mpi4py import MPI

    recorder = recorder_of(MPI.COMM_WORLD.Get_rank(), Path(out), MPI)
    tests_of(module, patterns).run(recorder)
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
