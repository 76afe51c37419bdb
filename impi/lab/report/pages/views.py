"""Records of ``results.json`` in the form that pages show.

How it works: pages are made from the file alone, never from objects of a run. So the pages of an
old run, or of a run that another machine has made, can be written again. :class:`RunView` and
:class:`CellView` wrap a record and compute the texts, order and colours of a page; templates have
no logic of their own. A key that older files lack has a default here.
"""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from impi.base.manifests import in_order
from impi.lab.cases import CASES
from impi.lab.report.results import (
    GREEN,
    RED,
    RESULTS,
    Json,
    repeat_command,
    sign_of_result,
    why_self_reported,
)

SELF_REPORTED: Final = "self-reported"
_SLOWEST: Final = 10
_MARKS: Final = {"timeout": "T"}  # few fonts of browsers have the sign of the terminal
_LEGEND: Final = {
    "pass": "passed",
    SELF_REPORTED: "passed, but its packets were not captured",
}


class CellView:
    """One cell of a run: its record, and the values that follow from it."""

    def __init__(self, record: Json, run: Json) -> None:
        self._record, self._run = record, run
        self.id: str = record["id"]
        self.result: str = record["result"]
        self.phase: str = record["phase"]
        self.seconds: float = record["seconds"]
        self.vendors: Sequence[str] = record["parties"]
        self.parties = "+".join(self.vendors)
        self.topology: str = record["topology"]
        self.expected: Json | None = record["expected"]
        own = record["self_reported"] and self.result == "pass"
        self.kind = SELF_REPORTED if own else self.result
        self.mark = _MARKS.get(
            self.result, sign_of_result(self.result, self_reported=own)
        )
        self.took = f"{self.seconds:.1f} s"
        self.folder: str = record["evidence"]["folder"]
        self.page = f"{self.folder}/index.html" if self.folder else ""

    @property
    def is_red(self) -> bool:
        return self.result in RED

    @property
    def name(self) -> tuple[str, str]:
        """The case, and its variant."""
        return self._record["case"], self._record["variant"]

    @property
    def reason(self) -> str:
        return str(self._record["reason"])

    @property
    def sentence(self) -> str:
        """The reason, in one sentence, if it is not a plain pass; empty if it is one."""
        if self.result == "xpass" and self.expected is not None:
            return f"it passed, but row {self.expected['row']} expects {self.expected['result']}"

        if self.kind == SELF_REPORTED:
            return why_self_reported(self._record["unseen"])

        return self.reason

    @property
    def again(self) -> str:
        """The command that repeats it, as it was typed where it ran."""
        told = self._run.get(
            "again", {"impilab": "impilab", "run": f"runs/{self._run['run']}"}
        )
        return repeat_command(self.id, told["run"], told["impilab"])

    @property
    def about(self) -> str:
        """The purpose of its case; empty for a user's own program."""
        case = CASES.get(self._record["case"])
        if case is None:
            return ""

        return case.description + (
            f" (IMPI {', '.join(case.clauses)})" if case.clauses else ""
        )

    @property
    def failed(self) -> list[Json]:
        return [item for item in self._record["evidence"]["items"] if not item["ok"]]

    @property
    def fulfilled(self) -> list[str]:
        return [
            item["name"] for item in self._record["evidence"]["items"] if item["ok"]
        ]

    @property
    def attempts(self) -> Sequence[Json]:
        found: Sequence[Json] = self._record["attempts"]
        return found

    @property
    def facts(self) -> dict[str, object]:
        """Small print, by name."""
        software = self._run["software"]
        return {
            "phase": self.phase,
            "blame": self._record["blame"],
            "took": self.took,
            "backend": self._run["backend"],
            "hash": self._record["hash"],
            **_versions(self._run),
            **{name: text for name, text in software.items() if name in self.vendors},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the matrix: vendors in client order, and their topology."""

    topology: str
    parties: str
    first: bool  # of its topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The matrix of a run: a row for each case, a column for each vendors and topology."""

    groups: Sequence[tuple[str, int]]  # a topology, and the number of its columns
    columns: Sequence[Column]
    rows: Sequence[tuple[tuple[str, str], Sequence[tuple[Column, CellView | None]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Text in rows and columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class RunView:
    """One run: the value of its ``results.json``.

    ``files``: the names of other files in its folder that have a link.
    """

    def __init__(self, value: Json, files: Iterable[str] = ()) -> None:
        self.value, self.files = value, list(files)
        self.name: str = value["run"]
        self.backend: str = value["backend"]
        self.seconds: float = value["seconds"]
        self.commit: str = value.get("commit", "")
        self.problems: Sequence[str] = value["expectations"]
        # Only the results of a run that is over have an exit code.
        self.is_over = "exit" in value
        self.cells = [CellView(record, value) for record in value["cells"]]

    @cached_property
    def red(self) -> list[CellView]:
        return sorted(
            (cell for cell in self.cells if cell.is_red),
            key=lambda cell: (RED.index(cell.result), cell.id),
        )

    @cached_property
    def next_red(self) -> dict[str, CellView]:
        """By the id of a red cell: the red cell whose page follows."""
        pages = [cell for cell in self.red if cell.page]
        return {cell.id: after for cell, after in itertools.pairwise(pages)}

    @property
    def title(self) -> str:
        """The outcome in one line."""

        ran = sum(map(_ran, self.cells))
        missed = sum(cell.result == "skipped" for cell in self.cells)
        text = (
            f"{len(self.red)} red of {ran} cells"
            if self.red
            else f"{ran} cells, none of them red"
        )
        left = "were not reached" if self.is_over else "to come"

        return f"{text}; {missed} {left}" if missed else text

    @property
    def state(self) -> tuple[str, str]:
        """The state of the run in a word, and the result whose colour the word has."""
        if self.red:
            return "red", "fail"

        return ("green", "pass") if self.is_over else ("running", "skipped")

    @property
    def facts(self) -> dict[str, object]:
        """Small print, by name."""
        value = self.value
        return {
            "run": self.name,
            "began": value["started"],
            "took": _duration(self.seconds),
            "backend": self.backend,
            **_versions(value),
            "machine": _machine(value.get("machine", {})),
        }

    @property
    def versions(self) -> dict[str, object]:
        """The versions under test, the system, and how to run it again, by name."""
        value = self.value
        command = shlex.join(["impilab", *value["argv"]])

        return {
            **value["software"],
            **value["builds"],
            "seed": value["seed"],
            "command": command,
        }

    @property
    def vendors(self) -> list[str]:
        return sorted(
            {vendor for cell in self.cells for vendor in cell.vendors}, key=in_order
        )

    @property
    def topologies(self) -> list[str]:
        return sorted({cell.topology for cell in self.cells}, key=_size)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of cells with each result."""
        counts = Counter(cell.kind for cell in self.cells)
        return {
            kind: counts[kind]
            for kind in ("pass", SELF_REPORTED, *RESULTS[1:])
            if counts[kind]
        }

    @property
    def legend(self) -> str:
        """The signs that occur, each with its meaning."""
        marks = {cell.kind: cell.mark for cell in self.cells}
        return ", ".join(
            f"{marks[kind]} {_LEGEND.get(kind, kind)}" for kind in self.kinds
        )

    @property
    def expected(self) -> list[CellView]:
        return sorted(
            (cell for cell in self.cells if cell.expected is not None),
            key=lambda cell: cell.id,
        )

    @property
    def left_out(self) -> list[tuple[tuple[str, str], list[CellView]]]:
        """Cells that were not run, by result and reason, the most frequent first."""
        found: dict[tuple[str, str], list[CellView]] = {}
        for cell in self.cells:
            if cell.result in ("unsupported", "skipped"):
                found.setdefault((cell.result, cell.reason), []).append(cell)

        return sorted(found.items(), key=lambda each: -len(each[1]))

    @property
    def slow(self) -> list[CellView]:
        return sorted(
            (c for c in self.cells if c.seconds), key=lambda cell: -cell.seconds
        )[:_SLOWEST]

    @cached_property
    def matrix(self) -> Matrix:
        places = {(cell.name, cell.topology, cell.parties): cell for cell in self.cells}
        pairs = {(cell.topology, cell.parties): cell.vendors for cell in self.cells}

        columns, groups = list[Column](), list[tuple[str, int]]()
        for topology in self.topologies:
            there = [key for key in pairs if key[0] == topology]
            there.sort(key=lambda key: [in_order(vendor) for vendor in pairs[key]])
            groups.append((topology, len(there)))
            columns += [
                Column(topology=key[0], parties=key[1], first=not i)
                for i, key in enumerate(there)
            ]

        rows = [
            (
                name,
                [
                    (column, places.get((name, column.topology, column.parties)))
                    for column in columns
                ],
            )
            for name in sorted({cell.name for cell in self.cells})
        ]

        return Matrix(groups=groups, columns=columns, rows=rows)

    @cached_property
    def pairs(self) -> Table:
        """The passes by vendors and topology, as a small table."""

        topologies = [
            t
            for t in self.topologies
            if any(c.topology == t and _ran(c) for c in self.cells)
        ]
        parties = dict.fromkeys(column.parties for column in self.matrix.columns)

        rows = []
        for each in parties:
            mine = [
                [
                    c
                    for c in self.cells
                    if c.parties == each and c.topology == t and _ran(c)
                ]
                for t in topologies
            ]
            if any(mine):
                rows.append([each, *map(_score, mine)])

        return Table(columns=["clients", *topologies], rows=rows)


def _ran(cell: CellView) -> bool:
    return cell.result not in ("unsupported", "skipped")


def _score(cells: Sequence[CellView]) -> str:
    if not cells:
        return ""

    green = [cell for cell in cells if cell.result in GREEN]
    marks = dict.fromkeys(
        cell.mark for cell in sorted(cells, key=lambda c: not c.is_red)
    )

    return f"{len(green)}/{len(cells)} {next(iter(marks))}"


def _versions(value: Json) -> dict[str, object]:
    """Return the versions under test; empty: the run is older than their record."""
    return {name: value.get(name, "") for name in ("impi", "commit")}


def _machine(value: Json) -> str:
    """Return a machine in a few words; empty: the run is older than its record."""
    if not value:
        return ""

    return f"{value['processor']}, {value['cores']} cores, load {value['load'][0]:.1f} when it began"


def _duration(seconds: float) -> str:
    return (
        f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
        if seconds >= 60
        else f"{seconds:.1f} s"
    )


def _size(topology: str) -> tuple[int, int, str]:
    """The order of topologies: few clients before many, short names before long ones."""
    return topology.count("+"), len(topology), topology
