"""The start of all commands: Ctrl-C is one sentence from the first moment, even during imports."""

from __future__ import annotations

import importlib
import sys

__all__ = ["impi", "impilab", "impirun"]


def impi() -> int:
    """``impi``; the exit code."""
    return _run("impi", 130)


def impilab() -> int:
    """``impilab``; the exit code."""
    return _run("impilab", 130 if sys.argv[1:2] == ["repro"] else 2)


def impirun() -> int:
    """``impirun``; the exit code."""
    return _run("impirun", 130)


_UNTESTED = 125


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
        return _UNTESTED
    return code
