"""Manual pages and completion of the commands, from their parsers: ``make reference`` writes them.

They are installed into ``share`` beside ``bin``: into ``man``, ``bash-completion`` and ``zsh``,
where man and the shells look for those of a command that is on the PATH.

Completion is shtab's. Manual pages are our own: argparse-manpage 4.8 was tried on the same parsers.
It leaves out what commands are for (NAME) and their exit codes, and it writes the date of the day
into each page, so that a page is never up to date. Its pages have a third more lines. What would
stay of this module is nearly as long as ``manual`` is.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping

import shtab

from impi.base.exit_codes import ExitCode
from impi.base.manifests import names
from impi.cli import impi, impilab, impirun
from impi.lab.cases import CASES

_ABOUT = {
    "impirun": "run one MPI job over several MPI libraries",
    "impilab": "run MPI jobs across MPI libraries, and prove what happened",
    "impi": "tools for people who look at IMPI jobs",
}
_OF_VENDORS = {"--with", "--vendor", "--parties", "--replace"}
_TAKE_CASES = ("run", "plan")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    tools, verbs = impi.parsers()
    impi.add_simulate_verb(verbs, wanted=True)
    return {
        "impirun": impirun.parser_of_all(),
        "impilab": impilab.parser_of_all(),
        "impi": tools,
    }


def verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of its verbs, by their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def abouts(parser: argparse.ArgumentParser) -> Mapping[str, str]:
    """Return the one line of help of each verb."""
    return {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return (
        a
        for a in parser._actions
        if not isinstance(a, hidden) and a.help != argparse.SUPPRESS
    )


# -- manual pages


def _roff(text: str) -> str:
    """Text as it is, whatever it begins with."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(
        f"\\&{line}" if line.startswith((".", "'")) else line for line in lines
    )


def _entry(action: argparse.Action, formatter: argparse.HelpFormatter) -> list[str]:
    # Pythons write options with a value in several ways.
    value = (
        "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
    )
    head = " ".join(filter(None, (", ".join(action.option_strings), value)))
    if not action.option_strings:
        head = str(action.metavar or action.dest)
    help_text = formatter._expand_help(action) if action.help else ""
    return [
        ".TP",
        f"\\fB{_roff(head)}\\fR",
        _roff(" ".join(help_text.split())) or "\\&",
    ]


def _section(parser: argparse.ArgumentParser) -> list[str]:
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    return [line for action in _options(parser) for line in _entry(action, formatter)]


def manual(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the manual page of a command."""
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    lines = [
        f'.TH {name.upper()} 1 "" impilab "User Commands"',
        ".SH NAME",
        f"{name} \\- {_roff(_ABOUT[name])}",
    ]
    lines += [".SH SYNOPSIS", ".nf", _roff(re.sub(r"\n\s+", "\n", usage)), ".fi"]
    lines += [".SH OPTIONS", *_section(parser)]
    for verb, inner in verbs_of(parser).items():
        lines += [f".SH {verb.upper()}", _roff(f"{name} {verb} ...")]
        lines += [".PP", _roff(inner.description or "")] if inner.description else []
        lines += _section(inner)
        if inner.epilog:
            lines += [".PP", ".nf", _roff(inner.epilog.strip()), ".fi"]
    if parser.epilog:
        lines += [".SH NOTES", ".nf", _roff(parser.epilog.strip()), ".fi"]
    lines += [".SH EXIT STATUS"]
    for code in ExitCode:
        lines += [".TP", f"\\fB{int(code)}\\fR", _roff(code.meaning)]
    return "\n".join(lines) + "\n"


# -- completion


def _know_names(parser: argparse.ArgumentParser) -> None:
    """Let a parser name what it takes any text for: vendors, and cases as selectors."""
    for verb, inner in verbs_of(parser).items():
        _know_names(inner)
        if verb in _TAKE_CASES:
            for action in inner._get_positional_actions():
                action.choices = list(CASES)

    for action in parser._get_optional_actions():
        if _OF_VENDORS & set(action.option_strings):
            action.choices = list(names())


def pages() -> dict[str, str]:
    """Return all files, by their paths below ``share``."""
    found: dict[str, str] = {}
    for name, parser in parsers().items():
        found[f"man/man1/{name}.1"] = manual(name, parser)
        _know_names(
            parser
        )  # after its page, which would show them as all that there is
        found[f"bash-completion/completions/{name}"] = shtab.complete(parser, "bash")
        found[f"zsh/site-functions/_{name}"] = shtab.complete(parser, "zsh")
    return found
