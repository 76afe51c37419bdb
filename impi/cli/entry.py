"""The start of all commands. Ctrl-C prints one sentence from the first moment, also in imports.

So this module imports nothing that takes time.
"""

from __future__ import annotations

import gc
import importlib
import sys
from functools import partial

from impi.base.exit_codes import ExitCode
from impi.cli.guard import guarded


def _run(name: str, interrupted: int) -> int:
    def main() -> int:
        if name == "impirun":
            gc.disable()  # until it has loaded what it needs

        code: int = importlib.import_module(f"impi.cli.{name}").main()
        return code

    return guarded(name, main, interrupted)


def impilab() -> int:
    """Run ``impilab``; return the exit code."""
    return _run(
        "impilab",
        ExitCode.SIGINT if sys.argv[1:2] == ["repro"] else ExitCode.INTERRUPTED,
    )


impi = partial(_run, "impi", ExitCode.INTERRUPTED)
impirun = partial(_run, "impirun", ExitCode.SIGINT)
impicc = partial(_run, "impicc", ExitCode.SIGINT)
impifort = partial(_run, "impifort", ExitCode.SIGINT)
