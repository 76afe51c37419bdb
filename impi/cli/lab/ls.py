"""``impilab ls``: what there is, as a table that fits the terminal, or as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from impi.base.errors import refuse
from impi.base.manifests import vendors
from impi.cli.ending import JSON, Verbs, add_verb, show, show_rows
from impi.cli.lab.select import RUNS, clusters
from impi.lab.cases import CASES, TAGS
from impi.lab.cases.clauses import CLAUSES
from impi.lab.cases.clauses import table as clause_table
from impi.lab.plan.clusters import list_clusters
from impi.lab.report.results import list_runs

Row: TypeAlias = "dict[str, Any]"


def add_ls(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "ls",
        _ls,
        {
            "what": {"choices": tuple(_LISTS)},
            "--clauses": {
                "action": "store_true",
                "help": "for cases: list each clause with the items and cases that turn red without it",
            },
            **JSON,
        },
        help="list cases, tags, vendors, topologies or runs",
    )


def _ls(options: argparse.Namespace) -> int:
    refuse(
        (
            options.clauses and options.what != "cases",
            f"--clauses lists cases, not {options.what}: write 'impilab ls cases --clauses'",
        ),
    )
    if options.clauses:
        if options.json:
            show_rows("clauses", _clauses())
        else:
            show(clause_table())

        return 0

    rows, columns = _LISTS[options.what]
    if options.json:
        show_rows(options.what, rows())
    else:
        show_table([columns(row) for row in rows()])

    return 0


def show_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; on a terminal the last one is wrapped, elsewhere a row is a line."""

    if not rows:
        return

    # For people a cell is wrapped. For grep and awk each row is one line, whatever its length.
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False)
        for i in range(len(rows[0])):
            table.add_column(no_wrap=i < len(rows[0]) - 1)

        for row in rows:
            # As plain text: rich would take [variant] for markup.
            table.add_row(*map(Text, row))

        Console(highlight=False).print(table)

        return

    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(
                f"{text:<{width}}" for text, width in zip(row, widths, strict=True)
            ).rstrip()
        )


# -- what there is: rows for programs, and their columns for people


def _cases() -> Iterator[Row]:
    for case in CASES.values():
        yield {
            "name": case.name,
            "description": " ".join(case.description.split()),
            "variants": [variant for variant in case.variants if variant],
            "clauses": list(case.clauses),
            "tags": list(case.labels),
        }


def _case_columns(row: Row) -> list[str]:
    variants = "".join(f" [{variant}]" for variant in row["variants"])
    cited = f" (IMPI {', '.join(row['clauses'])})" if row["clauses"] else ""
    return [
        row["name"],
        f"{row['description']}{variants}{cited} {' '.join(f'@{tag}' for tag in row['tags'])}",
    ]


def _clauses() -> Iterator[Row]:
    for clause in CLAUSES:
        yield {
            "number": clause.number,
            "about": clause.about,
            "items": list(clause.items),
            "cases": list(clause.cases),
        }


def _tags() -> Iterator[Row]:
    for tag in TAGS:
        yield {
            "name": tag,
            "cases": [case.name for case in CASES.values() if tag in case.labels],
        }


def _vendors() -> Iterator[Row]:
    for each in vendors():
        yield {
            "name": each.name,
            "title": each.title,
            "version": each.version,
            "kind": each.kind,
            "tier": each.tier,
            "versions": list(each.versions),
        }


def _vendor_columns(row: Row) -> list[str]:
    versions = " ".join(f"@{version}" for version in row["versions"])
    return [
        row["name"],
        f"{row['title']} {row['version']}".rstrip(),
        row["kind"],
        f"tier {row['tier']}",
        versions,
    ]


def _topologies() -> Iterator[Row]:
    for cluster in list_clusters(clusters()):
        yield {
            "name": cluster.name,
            "topology": str(cluster.topology),
            "parties": list(cluster.parties),
            "description": cluster.description,
        }


def _runs() -> Iterator[Row]:
    for name, value in list_runs(RUNS):
        yield {
            "name": name,
            **{key: value[key] for key in ("backend", "seconds", "exit", "totals")},
        }


def _run_columns(row: Row) -> list[str]:
    totals = ", ".join(f"{count} {outcome}" for outcome, count in row["totals"].items())
    return [
        row["name"],
        row["backend"],
        f"{row['seconds']:7.1f}s",
        f"exit {row['exit']}",
        totals,
    ]


_LISTS: Final[
    Mapping[str, tuple[Callable[[], Iterator[Row]], Callable[[Row], list[str]]]]
] = {
    "cases": (_cases, _case_columns),
    "tags": (_tags, lambda row: [f"@{row['name']}", ", ".join(row["cases"])]),
    "vendors": (_vendors, _vendor_columns),
    "topologies": (
        _topologies,
        lambda row: [
            row["name"],
            row["topology"],
            "+".join(row["parties"]),
            row["description"],
        ],
    ),
    "runs": (_runs, _run_columns),
}
