"""``impi``: tools to look at IMPI jobs.

Exit codes: :mod:`impi.base.exit_codes`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from impi import __version__
from impi.base.errors import UsageError
from impi.cli.bench.flags import BENCH_ENDING, add_bench
from impi.cli.conform import add_conform
from impi.cli.decode import add_decode
from impi.cli.ending import Ending, Parser, Verbs
from impi.cli.guard import guarded
from impi.cli.tune import add_tune

_ENDING: Final = Ending(prog="impi")
_SIMULATE_ENDING: Final = Ending(prog="impi simulate")
_ENDINGS: Final = {"bench": BENCH_ENDING, "simulate": _SIMULATE_ENDING}
_SIMULATE: Final = "predict start-up and collectives in virtual time"
_DESCRIPTION: Final = "Tools for IMPI jobs. 'impi VERB --help' explains a verb."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""

    arguments = list(sys.argv[1:] if argv is None else argv)
    ending = _ENDINGS.get("".join(arguments[:1]), _ENDING)
    parser, verbs = parsers()

    def work() -> int:
        add_simulate_verb(verbs, wanted=ending is _SIMULATE_ENDING)
        options = parser.parse_args(arguments)
        handler: Callable[[argparse.Namespace], int] = options.handler

        return handler(options)

    return ending.of(work)


def parsers() -> tuple[argparse.ArgumentParser, Verbs]:
    """Return the parser, and its verbs without ``simulate``; manual pages come from it, too."""

    parser: argparse.ArgumentParser = Parser(
        prog="impi", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "--version", action="version", version=f"impi {__version__}, IMPI 0.0"
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    add_decode(verbs)
    add_bench(verbs)
    add_tune(verbs)
    add_conform(verbs, "judge an implementation of IMPI 0.0, clause by clause")

    return parser, verbs


def add_simulate_verb(verbs: Verbs, *, wanted: bool) -> None:
    """Add the verb; its options, too, where they are ``wanted``."""
    if not wanted:
        # A name for the help alone: the simulator's modules take time, and other verbs need none.
        verbs.add_parser("simulate", help=_SIMULATE)
        return

    try:
        from impi.cli.simulate import add_simulate
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise

        raise UsageError(
            "impi simulate needs rich, which is not installed; pip install impilab"
        ) from None

    add_simulate(verbs, _SIMULATE)


if __name__ == "__main__":
    sys.exit(guarded("impi", main))
