"""Every command of every page is one that there is: the parsers of the programs take it."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from pages import TOP, all_commands

from impi.base.errors import UsageError
from impi.cli import impi, impilab, impirun
from impi.launch.command_line import read_parts
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made

MAKEFILE = (TOP / "Makefile").read_text("utf-8")
FILLED = {
    "N": "2",
    "I/N": "1/2",
    "COUNT": "2",
    "RANK": "0",
    "R": "0",
    "V": "pure",
    "HOST:PORT": "a:1",
    "ADDRESS:PORT": "a:1",
    "TIME": "10s",
    "S": "10",
    "F": "0.1",
    "NAME": "pure",
    "FIRST-LAST": "1-2",
    "PORT": "1",
    "ABI": "mpich",
    "mpich|openmpi|standard": "mpich",
    "LIST": "a:2",
    "PROGRAM": "prog.py",
    "kubernetes[:NAMESPACE]": "kubernetes:NAMESPACE",
}
"""Words that stand for others in a page, where a parser would not take them."""
OF_OTHERS = ("install",)
"""Targets of a reader's own Makefile."""
CUT_SHORT = re.compile(r"the following arguments are required|: expected .* argument")
"""Words of a parser about a mention in a sentence, which names as much as the sentence needs."""
COMMANDS = all_commands()


def filled(words: Sequence[str]) -> list[str]:
    return [FILLED.get(word, word) for word in words]


# -- a check for each program


# To make a parser takes longer than to parse a line.
parser_of_impilab = cache(impilab.parser_of_all)
parser_of_impirun = cache(impirun.parser_of_all)


@cache
def parser_of_impi() -> argparse.ArgumentParser:
    parser, verbs = impi.parsers()
    impi.add_simulate_verb(verbs, wanted=True)
    return parser


def parse_impilab(words: list[str]) -> None:
    parser_of_impilab().parse_args(words)


def parse_impi(words: list[str]) -> None:
    parser_of_impi().parse_args(words)


def parse_impirun(words: list[str]) -> None:
    if words[:2] == ["-client", "..."]:
        words = ["-client", "0", "a:1", *words[2:]]
    parser = parser_of_impirun()
    at = next((i for i, w in enumerate(words) if w in ("-slurm", "--slurm")), None)
    if at is not None:
        parser.read(words[:at])
        parse_parts(words[at + 1 :])
        return

    args = parser.read(words)
    if args.client is not None:
        # A page that names options alone has no program.
        args.program = args.program or ["prog.py"]
        impirun._check_side(args, "-client", "-server")
        impirun._client_options(args)
    elif args.is_relay:
        impirun._relay_options(args)
    elif args.count is not None:
        impirun._check_side(args, "-server", "-client")
        made(ServerOptions, **impirun._chosen(args, ServerOptions))
    else:
        parse_parts(words)


def parse_parts(words: list[str]) -> None:
    parser = parser_of_impirun()
    if not parser.read(words).program and ":" not in words:
        words = [*words, "prog.py"]
    for part in read_parts(words):
        given = [word for each in part.given for word in each.words]
        args = parser.parse_args(["-client", "0", "a:1", *given])
        args.program = ["prog.py"]
        impirun._client_options(args)


def parse_make(words: list[str]) -> None:
    """The target is there; what ARGS adds to its recipe is a command as any other."""
    target, more = words[0], words[1:]
    if target in OF_OTHERS:
        return

    found = re.search(rf"^{target}:.*\n\t@(.*)$", MAKEFILE, flags=re.MULTILINE)
    assert found, f"there is no target {target!r}"
    given = dict(word.split("=", 1) for word in more if "=" in word)
    assert set(given) <= {"ARGS", "PYTHON", "DESTDIR", "UPGRADE"}, more
    last = found[1].rpartition("&& ")[2]
    assert "ARGS" not in given or "$(ARGS)" in last, f"{target} takes no ARGS"
    line = shlex.split(last.replace("$(ARGS)", given.get("ARGS", "")))
    program = line[0].rpartition("/")[2]
    if program in CHECKS:
        CHECKS[program](filled(line[1:]))
    elif program == "python" and "pytest" not in line:
        source = "".join(
            path.read_text("utf-8") for path in (TOP / line[1]).glob("*.py")
        )
        for word in shlex.split(given.get("ARGS", "")):
            assert not word.startswith("-") or f'"{word.partition("=")[0]}"' in source


def parse_pip(words: list[str]) -> None:
    """The words name this project, with extras that it has."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    for word in words:
        for extras in re.findall(r"(?:impilab|\.)\[(.*)\]", word):
            assert set(extras.split(",")) <= set(project["optional-dependencies"])


def parse_nothing(words: list[str]) -> None:
    """Compilers take what the C compiler takes."""


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "impilab": parse_impilab,
    "impi": parse_impi,
    "impirun": parse_impirun,
    "make": parse_make,
    "pip": parse_pip,
    "impicc": parse_nothing,
    "impifort": parse_nothing,
}


@cache
def fault(program: str, words: tuple[str, ...], *, whole: bool = True) -> str:
    """Return why the program would not take the words; empty: it would."""
    if words[0] == "VERB":
        return ""

    try:
        CHECKS[program](filled(words))
    except (UsageError, AssertionError) as error:
        if not whole and CUT_SHORT.search(str(error)):
            return ""

        # A file that the page makes.
        return "" if "cannot be read: No such file" in str(error) else str(error)
    except SystemExit as end:
        return "" if end.code == 0 else f"it ends with {end.code}"

    for word in words:
        named = re.match(r"(?:examples|clusters|tests|docs|images)/[\w./-]+", word)
        if named and "NAME" not in word and not (TOP / named[0]).exists():
            return f"there is no {named[0]}"

    return ""


def test_commands_are_taken_by_their_parsers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {
        command: why
        for command in COMMANDS
        if (why := fault(command.program, command.words[1:], whole=command.whole))
    }
    told = "\n".join(f"{command}\n    {why}" for command, why in found.items())
    assert not found, f"{len(found)} of {len(COMMANDS)}:\n{told}"


def test_there_are_commands_of_each_program() -> None:
    programs = [command.program for command in COMMANDS]
    assert set(programs) == set(CHECKS)
    assert programs.count("impilab") > 150
    assert programs.count("impirun") > 50


@pytest.mark.parametrize(
    "line",
    [
        "impilab rnu",
        "impilab run --teir smoke",
        "impilab run --jobs",
        "impi bench --langauges c",
        "impi conform --np many",
        "impirun -n 2 --vender mpich ./a",
        "impirun -n 2 ./a : -n x ./b",
        "impirun -server 99",
        "impirun -client 0 a:1 --vendor mpihc ./a",
        "impirun -server 2 --resilent",
        "make tests",
        "make interop ARGS='--teir smoke'",
        "make compat ARGS=--endpionts",
        "make lint ARGS=x",
        "pip install 'impilab[labs]'",
        "impirun -n 2 examples/no_such.py",
    ],
)
def test_a_mistake_is_found(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)
    assert fault(words[0], tuple(words[1:]))


def test_a_mention_may_leave_out_what_follows() -> None:
    assert not fault("impilab", ("bundle",), whole=False)
    assert not fault("impirun", ("-client",), whole=False)
    assert fault("impilab", ("bundle",))
    assert fault("impilab", ("bundel",), whole=False)


# -- the verbs of the Makefile


def told_by(verb: str) -> list[str]:
    done = subprocess.run(
        ["make", "--no-print-directory", verb],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return re.findall(r"^  make (\S+) +\S", done.stdout, flags=re.MULTILINE)


def test_make_shows_ten_verbs_and_help_all_every_one() -> None:
    shown, everything = told_by("help"), told_by("help-all")
    assert len(shown) == 10
    assert set(shown) < set(everything)
    phony = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)[0].split()
    assert sorted(everything) == sorted(phony)
    assert sorted(phony) == sorted(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.M))
