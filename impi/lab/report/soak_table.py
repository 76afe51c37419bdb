"""The soak of a run as a table: messages, time, and the memory of the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from impi.lab.cases.ends.soak import CONFIGURATIONS, SOAK_CASES
from impi.lab.report.evidence_files import read_evidence, told_verdict

_HEAD: Final = (
    "| configuration | cell | messages | GiB | calls beside | s | messages/s | memory of ranks early, middle, end, MiB"
    " | cuts | verdict |\n|---|---|---|---|---|---|---|---|---|---|"
)
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
# Parts of the names of calls that move a message, or look for one.
_SENDS: Final = ("Send", "Ssend", "Bsend", "Rsend", "send", "Recv", "recv", "robe")

_Record = Mapping[str, Any]


def soak_table(folder: Path, records: Sequence[_Record]) -> str:
    """Return the table as Markdown, and the calls of each kind; empty: the run had no soak."""

    names = {case.name for case in SOAK_CASES}

    mine = [
        record
        for record in records
        if record["id"].partition("/")[0] in names and record["attempts"]
    ]
    if not mine:
        return ""

    calls: Counter[str] = Counter()
    rows = [_row(record, read_evidence(folder, record), calls) for record in mine]
    counts = [f"| {name} | {count} |" for name, count in sorted(calls.items())]

    return "\n".join([_HEAD, *rows, "", "| call | times |\n|---|---|", *counts, ""])


def _row(record: _Record, evidence: _Record, calls: Counter[str]) -> str:
    told = [
        rank["figures"] for rank in evidence.get("ranks", ()) if rank.get("figures")
    ]

    own: Counter[str] = Counter()
    for figures in told:
        own.update(figures["calls"])

    calls.update(own)
    messages, octets = (
        sum(figures[name] for figures in told) for name in ("messages", "octets")
    )
    seconds = max((figures["seconds"] for figures in told), default=0.0)
    fault = evidence.get("fault") or {}
    cells = (
        _about(record["id"]),
        f"`{record['id']}`",
        _thousands(messages),
        f"{octets / _GIB:.2f}",
        # Calls that neither move a message of the soak nor look for one.
        _thousands(
            sum(
                count
                for name, count in own.items()
                if not any(part in name for part in _SENDS)
            )
        ),
        f"{seconds:.0f}",
        f"{messages / seconds:.0f}" if seconds else "-",
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


def _about(cell: str) -> str:
    _, parties, topology, *variant = cell.split("/")
    given = (parties, topology, "".join(variant))
    return next(
        (
            c.about
            for c in CONFIGURATIONS
            if (c.parties, c.topology, c.settings) == given
        ),
        "-",
    )
