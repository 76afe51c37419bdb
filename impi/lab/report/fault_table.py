"""The fault matrix of a run as tables: required ends beside observed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from impi.lab.cases.ends.fault_matrix import HITS
from impi.lab.cases.faults import ACTS, PHASES, VICTIMS, Fault
from impi.lab.evidence.gathered import CommandSeen
from impi.lab.judge.items_fault import sentences
from impi.lab.plan.variant import parse_variant
from impi.lab.report.evidence_files import read_evidence, told_verdict

_HEAD: Final = (
    "| victim | act | cells | happened | ended in time, with errors | one right sentence everywhere"
    " | nothing left | the slowest other, s |\n|---|---|---|---|---|---|---|---|"
)
_CELLS_HEAD: Final = "| cell | must | ended after, s | exit codes | sentence | verdict |\n|---|---|---|---|---|---|"
_ASKED: Final = ("fault.happened", "fault.ended", "fault.named", "end.leftovers")

_Record = Mapping[str, Any]


def hit_of(record: _Record) -> Fault | None:
    """Return the hit of a cell of a run; None: the cell has none."""
    value = (
        parse_variant(record["variant"]).get("fault", "") if record["variant"] else ""
    )
    return HITS.get(value)


def fault_tables(folder: Path, records: Sequence[_Record]) -> str:
    """Return the tables as Markdown: by victim and act, then by cell; empty: there was no hit."""

    found = [
        (hit, record)
        for record in records
        if (hit := hit_of(record)) is not None and record["attempts"]
    ]
    if not found:
        return ""

    groups: dict[tuple[str, str], list[_Record]] = {}
    for hit, record in found:
        groups.setdefault((hit.victim, hit.act), []).append(record)

    keys = [
        (victim, act) for victim in VICTIMS for act in ACTS if (victim, act) in groups
    ]
    rows = [_row(*key, groups[key], folder) for key in keys]
    order = list(PHASES)
    found.sort(
        key=lambda pair: (
            pair[0].victim,
            pair[0].act,
            order.index(pair[0].phase),
            pair[1]["id"],
        )
    )
    cells = [_cell(hit, record, folder) for hit, record in found]

    return "\n".join([_HEAD, *rows, "", _CELLS_HEAD, *cells, ""])


def _row(victim: str, act: str, records: Sequence[_Record], folder: Path) -> str:
    fulfilled = {
        name: sum(_holds(record, name) for record in records) for name in _ASKED
    }
    harmless = ACTS[act].harmless
    ended = (
        sum(record["outcome"] == "pass" for record in records)
        if harmless
        else fulfilled["fault.ended"]
    )
    named = "-" if harmless else fulfilled["fault.named"]
    slowest = [
        each for record in records if (each := _slowest(record, folder)) is not None
    ]
    shown = "-" if harmless else f"{max(slowest, default=0.0):.1f}"
    what = f"{ended} went on well" if harmless else f"{ended}"
    counts = (
        len(records),
        fulfilled["fault.happened"],
        what,
        named,
        fulfilled["end.leftovers"],
        shown,
    )

    return f"| {victim} | {act} | {' | '.join(map(str, counts))} |"


def _holds(record: _Record, name: str) -> bool:
    """Whether the item was asked for and is fulfilled; False in a cell with a lab's error."""
    return any(
        item["name"] == name and item["ok"] for item in record["evidence"]["items"]
    )


def _commands(evidence: _Record) -> Iterable[CommandSeen]:
    each = [evidence.get("server"), *evidence.get("clients", ())]
    return [
        CommandSeen(**value) for value in each if value and value["ended_s"] is not None
    ]


def _slowest(record: _Record, folder: Path) -> float | None:
    """Return seconds from the hit to the last end of a command that was not frozen itself."""

    evidence = read_evidence(folder, record)

    fault = evidence.get("fault")
    if not fault or not fault["began"]:
        return None

    since = fault["at"] - evidence["began"]
    until = fault["thawed_at"] - evidence["began"] if fault["thawed_at"] else None
    ends = [
        c.ended_s
        for c in _commands(evidence)
        if c.ended_s is not None and (until is None or c.ended_s <= until)
    ]

    return round(float(max(ends, default=since) - since), 2)


def _cell(hit: Fault, record: _Record, folder: Path) -> str:
    commands = list(_commands(read_evidence(folder, record)))
    codes = ", ".join(f"{command.who} {command.code}" for command in commands)
    said = next((text for command in commands for text in sentences(command)), "")
    act = hit.what
    must = (
        "goes on, ends well"
        if act.harmless
        else f"ends within {act.limit_s:g} s, names {hit.whom.about}"
    )
    slowest = _slowest(record, folder)
    shown = "-" if slowest is None else f"{slowest:.1f}"
    cells = (record["id"], must, shown, codes, said, told_verdict(record))

    return "| " + " | ".join(text.replace("|", "/") for text in cells) + " |"
