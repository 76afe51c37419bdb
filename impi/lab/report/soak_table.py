"""The soaks of a run as tables: messages or operations, time, and the memory of the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from impi.lab.cases.ends.soak import (
    CONFIGURATIONS,
    WINDOW_CONFIGURATIONS,
    SoakConfiguration,
)
from impi.lab.report.evidence_files import read_evidence, told_verdict

_HEAD: Final = (
    "| configuration | cell | {what} | GiB | calls beside | s | {what}/s | memory of ranks early, middle, end, MiB"
    " | cuts | verdict |\n|---|---|---|---|---|---|---|---|---|---|"
)
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Soak:
    """The columns and rows of a case's table."""

    what: str  # the name of the figure that counts
    rows: Sequence[SoakConfiguration]
    # Parts of the names of calls that do what is counted, or look for it
    counted: tuple[str, ...]


_SOAKS: Final = {
    "soak.messages": _Soak(
        "messages",
        CONFIGURATIONS,
        ("Send", "Ssend", "Bsend", "Rsend", "send", "Recv", "recv", "robe"),
    ),
    "soak.windows": _Soak(
        "operations",
        WINDOW_CONFIGURATIONS,
        ("Put", "put", "Get", "get", "ccumulate", "Fetch_and_op", "Compare_and_swap"),
    ),
}

_Record = Mapping[str, Any]


def soak_table(folder: Path, records: Sequence[_Record]) -> str:
    """Return the tables as Markdown, and the calls of each kind; empty: the run had no soak."""
    tables = [_table(folder, records, name) for name in _SOAKS]
    return "\n".join(table for table in tables if table)


def _table(folder: Path, records: Sequence[_Record], case: str) -> str:
    mine = [
        record
        for record in records
        if record["id"].partition("/")[0] == case and record["attempts"]
    ]
    if not mine:
        return ""

    soak, calls = _SOAKS[case], Counter[str]()
    rows = [_row(record, read_evidence(folder, record), soak, calls) for record in mine]
    counts = [f"| {name} | {count} |" for name, count in sorted(calls.items())]

    return "\n".join(
        [
            _HEAD.format(what=soak.what),
            *rows,
            "",
            "| call | times |\n|---|---|",
            *counts,
            "",
        ]
    )


def _row(record: _Record, evidence: _Record, soak: _Soak, calls: Counter[str]) -> str:
    told = [
        rank["figures"] for rank in evidence.get("ranks", ()) if rank.get("figures")
    ]

    own: Counter[str] = Counter()
    for figures in told:
        own.update(figures["calls"])

    calls.update(own)
    counted, octets = (
        sum(figures[name] for figures in told) for name in (soak.what, "octets")
    )
    seconds = max((figures["seconds"] for figures in told), default=0.0)
    fault = evidence.get("fault") or {}
    cells = (
        _about(record["id"], soak.rows),
        f"`{record['id']}`",
        _thousands(counted),
        f"{octets / _GIB:.2f}",
        _thousands(
            sum(
                count
                for name, count in own.items()
                if not any(part in name for part in soak.counted)
            )
        ),
        f"{seconds:.0f}",
        f"{counted / seconds:.0f}" if seconds else "-",
        _memory(told),
        str(fault.get("times", 0)) if fault else "-",
        told_verdict(record).replace("|", "/"),
    )

    return "| " + " | ".join(cells) + " |"


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _memory(told: Sequence[_Record]) -> str:
    """Return the most memory of any rank, early, in the middle and at the end."""
    if not told or not all(len(figures["memory"]) == 3 for figures in told):
        return "-"

    return ", ".join(
        f"{max(figures['memory'][i] for figures in told) / _MIB:.1f}" for i in range(3)
    )


def _about(cell: str, rows: Sequence[SoakConfiguration]) -> str:
    _, parties, topology, *variant = cell.split("/")
    given = (parties, topology, "".join(variant))
    return next(
        (c.about for c in rows if (c.parties, c.topology, c.settings) == given),
        "-",
    )
