"""``impi``: tools for people who look at IMPI jobs.

Exit codes: 0 as expected, 1 something was wrong, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from impi import __version__
from impi.cli.decode import add_decode
from impi.errors import ImpiError, UsageError

__all__ = ["main"]

_WRONG, _USAGE, _INTERRUPTED = 1, 2, 130
_DESCRIPTION: Final = "Tools for people who look at IMPI jobs; 'impi VERB --help' tells more."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="impi", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"impi {__version__}, IMPI 0.0")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    add_decode(verbs)
    options = parser.parse_args(argv)
    handler: Callable[[argparse.Namespace], int] = options.handler
    try:
        code = handler(options)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(error, _USAGE)
    except ImpiError as error:
        return _complain(error, _WRONG)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough; what the interpreter would flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(error: ImpiError, code: int) -> int:
    print(f"impi: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
