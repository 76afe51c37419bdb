"""The files of one attempt at a cell, in its own folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from impi.lab.judge.verdict import Verdict
from impi.lab.judge.waits import Waits
from impi.lab.plan.cell import Cell
from impi.lab.report.cell_timeline import as_lines, merge
from impi.lab.report.hang_report import hang_lines, state
from impi.lab.report.timeline_html import Head, as_html
from impi.lab.run.collection import Seen

CAPTURE_CHOICES: Final = ("keep", "failures", "none")
"""Cells whose captures are kept: all, those that did not pass, none."""


def write_seen(
    cell: Cell, seen: Seen, verdict: Verdict, folder: Path, *, capture: str = "keep"
) -> None:
    """Write all files.

    Timelines go with captures; cells that did not pass always keep theirs, which are small.

    Raises:
        OSError: the folder cannot be written.
    """

    folder.mkdir(exist_ok=True)
    evidence, passed = seen.evidence, verdict.outcome == "pass"
    (folder / "evidence.json").write_text(
        json.dumps({"nonce": seen.nonce, **evidence.to_json()}, indent=1), "utf-8"
    )
    (folder / "commands.txt").write_text("\n".join(seen.command_lines) + "\n", "utf-8")
    (folder / "commands.sh").write_text(seen.script, "utf-8")

    (folder / "commands.sh").chmod(0o755)
    for command in filter(None, (evidence.server, *evidence.clients)):
        name = command.who.replace(" ", "")
        (folder / f"{name}.stdout").write_text(command.stdout, "utf-8")
        (folder / f"{name}.stderr").write_text(command.stderr, "utf-8")

    if capture == "keep" or (capture == "failures" and not passed):
        for one in seen.captures:
            (folder / f"{one.node}.pcap").write_bytes(one.pcap)

    if capture == "keep" or not passed:
        _write_timelines(cell, seen, verdict, folder)


def read_evidence(folder: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a cell's evidence in a run, by its record; empty: the run has none."""
    try:
        return dict(
            json.loads(
                (folder / record["evidence"]["folder"] / "evidence.json").read_text(
                    "utf-8"
                )
            )
        )
    except (OSError, ValueError):
        return {}


def told_verdict(record: Mapping[str, Any]) -> str:
    """Return the result of a cell, with the reason unless it passed."""
    return (
        str(record["result"])
        if record["outcome"] == "pass"
        else f"{record['result']}: {record['reason']}"
    )


def _write_timelines(cell: Cell, seen: Seen, verdict: Verdict, folder: Path) -> None:
    facts = seen.facts(cell)
    entries, report = merge(seen, cell.roster), hang_lines(facts, cell.id)

    (folder / "timeline.txt").write_text("\n".join(as_lines(entries)) + "\n", "utf-8")
    if report:
        (folder / "hang.txt").write_text("\n".join(report) + "\n", "utf-8")

    waits = Waits(facts)
    ranks = (
        [
            (cell.roster.label(r.rank), state(facts, waits, r.rank))
            for r in cell.roster.ranks
        ]
        if report
        else []
    )
    evidence, wire = seen.evidence, seen.evidence.wire
    places = f" on {', '.join(evidence.lab.unseen)}" if evidence.lab.unseen else ""
    unseen = f"no capture{places}: what crossed is not known"
    small = {
        "phase": verdict.phase,
        "blame": verdict.blame,
        "took": f"{seen.evidence.times.seconds:.1f} s",
        "wire": f"{wire.messages} messages crossed" if wire is not None else unseen,
    }
    head = Head(
        title=cell.id,
        outcome=verdict.outcome,
        sentence=verdict.reason,
        facts={name: value for name, value in small.items() if value},
        ranks=ranks,
        report="\n".join(report),
    )
    (folder / "timeline.html").write_text(as_html(head, entries, cell.roster), "utf-8")
