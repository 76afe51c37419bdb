"""A run for GitHub Actions: commands that annotate, and the file of a job's summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.lab.report.pages.views import RunView
from impi.lab.report.results import Json
from impi.lab.report.run_diff import Change

SUMMARY: Final = "GITHUB_STEP_SUMMARY"
# That a step shows of each level; the others would be lost without a word
_MOST: Final = 10
_MOST_OCTETS: Final = 1 << 20  # of a step's summary; a larger one is not shown at all


def of_run(value: Json) -> Iterator[str]:
    """Yield a command for each red cell, and for each fault of the expectations."""

    run = RunView(value)
    red = [
        ("error", cell.id, f"{cell.result}: {cell.sentence}\nagain: {cell.again}")
        for cell in run.red
    ]
    yield from _commands(red, "the summary of the job has all red cells")
    yield from _commands(
        [("warning", "expectations", text) for text in run.problems],
        "results.json has all",
    )


def of_changes(changes: Iterable[Change]) -> Iterator[str]:
    """Yield a command for each cell that is worse than before."""
    worse = [change for change in changes if change.kind == "worse"]
    told = [
        (
            "error",
            f"worse: {each.id}",
            f"{each.before or 'none'} -> {each.after}: {each.reason}",
        )
        for each in worse
    ]
    yield from _commands(told, "'impilab diff' names all")


def changes_page(lines: Sequence[str]) -> str:
    """Return what 'impilab diff' says, for the summary; its last line is the heading."""

    mark = "❌" if any(line.startswith("worse") for line in lines) else "✅"
    fence = "```"
    rest = (
        [fence, *(line.replace(fence, "'''") for line in lines[:-1]), fence]
        if len(lines) > 1
        else []
    )

    return "\n".join([f"### {mark} {lines[-1]}", "", *rest, ""])


def add_to_summary(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Append Markdown to the summary of the job; False: this is not a job of GitHub Actions.

    Raises:
        LabError: the file cannot be written.
    """

    if not environ.get(SUMMARY):
        return False

    path = Path(environ[SUMMARY])
    try:
        with path.open("ab") as file:
            octets = f"{text}\n".encode("utf-8", "replace")
            room = _MOST_OCTETS - file.tell()
            file.write(
                octets
                if len(octets) <= room
                else b"the report of impilab is too long for this page\n"[:room]
            )
    except OSError as error:
        raise LabError(
            f"{SUMMARY} {path} cannot be written: {error.strerror}"
        ) from None

    return True


def _commands(told: Sequence[tuple[str, str, str]], rest: str) -> Iterator[str]:
    shown = told if len(told) <= _MOST else told[: _MOST - 1]
    for level, title, text in shown:
        yield f"::{level} title={_property(title)}::{_data(text)}"

    if len(shown) < len(told):
        yield f"::{told[0][0]} title=impilab::{_data(f'and {len(told) - len(shown)} more: {rest}')}"


def _data(text: str) -> str:
    """A text that a command takes as its value, whatever is in it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
