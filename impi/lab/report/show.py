"""The display of a run: live progress on a terminal or plain lines, the matrix, red cells.

How it works: the scheduler tells a :class:`Screen` when a cell begins and when it is done. On a
terminal one line at the bottom is written over; in a log, and on a dumb terminal, every cell is one
plain line, because nothing there can be written over. A red cell is shown with its reason at once:
a reader of a long run need not wait for its end.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from impi.base.manifests import in_order
from impi.lab.plan.cell import Cell
from impi.lab.report.results import repeat_command, sign_of_result, typed_command
from impi.lab.run.collection import Seen
from impi.lab.run.schedule import Done

_COLOURS = {
    "pass": "green",
    "fail": "red",
    "timeout": "red",
    "flaky": "red",
    "error": "magenta",
}
_WORST = ("fail", "timeout", "flaky", "error", "xpass", "xfail")
_WIRE_LINES = 3
_REASON_LINES = 3
_WIDTH = 160


class Screen:
    """Shows a run. ``began`` and ``done`` are given to the scheduler."""

    def __init__(self, console: Console, total: int, folder: Path) -> None:
        self._console, self._total, self._folder = console, total, folder
        self._running: dict[str, float] = {}
        self._results = Counter[str]()
        self._start = time.monotonic()
        self._live = Live(
            console=console,
            transient=True,
            refresh_per_second=4,
            get_renderable=self._status,
        )
        # FORCE_COLOR brings colours into a log, but no line of a log is written over.
        self._is_live = (
            console.is_terminal
            and not console.is_dumb_terminal
            and console.file.isatty()
        )

    def __enter__(self) -> Screen:
        if self._is_live:
            self._live.start()

        return self

    def __exit__(self, *_exc: object) -> None:
        if self._is_live:
            self._live.stop()

    def began(self, cell: Cell) -> None:
        self._running[cell.id] = time.monotonic()

    def done(self, result: Done) -> None:
        self._running.pop(result.cell.id, None)
        mark = sign_of_result(result.result, self_reported=result.verdict.self_reported)
        self._results[mark] += 1
        line = Text(f" {mark} ", style=_COLOURS.get(result.result, "yellow"))

        line.append(f"{result.cell.id:<52} {result.seconds:6.1f}s", style="")
        if not self._is_live:
            line.append(f"  [{self._results.total()}/{self._total}]")

        if len(result.attempts) > 1:
            passed = sum(a.verdict.outcome == "pass" for a in result.attempts)
            line.append(f"  {passed} of {len(result.attempts)} attempts passed")

        if result.row is not None:
            line.append(
                f"  {result.result}: {result.row} expects {result.row.result}, {result.row.issue}"
            )

        self._print(line)
        if result.result not in ("pass", "xfail", "xpass"):
            for text in failure_lines(result, self._folder):
                self._print(Text(text))

    def tell(self, text: str) -> None:
        """Print on standard error, apart from results; safe in a signal handler."""
        os.write(2, f"impilab: {text}\n".encode())

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)

    def _status(self) -> Text:
        seconds = time.monotonic() - self._start
        marks = "  ".join(
            f"{mark}{count}" for mark, count in list(self._results.items())
        )
        now = ", ".join(
            f"{name} {time.monotonic() - at:.0f}s"
            for name, at in list(self._running.items())
        )

        return Text(
            f"[{self._results.total()}/{self._total}] {marks}  {seconds:.0f}s  {now}",
            no_wrap=True,
            overflow="ellipsis",
        )


def failure_lines(result: Done, folder: Path) -> list[str]:
    """Return a red cell in at most ten lines: expected, actual, rank, phase, end of the wire."""

    verdict, item = result.verdict, result.verdict.culprit
    lines = [f"   {verdict.outcome.upper()} {result.cell.id}  [{result.cell.hash}]"]

    lines.append(
        f"     phase     {verdict.phase}, after {result.seconds:.1f} s; blame: {verdict.blame}"
    )
    if item is not None and item.name in verdict.reason:
        lines += [
            f"     expected  {item.expected}  ({item.name})",
            f"     actual    {item.actual}",
        ]
    else:
        lines += _paragraph(
            "reason",
            textwrap.wrap(verdict.reason, _WIDTH - 15, max_lines=_REASON_LINES) or [""],
        )

    about = item.about if item is not None else ()
    lines += _last_words(result.seen)
    lines += _evidence_lines(result.seen, f"{folder}/cells/{result.cell.hash}/", about)
    lines.append(
        f"     again     {repeat_command(result.cell.id, str(folder), typed_command())}"
    )
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in lines]

    # The last line is a command, and must be whole.
    return [
        line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
        for line in lines[:-1]
    ] + lines[-1:]


def _last_words(seen: Seen | None) -> list[str]:
    """Return the first and the last line of the command that failed first; the cause is on top."""

    if seen is None:
        return []

    ends = [
        c
        for c in (*seen.evidence.clients, seen.evidence.server)
        if c is not None and c.code and c.stderr.strip()
    ]
    if not ends:
        return []

    first = min(
        ends, key=lambda c: c.ended_s if c.ended_s is not None else float("inf")
    )
    said = [line.strip() for line in first.stderr.splitlines() if line.strip()]
    shown = said if len(said) < 3 else [said[0], said[-1]]

    return _paragraph("stderr", [f"{first.who}: {line}" for line in shown])


def _evidence_lines(seen: Seen | None, where: str, about: Sequence[str]) -> list[str]:
    if seen is None:
        return [f"     files     {where}"]

    wire, lines = seen.evidence.wire, []
    # A hang is explained by a message that did not come, not by the last one that came.
    if wire is not None and wire.standing is None:
        telling = [
            line
            for line in wire.timeline
            if about and all(word in f"{line} " for word in about)
        ]
        lines = _paragraph(
            "wire", [line.strip() for line in (telling or wire.timeline)[-_WIRE_LINES:]]
        )

    lines.append(f"     files     {where} (timeline.html)")

    return (
        lines
        if seen.evidence.look is None
        else [*lines, f"     hang      {where}hang.txt"]
    )


def _paragraph(head: str, lines: Sequence[str]) -> list[str]:
    return [f"     {head if i == 0 else '':<10}{line}" for i, line in enumerate(lines)]


def matrix(results: Sequence[Done], console: Console) -> None:
    """Print passes by vendors: a table of pairs per topology, lines for other combinations."""
    topologies = list(dict.fromkeys(str(r.cell.topology) for r in results))
    for topology in topologies:
        here = [r for r in results if str(r.cell.topology) == topology]
        if len(here[0].cell.vendors) == 2:
            _pairs(topology, here, console)
        else:
            for parties in dict.fromkeys(r.cell.parties for r in here):
                text = Text(f" {topology}  {parties}  ")
                text.append_text(_score([r for r in here if r.cell.parties == parties]))
                console.print(text, highlight=False)


def _pairs(topology: str, results: Sequence[Done], console: Console) -> None:
    rows, columns = (
        sorted({r.cell.vendors[i] for r in results}, key=in_order) for i in (0, 1)
    )
    console.print(f"{topology}: client 0 down, client 1 across", highlight=False)

    table = Table("", *(Column(column, justify="right") for column in columns))
    for row in rows:
        table.add_row(
            row,
            *(
                _score([r for r in results if r.cell.vendors == (row, column)])
                for column in columns
            ),
        )

    console.print(table)


def _score(results: Sequence[Done]) -> Text:
    if not results:
        return Text("")

    passed = [r for r in results if r.verdict.outcome == "pass"]
    own = any(r.verdict.self_reported for r in passed)
    kinds = {r.result for r in results}
    worst = next((name for name in _WORST if name in kinds), "pass")

    return Text(
        f"{len(passed)}/{len(results)} {sign_of_result(worst, self_reported=own)}",
        style=_COLOURS.get(worst, "yellow"),
    )
