"""The pages of one run, in its own folder: ``index.html``, one for each cell, and ``report.md``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from impi.base.errors import LabError, UsageError
from impi.base.files import MALFORMED
from impi.lab.report.pages.views import CellView, RunView
from impi.lab.report.results import Json

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE: Final = "index.html"
MARKDOWN: Final = "report.md"
_OF_RUN: Final = (MARKDOWN, "results.json", "junit.xml", "faults.md", "soak.md")
# Octets of a text that a page shows; the file has the rest
_MOST_OCTETS: Final = 20_000
_ABOUT: Final = {
    "timeline.html": "packets, MPI calls and logs by time",
    "timeline.txt": "the same as text",
    "hang.txt": "all that was seen of a job that did not end",
    "commands.sh": "the cell by hand",
    "commands.txt": "the commands that were run",
    "evidence.json": "all that was seen from outside",
    "cell.json": "the verdict, and each item of evidence",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A file of a cell."""

    name: str
    size: str
    about: str
    command: str = ""  # the page that shows it, if a browser cannot show the file


def read_results(folder: Path) -> Json:
    """Return the results of the run in this folder.

    Raises:
        UsageError: it has none, or they are not those of a run.
    """

    file = folder / "results.json"
    if not folder.is_dir():
        raise UsageError(f"there is no run {folder}; 'impilab ls runs' shows them")

    if not file.exists() and not (folder / "plan.json").exists():
        raise UsageError(
            f"{folder} is not a run: it has no plan.json; 'impilab ls runs' shows those of runs/"
        )

    if not file.exists():
        raise UsageError(
            f"{file} is missing: the run is under way, or was killed; 'impilab run --resume' ends it"
        )

    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, *MALFORMED) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None

    if not isinstance(value, dict) or value.get("schema") != "impilab/results/1":
        raise UsageError(
            f"{file} is not a file of results (impilab/results/1) of 'impilab run'"
        )

    return value


def write_pages(folder: Path, *, history: bool = False) -> Path:
    """Write all pages of a run that is over; return the first one.

    ``history``: a page of all runs is in the folder above.

    Raises:
        UsageError: the folder is none of such a run.
        LabError: they cannot be written.
    """
    value = read_results(folder)
    try:
        files = [
            name for name in _OF_RUN if name == MARKDOWN or (folder / name).exists()
        ]
        _write(RunView(value, files), folder, history)
    except OSError as error:
        raise LabError(
            f"the pages of {folder} cannot be written: {error.strerror}"
        ) from error
    except MALFORMED as error:
        raise UsageError(
            f"{folder}/results.json is not complete ({error}); run the cells again"
        ) from None

    return folder / PAGE


def _write(run: RunView, folder: Path, history: bool) -> None:
    write_statics(folder)
    (folder / PAGE).write_text(render(PAGE, run=run, root="", history=history), "utf-8")
    (folder / MARKDOWN).write_text(render(MARKDOWN, run=run), "utf-8")
    for cell in run.cells:
        where = folder / cell.folder
        if cell.page and where.is_dir():
            (where / PAGE).write_text(cell_page(run, cell, where), "utf-8")


def write_statics(folder: Path) -> None:
    """Write the style and the script that the pages of a folder share."""
    for name, text in statics().items():
        (folder / name).write_text(text, "utf-8")


def statics() -> dict[str, str]:
    """Return the style and the script of pages, by file name."""
    script = Path(__file__).with_name("page.js")
    return {"pages.css": render("pages.css"), "page.js": script.read_text("utf-8")}


def render(name: str, **values: object) -> str:
    """Return a template of this package, filled in."""
    text: str = _templates().get_template(f"pages/{name}").render(values)
    # An argument in another encoding is not text
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _templates() -> Environment:
    # imported here: it takes 60 ms, which other verbs should not pay
    from jinja2 import Environment, PackageLoader, select_autoescape

    found = Environment(
        loader=PackageLoader("impi.lab", "report"),
        autoescape=select_autoescape(["html", "svg"]),
        keep_trailing_newline=True,
    )
    found.filters["cell"] = _in_markdown

    return found


def _in_markdown(value: object) -> str:
    """Return a text for a list or a table in Markdown, which it cannot end."""
    text = " ".join(str(value).split())
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")

    return text


def cell_page(run: RunView, cell: CellView, where: Path) -> str:
    """Return the page of a cell, whose files are in the folder ``where``."""
    with os.scandir(where) as found:
        sizes = {
            entry.name: entry.stat().st_size
            for entry in found
            if entry.is_file() and entry.name != PAGE
        }

    words = {
        name: _begin_of(where / name)
        for name in sorted(sizes)
        if name.endswith(".stderr") and cell.is_red
    }
    timelines = [_timeline(attempt, cell, where) for attempt in cell.attempts]

    return render(
        "cell.html",
        run=run,
        cell=cell,
        root="../" * len(Path(cell.folder).parts),
        after=run.next_red.get(cell.id),
        hang=_begin_of(where / "hang.txt") if "hang.txt" in sizes else "",
        words={name: text for name, text in words.items() if text},
        timelines=timelines,
        has_timeline="timeline.html" in sizes,
        files=list(_files(run, cell, sizes)),
    )


def _timeline(attempt: Json, cell: CellView, where: Path) -> str:
    """Return the timeline of an attempt, as linked from its cell's page; empty: there is none."""
    inner = str(attempt["folder"]).removeprefix(cell.folder).strip("/")
    name = f"{inner}/timeline.html" if inner else "timeline.html"

    return name if attempt["folder"] and (where / name).exists() else ""


def _files(
    run: RunView, cell: CellView, sizes: Mapping[str, int]
) -> Iterator[FileView]:
    first = [name for name in _ABOUT if name in sizes]
    for name in [*first, *sorted(sizes.keys() - _ABOUT.keys())]:
        about, command = _ABOUT.get(name, ""), ""
        if name.endswith(".pcap"):
            about = f"packets of {name.removesuffix('.pcap')}:"
            command = f"impi decode runs/{run.name}/{cell.folder}/{name}"
        elif name.endswith((".stdout", ".stderr")):
            about = f"what the {name.rpartition('.')[0]} wrote"

        yield FileView(
            name=name, size=_octets(sizes[name]), about=about, command=command
        )


def _octets(count: int) -> str:
    if count < 1000:
        return f"{count} B"

    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def _begin_of(file: Path) -> str:
    with file.open("rb") as text:
        found = text.read(_MOST_OCTETS + 1)

    more = f"\n... {file.name} has the rest" if len(found) > _MOST_OCTETS else ""
    return found[:_MOST_OCTETS].decode("utf-8", "replace") + more
