"""``impilab abi``: MPI libraries held against MPI 5.0's standard ABI, as table, JSON and page."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from impi import __version__
from impi.base.errors import UsageError
from impi.base.exit_codes import ExitCode
from impi.base.plotting import check_file, write_file
from impi.cli.ending import Declared, Verbs, add_verb
from impi.cli.lab.select import EXIT_CODES
from impi.lab.plan.matrix import NothingSelected
from impi.lab.report.pages.run_pages import render
from impi.tools.abi import matrix
from impi.tools.abi.audit import ITEMS, audit
from impi.tools.abi.libraries import Library, discovered, named
from impi.tools.abi.verdicts import (
    FAIL,
    MIXED,
    PASS,
    UNSUPPORTED,
    UNTESTED,
    AbiReport,
    Finding,
    Ran,
)

_Rows: TypeAlias = Mapping[str, Sequence[Finding | Ran]]
_OPTIONS: Final[Declared] = {
    "--library": {
        "action": "append",
        "metavar": "NAME=PREFIX",
        "help": "an installed MPI library, with a name for it; repeatable (default: all that impirun would find)",
    },
    "--require": {
        "action": "append",
        "metavar": "NAME",
        "help": "a library that must have the ABI; only such libraries decide the exit code; repeatable",
    },
    "--no-run": {
        "action": "store_true",
        "help": "examine files only; compile and run no program of the matrix",
    },
    "--json": {"type": Path, "metavar": "FILE", "help": "write all results to FILE"},
    "--html": {
        "type": Path,
        "metavar": "FILE",
        "help": "write the results to FILE, as one page that needs no other file",
    },
}
_EPILOG: Final = """
pass         the library does what MPI 5.0 demands
fail         the library breaks the ABI; the exit code is 1, unless --require names other libraries
unsupported  the library does not have the ABI
untested     a tool for the test is missing, such as a compiler

  impilab abi --library mine=/opt/mpi --library other=/opt/other-mpi --require mine --html abi.html
"""
_WIDTH: Final = 80
_COLOURS: Final = {
    PASS: "green",
    FAIL: "bold red",
    UNSUPPORTED: "dim",
    UNTESTED: "yellow",
}
_WORDS: Final = {PASS: "pass", FAIL: "FAIL", UNSUPPORTED: "-", UNTESTED: "?"}
_LEGEND: Final = {
    UNSUPPORTED: "-: the library does not have the ABI",
    UNTESTED: "?: not tested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A verdict that is not a pass, for people."""

    verdict: str
    subject: str
    item: str
    detail: str


def add_abi(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    text = "check MPI libraries against the standard ABI of MPI 5.0, each by itself and each with each other one"
    add_verb(verbs, "abi", _abi, _OPTIONS, help=text, epilog=f"{_EPILOG}\n{EXIT_CODES}")


def _abi(options: argparse.Namespace) -> int:
    libraries = named(options.library) if options.library else discovered(os.environ)
    if not libraries:
        raise NothingSelected(
            "no MPI library was found; name one by --library NAME=PREFIX"
        )

    names = [each.name for each in libraries]

    required = tuple(dict.fromkeys(options.require or ()))
    if unknown := [name for name in required if name not in names]:
        raise UsageError(
            f"--require {unknown[0]} names no library of this run; they are {', '.join(names)}"
        )

    # The examination takes minutes, so a file that cannot be written is found before it.
    for file in filter(None, (options.json, options.html)):
        check_file(file)

    with _ended_by_sigterm():
        report = _examined(libraries, required, run=not options.no_run)

    console = Console(width=min(_WIDTH, Console().width), highlight=False)

    _show(console, report)
    if options.json:
        write_file(options.json, json.dumps(report.as_json(), indent=1) + "\n")

    if options.html:
        write_file(options.html, render("abi.html", **_page(report)))
        console.print(f"page {options.html}")

    return ExitCode.FAILED if report.failed else ExitCode.OK


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the jobs and removes the folder, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _examined(
    libraries: list[Library], required: tuple[str, ...], *, run: bool
) -> AbiReport:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="impilab-abi-") as name:
        folder = Path(name)

        audited, compiled = [], []
        for library in libraries:
            place = folder / library.name
            place.mkdir()
            # The compiler that the audit has found makes the library's program of the matrix, too.
            found, compiler = audit(library, place)
            audited.append(found)
            compiled.append((library, compiler))

        programs = matrix.programs(compiled, folder) if run else []
        cells = tuple(matrix.cells(libraries, programs, folder))

    seconds = round(time.monotonic() - begin, 1)

    return AbiReport(
        libraries=tuple(audited),
        programs=tuple(programs),
        cells=cells,
        seconds=seconds,
        required=required,
    )


# -- the table


def _show(console: Console, report: AbiReport) -> None:
    totals = report.as_json()["totals"]

    console.print(
        _table("its files", [each.name for each in report.libraries], _items(report))
    )
    if report.cells:
        console.print(
            "\none program, compiled with each and run under each", style="bold"
        )
        console.print(_table("compiled with", _columns(report), _rows(report)))

    # Only the signs that this table has.
    if legend := "; ".join(
        text for verdict, text in _LEGEND.items() if totals[verdict]
    ):
        console.print(legend)

    console.print()
    for told in _by_weight(report):
        line = Text.assemble(
            (told.verdict, _COLOURS[told.verdict]), f" {told.subject}: "
        )
        console.print(
            line.append(f"{told.item}: {told.detail}" if told.item else told.detail),
            soft_wrap=False,
        )

    for name in report.lacking:
        console.print(
            Text.assemble(
                (FAIL, _COLOURS[FAIL]),
                f" {name}: it must have the ABI (--require), and has not",
            )
        )

    counts = ", ".join(
        f"{count} {verdict}" for verdict, count in totals.items() if count
    )

    console.print(f"{counts}, in {report.seconds:.0f} s")
    if report.required:
        outcome = "red" if report.failed else "green"
        console.print(
            f"{', '.join(report.required)}: {outcome}; verdicts against other libraries do not count"
        )


def _table(corner: str, columns: list[str], rows: _Rows) -> Table:
    table = Table(pad_edge=False, header_style="bold", box=None)
    for heading in (corner, *columns):
        table.add_column(heading, overflow="fold")

    for name, found in rows.items():
        table.add_row(
            name,
            *(Text(_WORDS[each.verdict], _COLOURS[each.verdict]) for each in found),
        )

    return table


def _items(report: AbiReport) -> _Rows:
    found = [
        {each.item: each for each in library.audit} for library in report.libraries
    ]
    return {item: [each[item] for each in found] for item in ITEMS}


def _columns(report: AbiReport) -> list[str]:
    return list(dict.fromkeys(cell.under for cell in report.cells))


def _rows(report: AbiReport) -> _Rows:
    return {
        program.name: [cell for cell in report.cells if cell.program == program.name]
        for program in report.programs
    }


def _by_weight(report: AbiReport) -> list[_Told]:
    """Return what did not pass, failures first; words of compilers and programs are printable."""
    found = sorted(
        _told(report),
        key=lambda told: (FAIL, UNTESTED, UNSUPPORTED).index(told.verdict),
    )
    return [
        replace(
            each, detail="".join(c if c.isprintable() else " " for c in each.detail)
        )
        for each in found
    ]


def _told(report: AbiReport) -> Iterator[_Told]:
    """Yield what did not pass; what has one reason is told once."""

    for library in report.libraries:
        # First the files of each library. One that lacks the ABI has nine items with one reason.
        reasons: dict[tuple[str, str], list[str]] = {}
        for each in library.audit:
            if each.verdict != PASS:
                reasons.setdefault((each.verdict, each.detail), []).append(each.item)

        for (verdict, detail), items in reasons.items():
            every = len(items) == len(ITEMS)
            yield _Told(
                verdict=verdict,
                subject=library.name,
                item="" if every else ", ".join(items),
                detail=detail,
            )

    for program in report.programs:
        if program.verdict not in (PASS, UNSUPPORTED):
            yield _Told(
                verdict=program.verdict,
                subject=program.name,
                item="program",
                detail=program.detail,
            )

    # Cells without a program would only repeat what its compiler has said.
    has_program = {
        program.name for program in report.programs if program.verdict == PASS
    }

    alike: dict[tuple[str, str, str], list[str]] = {}
    for cell in report.cells:
        if cell.verdict not in (PASS, UNSUPPORTED) and cell.program in has_program:
            alike.setdefault((cell.under, cell.verdict, cell.detail), []).append(
                cell.program
            )

    for (under, verdict, detail), names in alike.items():
        where = "in a mixed job" if under == MIXED else f"under {under}"
        subject = f"{where} (compiled with {', '.join(names)})"
        yield _Told(verdict=verdict, subject=subject, item="", detail=detail)


# -- the page


def _page(report: AbiReport) -> dict[str, object]:
    totals = report.as_json()["totals"]
    facts = {name: str(count) for name, count in totals.items()}
    facts |= {"seconds": f"{report.seconds:.1f}", "impilab": __version__}

    return {
        "report": report,
        "names": [each.name for each in report.libraries],
        "facts": facts,
        "items": list(_items(report).items()),
        "columns": _columns(report),
        "rows": list(_rows(report).items()),
        "told": _by_weight(report),
        "root": "",
    }
