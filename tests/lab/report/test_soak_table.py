"""The table of a soak, from the evidence of its cells."""

from __future__ import annotations

import json

from impi.lab.cases.ends.soak import CONFIGURATIONS, WINDOW_CONFIGURATIONS
from impi.lab.report.soak_table import soak_table

WINDOWS = "soak.windows/mpich+openmpi+pure/1x2+1x2+1x1/"
CELL = "soak.messages/mpich+openmpi+pure/1x2+1x2+1x1/"
MIB = 1 << 20


def record(
    tmp_path,
    variant: str,
    *,
    outcome: str = "pass",
    fault: object = None,
    memory: tuple[int, ...] = (50, 60, 55),
    cell: str = CELL,
    counted: str = "messages",
    calls: dict[str, int] | None = None,
):
    folder = tmp_path / f"cell-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    calls = calls or {"Send": 3, "Improbe": 1, "Barrier": 2, "Dup, Free": 1}
    figures = {
        counted: 1500,
        "octets": 1 << 30,
        "seconds": 10.0,
        "memory": [n * MIB for n in memory],
        "calls": calls,
    }
    ranks = [{"figures": figures}, {"figures": figures | {"seconds": 20.0}}]
    (folder / "evidence.json").write_text(json.dumps({"ranks": ranks, "fault": fault}))
    return {
        "id": cell + variant,
        "attempts": [{}],
        "outcome": outcome,
        "result": outcome,
        "reason": "a | b",
        "evidence": {"folder": folder.name},
    }


def test_figures_of_ranks_are_added_up(tmp_path):
    known = CONFIGURATIONS[0]
    table = soak_table(
        tmp_path, [record(tmp_path, known.settings), record(tmp_path, "amount=7")]
    ).splitlines()
    figures = "| 3 000 | 2.00 | 6 | 20 | 150 | 50.0, 60.0, 55.0 | - | pass |"
    assert table[2] == f"| {known.about} | `{CELL}{known.settings}` {figures}"
    assert table[3] == f"| - | `{CELL}amount=7` {figures}"
    assert "| Barrier | 8 |" in table


def test_operations_have_a_table_of_their_own(tmp_path):
    known = WINDOW_CONFIGURATIONS[0]
    calls = {"Rget_accumulate": 5, "Put": 2, "Fetch_and_op": 1, "Fence": 4, "Lock": 3}
    windows = record(
        tmp_path, known.settings, cell=WINDOWS, counted="operations", calls=calls
    )
    messages, operations = soak_table(
        tmp_path, [windows, record(tmp_path, "amount=7")]
    ).split("\n\n| configuration")
    assert messages.startswith("| configuration | cell | messages | GiB |")
    assert operations.startswith(
        " | cell | operations | GiB | calls beside | s | operations/s |"
    )
    figures = "| 3 000 | 2.00 | 14 | 20 | 150 | 50.0, 60.0, 55.0 | - | pass |"
    assert f"| {known.about} | `{WINDOWS}{known.settings}` {figures}" in operations
    assert "| Rget_accumulate | 10 |" in operations
    assert "Rget_accumulate" not in messages


def test_cuts_are_counted_and_what_failed_says_why(tmp_path):
    table = soak_table(
        tmp_path,
        [
            record(
                tmp_path, "amount=7", outcome="fail", fault={"times": 4}, memory=(50,)
            )
        ],
    )
    assert "| - | 4 | fail: a / b |" in table


def test_a_cell_without_evidence_has_a_row_of_nothing(tmp_path):
    found = record(tmp_path, "amount=7", outcome="error")
    (tmp_path / found["evidence"]["folder"] / "evidence.json").unlink()
    assert "| 0 | 0.00 | 0 | 0 | - | - | - | error: a / b |" in soak_table(
        tmp_path, [found]
    )


def test_a_run_without_a_soak_has_no_table(tmp_path):
    assert (
        soak_table(tmp_path, [{"id": "p2p.ring/pure+pure/1x2+1x2", "attempts": [{}]}])
        == ""
    )
