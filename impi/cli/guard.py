"""The last guard of each command: an error of our own is not a verdict, and has its own code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from impi.base.exit_codes import ExitCode
from impi.cli.any_terminal import open_closed_streams, take_any_text

_FAULTS: Final = ("impilab", "impi")
"""Commands with a code for faults of their own."""


def guarded(
    name: str, main: Callable[[], int], interrupted: int = ExitCode.INTERRUPTED
) -> int:
    """Run a command; print an unexpected error with its traceback, and return its own exit code."""
    open_closed_streams()
    take_any_text()
    try:
        return main()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return interrupted
    except Exception:
        if name not in _FAULTS:
            raise

        import traceback

        traceback.print_exc()
        print(
            f"{name}: that is a fault of {name}, and no verdict; please report these lines",
            file=sys.stderr,
        )

        # Python's own status would tell CI of a failed cell, and 'git bisect run' of a bad commit.
        return (
            ExitCode.UNTESTED
            if name == "impilab" and sys.argv[1:2] == ["repro"]
            else ExitCode.OWN_FAULT
        )
