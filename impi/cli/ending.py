"""A command line with several verbs: its parser, and its end: an exit code, one sentence."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from impi.base.errors import ImpiError, UsageError, did_you_mean
from impi.base.exhausted import sentence
from impi.base.exit_codes import ExitCode

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"
"""Where a parser has its verbs."""
Declared: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Options: by their names, with blanks between, what argparse is told of each."""


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
    """Add a verb with its options, and return its parser; texts stay as they are written."""
    verb: argparse.ArgumentParser = verbs.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **told)
    verb.set_defaults(handler=handler)
    declare(verb, options)
    return verb


def show(lines: Iterable[object]) -> None:
    """Print a line each; nothing of none."""
    for line in lines:
        print(line)


class Parser(argparse.ArgumentParser):
    """Usage errors are one sentence; :class:`Ending` prints it, and has the exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{self._meant(message)}; see '{self.prog} --help'")

    def _meant(self, message: str) -> str:
        if unknown := re.match(r"unrecognized arguments: (-\S+)", message):
            return did_you_mean(unknown[1].partition("=")[0], self._flags())
        if wrong := re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)", message):
            return did_you_mean(wrong[1], re.findall(r"[^', ]+", wrong[2]))
        return ""

    def _flags(self) -> set[str]:
        """Return the options of this parser and of its verbs."""
        choices = (action.choices for action in self._actions)
        verbs = [verb for each in choices if isinstance(each, dict) for verb in each.values()]
        return {*self._option_string_actions, *(flag for verb in verbs for flag in verb._flags())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The name of a program, and its exit codes."""

    prog: str
    usage: int = ExitCode.USAGE
    wrong: int = ExitCode.FAILED
    interrupted: int = ExitCode.INTERRUPTED

    def of(self, work: Callable[[], int], *, unread: str = "") -> int:
        """Run ``work``, whose result is the exit code, and flush stdout.

        A reader of stdout that is gone is no error; if ``work`` depended on it, ``unread`` says so.
        """
        code: int | None = None
        try:
            code = work()
            sys.stdout.flush()
            return code
        except UsageError as error:
            return self._complain(error, self.usage)
        except ImpiError as error:
            return self._complain(error, self.wrong)
        except KeyboardInterrupt:
            return self._complain("interrupted", self.interrupted)
        except BrokenPipeError:
            # The reader of stdout has gone: discard the octets that the interpreter would flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return self._complain(unread, self.wrong) if code is None and unread else code or 0
        except (OSError, MemoryError) as error:
            if not (lack := sentence(error)):
                raise
            return self._complain(lack, self.wrong)

    def _complain(self, what: ImpiError | str, code: int) -> int:
        print(f"{self.prog}: {what}", file=sys.stderr)
        return code
