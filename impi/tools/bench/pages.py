"""Write the tables in docs/measurements from a run, so that no page outlives its figures.

A page has marks, which are comments that readers do not see. The text between a mark and its end is
generated::

    <!-- figures: latency; Python, 1+1; mpich's own TCP -->
    <!-- end of figures -->

A mark names measures (``collectives`` are all usual ones), a variant and a reference of rows; the
last two are shell patterns. The mark ``origin`` becomes commit, date and machine. The run is kept
beside the pages, as :data:`KEPT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.plotting import write_file
from impi.launch.start.program import ROOT
from impi.tools.bench.measures.usual import CALLS
from impi.tools.bench.rows import Row, octets
from impi.tools.bench.run_file import Report, load, save
from impi.tools.bench.terminal_table import number

FOLDER: Final = Path(ROOT) / "docs" / "measurements"
KEPT: Final = "usual.json"
_MARK: Final = re.compile(
    r"(<!-- figures: (.+?) -->\n).*?(<!-- end of figures -->)", re.DOTALL
)
_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class _Question:
    """The rows that a mark asks for."""

    measures: tuple[str, ...]
    variant: str
    against: str

    def fits(self, row: Row) -> bool:
        return (
            row.measure in self.measures
            and fnmatchcase(row.variant, self.variant)
            and fnmatchcase(row.against, self.against)
        )


def write_pages(report: Report, folder: Path = FOLDER) -> list[Path]:
    """Keep the run and write its figures into the pages; return the pages that have any.

    Raises:
        UsageError: there are no pages, a mark asks for nothing, or a file cannot be written.
    """

    if not folder.is_dir():
        raise UsageError(
            f"there is no {folder}: figures go into the pages of a checkout"
        )

    save(report, folder / KEPT, brief=True)
    # Written from the file, so that others get the same pages: it has fewer digits
    kept = load(folder / KEPT)
    texts = {path: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}

    pages = {
        path: page(kept, text) for path, text in texts.items() if _MARK.search(text)
    }
    for path, text in pages.items():
        write_file(path, text)

    return list(pages)


def page(report: Report, text: str) -> str:
    """Return the text of a page with the figures of a run at its marks.

    Raises:
        UsageError: a mark is malformed, or no row fits it.
    """
    return _MARK.sub(
        lambda found: found[1] + _figures(report, found[2]) + found[3], text
    )


def _figures(report: Report, words: str) -> str:
    if words == "origin":
        return _origin(report)

    parts = [part.strip() for part in words.split(";")]
    if len(parts) != 3:
        raise UsageError(
            f"a mark says 'figures: MEASURES; VARIANT; REFERENCE', not {words!r}"
        )

    measures = parts[0].replace("collectives", " ".join(CALLS)).split()
    question = _Question(tuple(measures), parts[1], parts[2])

    return _grid([row for row in report.rows if question.fits(row)])


def _grid(rows: Sequence[Row]) -> str:
    """Return a table: a line for each measure and size, a column for each pair, and the bound."""

    vendors = list(dict.fromkeys(row.vendors for row in rows))

    lines: dict[str, dict[str, Row]] = {}
    for row in rows:
        lines.setdefault(_about(row, rows), {})[row.vendors] = row

    if not lines:
        return "This run has not measured it.\n"

    bounds = {name: _bounds(found.values()) for name, found in lines.items()}
    bounded = any(bounds.values())
    heads = ["", *vendors, *(["bound"] if bounded else [])]

    text = [_line(heads), _line(["---"] * len(heads))]
    for name, found in lines.items():
        cells = [_cell(found[pair]) if pair in found else "" for pair in vendors]
        text.append(_line([name, *cells, *([bounds[name]] if bounded else [])]))

    return "\n".join(text) + "\n"


def _about(row: Row, rows: Sequence[Row]) -> str:
    """Return what distinguishes a row from the other lines of its table."""

    size = octets(row.size).replace(" B", " octets")
    variants = len({other.variant for other in rows}) > 1
    words = [
        row.measure,
        *([row.variant] if variants else []),
        *([size] if size else []),
    ]

    return f"{', '.join(words)} ({row.unit})"


def _bounds(rows: Iterable[Row]) -> str:
    return "; ".join(dict.fromkeys(str(row.bound) for row in rows if row.bound))


def _cell(row: Row) -> str:
    """Return ratio and value of a row, as far as it has them; bold if its bound does not hold."""

    if row.error or row.value is None:
        return "not measured"

    value = number(row.value.median)
    text = f"{number(row.ratio.median)} x ({value})" if row.ratio else value

    return f"**{text}**" if row.holds is False else text


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _origin(report: Report) -> str:
    """Return commit, date, machine, options and versions as text."""

    machine, options = report.machine, report.options
    load = machine.get("load")
    busy = f", load {load[0]:.1f} at the start" if isinstance(load, list) else ""
    words = [
        f"Commit {report.versions.get('commit', 'unknown')}, {report.when[:10]}.",
        f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('system')}{busy}.",
        f"Medians of {options.get('runs')} rounds{_tuned(options)}.",
        "; ".join(
            f"{name} {text}"
            for name, text in report.versions.items()
            if name != "commit"
        )
        + ".",
    ]

    return _filled(" ".join(words).split())


def _tuned(options: Mapping[str, object]) -> str:
    words = [
        *(["a tenth of the iterations"] if options.get("quick") else []),
        *(
            [f"waits that spin for {options['spin']} s"]
            if options.get("spin") is not None
            else []
        ),
        *(["a core for each rank"] if options.get("cores") else []),
    ]
    return ", ".join(["", *words]) if words else ", default settings"


def _filled(words: Iterable[str]) -> str:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append("")

        lines[-1] += (" " if lines[-1] else "") + word

    return "\n".join(lines) + "\n"
