"""The parser of a command with verbs, and the end of a command: an exit code and a sentence."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from impi.base.errors import ImpiError, UsageError, did_you_mean
from impi.base.exhausted import sentence
from impi.base.exit_codes import ExitCode

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"
"""The part of a parser that holds its verbs."""
Declared: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Arguments of argparse for each option; the key is the option's names, separated by blanks."""


_NO_NUMBER: Final = re.compile(r"argument (\S+): invalid (int|float) value: (.*)")
_NUMBERS: Final = {"int": "a whole number, such as 2", "float": "a number, such as 0.5"}
_NO_CHOICE: Final = re.compile(
    r"argument (?P<of>[^:]*): invalid choice: '?(?P<word>.*?)'? \(choose from (?P<known>.*)\)"
)
VERBS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "impi": ("decode", "bench", "tune", "conform", "simulate"),
    "impilab": (
        *("run", "plan", "merge", "report", "serve", "diff", "publish", "expect"),
        *("repro", "bisect", "bundle", "unbundle", "up", "down", "status", "ssh"),
        *("exec", "logs", "clean", "net", "new", "check", "vendor-ci", "abi", "demo"),
        *("ls", "doctor"),
    ),
}
"""The verbs of each command: whoever types one behind the other command is told so."""
_FIRST_VERB: Final = {"impi": "decode", "impilab": "demo"}


def declare(parser: argparse._ActionsContainer, options: Declared) -> None:
    """Add options to a parser or a group."""
    for names, told in options.items():
        parser.add_argument(*names.split(), **told)


def add_verb(
    verbs: Verbs,
    name: str,
    handler: Callable[[argparse.Namespace], int],
    options: Declared,
    **told: Any,
) -> argparse.ArgumentParser:
    """Add a verb with its options and return its parser.

    Args:
        verbs: the parser's verbs.
        name: the word of the verb.
        handler: runs the verb and returns the exit code.
        options: its options.
        told: further arguments of ``add_parser``, whose texts are printed as they are written.
    """

    verb: argparse.ArgumentParser = verbs.add_parser(
        name, formatter_class=argparse.RawDescriptionHelpFormatter, **told
    )
    verb.set_defaults(handler=handler)
    declare(verb, options)

    return verb


JSON: Final[Declared] = {
    "--json": {"action": "store_true", "help": "as JSON, as rows.schema.json says"}
}
"""The option of every verb that lists or checks."""
ROWS: Final = "impilab/rows/1"


def rows_text(of: str, rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as JSON, in the one shape of all lists (``impi/lab/report/schemas``)."""
    return json.dumps({"schema": ROWS, "of": of, "rows": [*rows]}, indent=1) + "\n"


def show_rows(of: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as JSON."""
    sys.stdout.write(rows_text(of, rows))


def show(lines: Iterable[object]) -> None:
    """Print each item on a line of its own."""
    for line in lines:
        print(line)


class Parser(argparse.ArgumentParser):
    """Raises UsageError with one sentence for a wrong command line; :class:`Ending` prints it."""

    def error(self, message: str) -> NoReturn:
        if self.prog in VERBS_OF and (told := self._no_verb(message)):
            raise UsageError(f"{told}; see '{self.prog} --help'")

        told = _NO_NUMBER.sub(
            lambda found: f"{found[1]} {found[3]}: write {_NUMBERS[found[2]]}", message
        )
        raise UsageError(
            f"{told}{self._did_you_mean(message)}; see '{self.prog} --help'"
        )

    def _no_verb(self, message: str) -> str:
        """Return what is wrong with the verb; empty: something else is wrong."""
        if message == "the following arguments are required: VERB":
            return f"name a VERB, such as '{self.prog} {_FIRST_VERB[self.prog]}'"

        wrong = _NO_CHOICE.fullmatch(message)
        if wrong is None or wrong["of"] != "VERB":
            return ""

        # A list of 27 verbs would hide the one that was meant.
        word = wrong["word"]
        for command, verbs in VERBS_OF.items():
            if word in verbs:
                return f"there is no verb {word!r} of {self.prog}; did you mean '{command} {word}'?"

        return f"there is no verb {word!r}{did_you_mean(word, VERBS_OF[self.prog])}"

    def _did_you_mean(self, message: str) -> str:
        # argparse tells nothing but a sentence, so the wrong word is read from it.
        if unknown := re.match(r"unrecognized arguments: (-\S+)", message):
            word, flags = unknown[1].partition("=")[0], self._flags()
            # The parser of all verbs says so of an option that only others of them have.
            return (
                "; only other verbs have that"
                if word in flags
                else did_you_mean(word, flags)
            )

        if wrong := _NO_CHOICE.fullmatch(message):
            return did_you_mean(wrong["word"], re.findall(r"[^', ]+", wrong["known"]))

        return ""

    def _flags(self) -> set[str]:
        """Return the options of this parser and of its verbs."""
        choices = (action.choices for action in self._actions)
        verbs = [
            verb for each in choices if isinstance(each, dict) for verb in each.values()
        ]

        return {
            *self._option_string_actions,
            *(flag for verb in verbs for flag in verb._flags()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Ends a program: prints the sentence of an error, and gives its exit code."""

    prog: str
    usage: int = ExitCode.USAGE
    wrong: int = ExitCode.FAILED
    interrupted: int = ExitCode.INTERRUPTED

    def of(self, work: Callable[[], int], *, unread: str = "") -> int:
        """Run ``work``, flush stdout, and return the exit code.

        Args:
            work: does the work and returns the exit code.
            unread: the sentence to print if the reader of stdout has gone before the work was done.
                Without it that is not an error (``| head``).
        """
        code: int | None = None
        try:
            code = work()
            # In here, so that a reader that has gone is met here and not at Python's end.
            sys.stdout.flush()
            return code
        except UsageError as error:
            return self._complain(error, self.usage)
        except ImpiError as error:
            return self._complain(error, self.wrong)
        except KeyboardInterrupt:
            return self._complain("interrupted", self.interrupted)
        except BrokenPipeError:
            _discard_output()
            return (
                self._complain(unread, self.wrong)
                if code is None and unread
                else code or 0
            )
        except (OSError, MemoryError, RuntimeError) as error:
            # A machine without memory, descriptors or room is not a fault of this
            # program, and needs no traceback.
            if not (lack := sentence(error)):
                raise

            # Where the output itself is full, it cannot take the rest either.
            try:
                sys.stdout.flush()
            except OSError:
                _discard_output()

            return self._complain(lack, self.wrong)

    def _complain(self, what: ImpiError | str, code: int) -> int:
        print(f"{self.prog}: {what}", file=sys.stderr)
        return code


def _discard_output() -> None:
    """Discard the octets that Python would flush at its end, and fail to with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
