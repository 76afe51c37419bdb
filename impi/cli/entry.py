"""The start of all commands: Ctrl-C is one sentence from the first moment, even during imports."""

from __future__ import annotations

import importlib
import sys

from impi.exit_codes import ExitCode


def impi() -> int:
    """``impi``; the exit code."""
    return _run("impi", ExitCode.INTERRUPTED)


def impilab() -> int:
    """``impilab``; the exit code."""
    return _run("impilab", ExitCode.SIGINT if sys.argv[1:2] == ["repro"] else ExitCode.INTERRUPTED)


def impirun() -> int:
    """``impirun``; the exit code."""
    return _run("impirun", ExitCode.SIGINT)


def impicc() -> int:
    """``impicc``; the exit code."""
    return _run("impicc", ExitCode.SIGINT)


def impifort() -> int:
    """``impifort``; the exit code."""
    return _run("impifort", ExitCode.SIGINT)


def _run(name: str, interrupted: int) -> int:
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
