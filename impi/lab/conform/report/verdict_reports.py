"""Reports of a run for users: lines as tests end, a table of clauses, JSON, JUnit, HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from impi.base.errors import UsageError
from impi.base.files import reading
from impi.lab.conform.outcomes import ClauseVerdict, Outcome, of_clause
from impi.lab.conform.script.script_files import clause_order

FORM: Final = "impi conform 1"
"""The schema's name, with which a JSON report begins."""
_MARKS: Final = {
    ClauseVerdict.HOLDS: "holds",
    ClauseVerdict.BROKEN: "BROKEN",
    ClauseVerdict.UNTESTED: "-",
    ClauseVerdict.UNDECIDED: "undecided",
}
_COLOURS: Final = {
    ClauseVerdict.HOLDS: "#1a7f37",
    ClauseVerdict.BROKEN: "#cf222e",
    ClauseVerdict.UNTESTED: "#6e7781",
    ClauseVerdict.UNDECIDED: "#9a6700",
}


def line(outcome: Outcome) -> str:
    """Return one line for one test."""
    text = f"{outcome.verdict.value:13} {outcome.test}"
    if outcome.level != "MUST":
        text += f" ({outcome.level})"

    return f"{text}: {outcome.why}" if outcome.why else text


def details(outcome: Outcome) -> list[str]:
    """Return the lines that explain a broken clause: step, expected, actual, octets."""
    told = [
        ("clause", f"IMPI {outcome.clause}, {outcome.level}: {outcome.title}"),
        ("step", outcome.step),
        ("expected", outcome.expected),
        ("actual", outcome.actual),
        ("octets", outcome.octets),
        ("job", outcome.configuration),
    ]
    return [f"    {name:9} {text}" for name, text in told if text]


def by_clause(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each clause, in order."""
    found: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda o: (clause_order(o.clause), o.test)):
        found.setdefault(outcome.clause, []).append(outcome)

    return found


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table of clauses and a last line of counts."""

    lines = []
    for clause, tests in by_clause(outcomes).items():
        counts = Counter(outcome.verdict for outcome in tests)
        told = ", ".join(f"{counts[v]} {v.value}" for v in ClauseVerdict if counts[v])
        lines.append(
            f"IMPI {clause:7} {of_clause(tests).value:13} {told:40} {TITLES.get(clause, '')}".rstrip()
        )

    counts = Counter(outcome.verdict for outcome in outcomes)
    lines.append(
        f"{len(outcomes)} tests: "
        + ", ".join(f"{counts[v]} {v.value}" for v in ClauseVerdict if counts[v])
    )

    return lines


def as_json(name: str, outcomes: Sequence[Outcome]) -> str:
    """Return a run as JSON; :func:`read_run` reads it."""
    tests = [
        {**asdict(outcome), "verdict": outcome.verdict.value} for outcome in outcomes
    ]
    clauses = {
        clause: of_clause(found).value for clause, found in by_clause(outcomes).items()
    }

    return (
        json.dumps(
            {"form": FORM, "implementation": name, "clauses": clauses, "tests": tests},
            indent=1,
        )
        + "\n"
    )


def as_junit(suite: str, outcomes: Sequence[Outcome]) -> str:
    """Return a run as JUnit's XML; what is not decidable or not tested is skipped."""

    failures = sum(outcome.verdict is ClauseVerdict.BROKEN for outcome in outcomes)
    skipped = sum(
        outcome.verdict in (ClauseVerdict.UNTESTED, ClauseVerdict.UNDECIDED)
        for outcome in outcomes
    )

    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name={quoteattr(suite)} tests="{len(outcomes)}" failures="{failures}" skipped="{skipped}">',
    ]
    for outcome in outcomes:
        name = quoteattr(outcome.test)
        head = f'<testcase classname="IMPI {outcome.clause}" name={name} time="{outcome.seconds:.3f}"'

        text = escape(
            "\n".join([outcome.why, *details(outcome), *outcome.conversation[-50:]])
        )
        match outcome.verdict:
            case ClauseVerdict.HOLDS:
                lines.append(f"{head}/>")
            case ClauseVerdict.BROKEN:
                lines.append(
                    f"{head}><failure message={quoteattr(outcome.why)}>{text}</failure></testcase>"
                )
            case _:
                told = quoteattr(f"{outcome.verdict.value}: {outcome.why}")
                lines.append(f"{head}><skipped message={told}/></testcase>")

    return "\n".join([*lines, "</testsuite>"]) + "\n"


def as_html(name: str, outcomes: Sequence[Outcome]) -> str:
    """Return a run as one page that loads no other file."""

    rows = []
    for clause, tests in by_clause(outcomes).items():
        verdict = of_clause(tests)

        rows.append(
            f'<h2 style="color:{_COLOURS[verdict]}">IMPI {clause}: {verdict.value} '
            f"<small>{escape(TITLES.get(clause, ''))}</small></h2>"
        )
        for outcome in tests:
            told = "\n".join([outcome.why, *details(outcome), *outcome.conversation])
            rows.append(
                f'<details><summary><b style="color:{_COLOURS[outcome.verdict]}">{outcome.verdict.value}</b> '
                f"{escape(outcome.test)} ({outcome.level}): {escape(outcome.title)}</summary>"
                f"<pre>{escape(told)}</pre></details>"
            )

    last = summary(outcomes)[-1]

    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title>'
        "<style>body{font-family:sans-serif;max-width:70em;margin:auto;padding:1em}h2{font-size:1.1em}"
        "pre{background:#f6f8fa;padding:.6em;overflow-x:auto}</style>"
        f"<h1>{escape(name)}</h1><p>{escape(last)}</p>" + "\n".join(rows) + "</html>\n"
    )


def read_run(path: Path) -> tuple[str, Mapping[str, str]]:
    """Return name and verdicts by clause of a run that was written as JSON.

    Raises:
        UsageError: the file is none.
    """
    with reading(path, "is not a report of impi conform --json"):
        value = json.loads(path.read_text("utf-8"))
        if not isinstance(value, dict) or value["form"] != FORM:
            raise UsageError(
                f"{path} is not a report of impi conform --json; "
                "name a file that 'impi conform --json' has written"
            )

        verdicts = {
            clause: ClauseVerdict(told).value
            for clause, told in value["clauses"].items()
        }

        return str(value["implementation"]), {
            clause: verdicts[clause] for clause in sorted(verdicts, key=clause_order)
        }


def table(runs: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Return lines: a row for each clause, a column for each run."""

    clauses = sorted(
        {clause for _, verdicts in runs for clause in verdicts}, key=clause_order
    )
    widths = [max(len(name), 9) for name, _ in runs]

    lines = [
        "clause   "
        + "  ".join(
            name.ljust(width) for (name, _), width in zip(runs, widths, strict=True)
        )
    ]
    for clause in clauses:
        marks = [
            _MARKS[ClauseVerdict(verdicts.get(clause, ClauseVerdict.UNTESTED.value))]
            for _, verdicts in runs
        ]
        lines.append(
            f"{clause:9}"
            + "  ".join(
                mark.ljust(width) for mark, width in zip(marks, widths, strict=True)
            )
        )

    return [text.rstrip() for text in lines]


TITLES: Final[Mapping[str, str]] = {
    "1.2.2": "types of user data",
    "2.2.1": "start of the server",
    "2.2.2": "start of clients",
    "2.2.4": "strangers at the server",
    "2.3": "a job comes about: the test interpreter answers",
    "2.3.1": "labels that the server does not know",
    "2.3.2": "commands of start-up",
    "2.3.3": "AUTH: authentication",
    "2.3.4": "IMPI: numbers of clients",
    "2.3.5": "COLL: labels, and what follows from them",
    "2.3.6": "DONE: the end of start-up",
    "2.3.7": "FINI: the end of the job",
    "2.3.8": "the dance of the hosts",
    "2.4": "shutdown",
    "2.5": "attributes of clients and hosts",
    "3.1": "procs that share a channel",
    "3.2": "names of procs",
    "3.3": "context ids",
    "3.4": "tags",
    "3.5": "packets and their header",
    "3.6": "flow control",
    "3.7": "short and long messages",
    "3.7.1": "short messages",
    "3.7.2": "long messages",
    "3.7.3": "probing",
    "3.7.4": "cancelling",
    "3.8": "finalisation of channels",
    "3.9": "ranges of values",
    "4.3": "context ids of collectives",
    "4.4": "Comm_create",
    "4.5": "Comm_free",
    "4.6": "Comm_dup",
    "4.7": "Comm_split",
    "4.8": "Intercomm_create",
    "4.9": "Intercomm_merge",
    "4.10": "Barrier",
    "4.11": "Bcast",
    "4.12": "Gather",
    "4.13": "Gatherv",
    "4.14": "Scatter",
    "4.15": "Scatterv",
    "4.16": "Reduce",
    "4.17": "Reduce_scatter",
    "4.18": "Scan",
    "4.19": "Allgather",
    "4.20": "Allgatherv",
    "4.21": "Allreduce",
    "4.22": "Alltoall",
    "4.23": "Alltoallv",
    "4.24": "Finalize",
    "4.25": "tags of collectives",
}
"""By clause."""
