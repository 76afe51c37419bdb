"""The tables of a run's faults: one row for each victim and act, one for each cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from impi.lab.report.fault_table import fault_tables

SAID = "client 1 (10.9.2.1:1): rank 1 was ended by SIGKILL, while the job was running"
ITEMS = ("fault.happened", "fault.ended", "fault.named", "end.leftovers")


def record(
    folder: Path, value: str, *failed: str, at: float = 101.0, thawed_at: float = 0.0
) -> dict[str, Any]:
    """One cell of a run, with its evidence."""
    cell = folder / value
    cell.mkdir(parents=True)
    commands = [
        {
            "who": who,
            "code": 1,
            "stdout": "",
            "stderr": stderr,
            "leftovers": [],
            "ended_s": ended_s,
        }
        for who, stderr, ended_s in (
            ("server", f"Error: {SAID}\n", 1.5),
            ("client 0", "", 3.25),
        )
    ]
    fault = {"began": True, "at": at, "thawed_at": thawed_at}
    evidence = {
        "began": 100.0,
        "fault": fault,
        "server": commands[0],
        "clients": [commands[1]],
    }
    (cell / "evidence.json").write_text(json.dumps(evidence))
    outcome = "fail" if failed else "pass"
    return {
        "id": f"faults.phases/pure+pure/1x2+1x2/fault={value}",
        "variant": f"fault={value}",
        "attempts": [{}],
        "outcome": outcome,
        "result": outcome,
        "reason": f"{failed[0]}: a | b" if failed else "",
        "evidence": {
            "folder": value,
            "items": [{"name": name, "ok": name not in failed} for name in ITEMS],
        },
    }


def test_cells_are_counted_by_victim_and_act(tmp_path):
    records = [
        record(tmp_path, "kill-rank@recv"),
        record(tmp_path, "kill-rank@long", "fault.named"),
    ]
    tables = fault_tables(tmp_path, [*records, {"variant": "", "attempts": []}])
    assert "| rank | kill | 2 | 2 | 2 | 1 | 2 | 2.2 |" in tables.splitlines()
    first, second = [
        line for line in tables.splitlines() if line.startswith("| faults.phases")
    ]
    assert (
        "fault=kill-rank@long | ends within 10 s, names its last rank | 2.2 | server 1, client 0 1 |"
        in first
    )
    assert first.endswith("| fail: fault.named: a / b |")
    assert SAID in second
    assert second.endswith("| pass |")


def test_who_stood_still_is_not_the_slowest(tmp_path):
    tables = fault_tables(
        tmp_path, [record(tmp_path, "freeze-client@recv", thawed_at=102.0)]
    )
    assert "| client | freeze | 1 | 1 | 1 | 1 | 1 | 0.5 |" in tables.splitlines()


def test_harmless_faults_count_jobs_that_went_on(tmp_path):
    tables = fault_tables(
        tmp_path, [record(tmp_path, "slow-rank@recv", "fault.ended", "fault.named")]
    )
    assert "| rank | slow | 1 | 1 | 0 went on well | - | 1 | - |" in tables.splitlines()


def test_a_run_without_faults_has_no_tables(tmp_path):
    assert fault_tables(tmp_path, [{"variant": "net=wan", "attempts": [{}]}]) == ""
