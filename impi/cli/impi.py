"""``impi``: tools for people who look at IMPI jobs.

Exit codes: 0 as expected, 1 something was wrong, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from impi import __version__
from impi.cli.decode import add_decode
from impi.cli.ending import Ending

__all__ = ["main"]

_ENDING: Final = Ending(prog="impi", usage=2, wrong=1, interrupted=130)
_DESCRIPTION: Final = "Tools for people who look at IMPI jobs; 'impi VERB --help' tells more."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="impi", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"impi {__version__}, IMPI 0.0")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    add_decode(verbs)

    def work() -> int:
        options = parser.parse_args(argv)
        handler: Callable[[argparse.Namespace], int] = options.handler
        return handler(options)

    return _ENDING.of(work)


if __name__ == "__main__":
    sys.exit(main())
