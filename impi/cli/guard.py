"""The last guard of each command: an error of our own is not a verdict, and has its own code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Final

from impi.base.exit_codes import ExitCode
from impi.cli.any_terminal import open_closed_streams, take_any_text

_FAULTS: Final = ("impilab", "impi")
"""Commands with a code for faults of their own."""
_OPEN: Final = (
    "name one that you may use, or let its owner open it and the folders above it"
)
_REFUSED: Final = {
    errno.EACCES: _OPEN,
    errno.EPERM: _OPEN,
    errno.EROFS: "name one on a file system that can be written",
    errno.ENAMETOOLONG: "name a shorter one",
    errno.ELOOP: "its links lead to themselves: name the file itself",
    errno.ENOTDIR: "a part of that path is a file, and no folder",
}


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
    except Exception as error:
        if told := _of_a_file(error):
            print(f"{name}: {told}", file=sys.stderr)
            return _code_of_fault(name, ExitCode.USAGE)

        if name not in _FAULTS:
            raise

        import traceback

        traceback.print_exc()
        print(
            f"{name}: that is a fault of {name}, and no verdict; please report these lines",
            file=sys.stderr,
        )

        return _code_of_fault(name, ExitCode.FAILED)


def _code_of_fault(name: str, other: int) -> int:
    """Return the exit code of an error; ``other``: that of commands without a code of their own."""
    # Python's own status would tell CI of a failed cell, and 'git bisect run' of a bad commit.
    if name == "impilab" and sys.argv[1:2] == ["repro"]:
        return ExitCode.UNTESTED

    return ExitCode.OWN_FAULT if name in _FAULTS else other


def _of_a_file(error: Exception) -> str:
    """Return the sentence about a path that the system refuses; empty: something else is wrong.

    Path.is_file() of Python 3.11 to 3.13 raises where a folder above the file is closed.
    """
    if not isinstance(error, OSError) or not isinstance(error.filename, str | bytes):
        return ""

    cure = _REFUSED.get(error.errno or 0)
    where = os.fsdecode(error.filename)

    return f"{where}: {error.strerror}; {cure}" if cure else ""
