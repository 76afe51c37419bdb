"""The start of all commands: Ctrl-C is one sentence from the first moment, even during imports."""

from __future__ import annotations

import gc
import importlib
import sys
from functools import partial

from impi.base.exit_codes import ExitCode


def _run(name: str, interrupted: int) -> int:
    if name == "impirun":
        gc.disable()  # until it has loaded what it needs
    try:
        code: int = importlib.import_module(f"impi.cli.{name}").main()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return interrupted
    except Exception:
        if name != "impilab" or sys.argv[1:2] != ["repro"]:
            raise
        # Python's own status would tell 'git bisect run' that the cell is bad.
        import traceback

        traceback.print_exc()
        return ExitCode.UNTESTED
    return code


def impilab() -> int:
    """``impilab``; the exit code."""
    return _run("impilab", ExitCode.SIGINT if sys.argv[1:2] == ["repro"] else ExitCode.INTERRUPTED)


impi = partial(_run, "impi", ExitCode.INTERRUPTED)
impirun = partial(_run, "impirun", ExitCode.SIGINT)
impicc = partial(_run, "impicc", ExitCode.SIGINT)
impifort = partial(_run, "impifort", ExitCode.SIGINT)
