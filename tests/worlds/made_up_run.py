"""A run that never was, as large as you like: its folder, for tests of pages."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

VENDORS = ("pure", "mpich", "openmpi", "mpich@4.3", "openmpi@4.1")
TOPOLOGIES = ("1x2+1x2", "2x2+2x2", "1x1+1x3")
CASES = [
    f"{family}.{name}"
    for family in ("p2p", "coll", "rma")
    for name in ("ring", "all", "long", "many<b>|`")
]
VARIANTS = ("", "auth=key,net=wan")
ITEM = {
    "name": "end.status",
    "ok": False,
    "phase": "down",
    "blame": "client 1",
    "expected": "0 <b>",
    "actual": "it ended with 1",
}


def record(cell: str, result: str = "pass", **more: Any) -> dict[str, Any]:
    """A record of ``results.json``."""
    case, parties, topology, variant = [*cell.split("/"), ""][:4]
    number = hashlib.sha256(cell.encode()).hexdigest()[:7]
    ran = result not in ("unsupported", "skipped")
    failed = [] if result == "pass" else [ITEM]
    attempt = {
        "outcome": result,
        "lab": "lab-1",
        "phase": "",
        "blame": "",
        "reason": "",
        "seconds": 1.0,
    }
    return {
        "id": cell,
        "hash": number,
        "case": case,
        "parties": parties.split("+"),
        "topology": topology,
        "variant": variant,
        "outcome": result,
        "result": result,
        "phase": "" if result == "pass" else "case",
        "blame": "" if result == "pass" else "client 1",
        "reason": ""
        if result == "pass"
        else "end.status: expected 0 <b>, but it ended with 1",
        "self_reported": False,
        "unseen": [],
        "seconds": int(number[:2], 16) / 40,
        "expected": None,
        "attempts": [{**attempt, "folder": f"cells/{number}"}] if ran else [],
        "evidence": {
            "folder": f"cells/{number}" if ran else "",
            "items": [{**ITEM, "name": "placement", "ok": True}, *failed]
            if ran
            else [],
        },
    } | more


def written(folder: Path, records: list[dict[str, Any]], **more: Any) -> Path:
    """Write a run of these records; return its folder."""
    totals: dict[str, int] = {}
    for each in records:
        totals[each["result"]] = totals.get(each["result"], 0) + 1
        if each["evidence"]["folder"]:
            where = folder / each["evidence"]["folder"]
            where.mkdir(parents=True)
            (where / "client1.stderr").write_text("Traceback <script>\n")
            (where / "c1n0.pcap").write_bytes(bytes(2000))
    value = {
        "schema": "impilab/results/1",
        "run": folder.name,
        "argv": ["run", "--backend", "docker"],
        "backend": "docker",
        "seed": 7,
        "builds": {},
        "impi": "0.1.0",
        "commit": "0123456789",
        "machine": {
            "system": "Linux 6",
            "processor": "a processor",
            "cores": 2,
            "load": [0.5, 0.5, 0.5],
        },
        "started": "2027-01-01T00:00:00+0000",
        "seconds": 312.0,
        "exit": 0,
        "totals": totals,
        "expectations": [],
        "software": {"mpich": "5.0.2", "openmpi": "5.0.11"},
        "cells": records,
    } | more
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(value))
    return folder


def made_up(folder: Path, count: int = 1000) -> Path:
    """Write a run of that number of cells, some of each result."""
    expected = {
        "row": 3,
        "result": "fail",
        "issue": "https://tracker.example/41",
        "until": "2027-03-01",
    }
    odd: dict[int, tuple[str, dict[str, Any]]] = {
        5: ("fail", {}),
        17: ("timeout", {}),
        40: ("xfail", {"expected": expected}),
        41: ("unsupported", {"reason": "the vendor has no threads"}),
        60: ("xpass", {"expected": {**expected, "issue": "javascript:alert(1)"}}),
        77: ("pass", {"self_reported": True, "unseen": ["beta"]}),
        90: ("skipped", {"reason": "the run was interrupted"}),
        95: ("flaky", {}),
        99: ("error", {}),
    }
    names = itertools.product(
        CASES, itertools.product(VENDORS, VENDORS), TOPOLOGIES, VARIANTS
    )
    records = []
    for i, (case, pair, topology, variant) in enumerate(itertools.islice(names, count)):
        result, more = odd.get(i % 150, ("pass", {}))
        cell = "/".join(filter(None, (case, "+".join(pair), topology, variant)))
        records.append(record(cell, result, **more))
    return written(
        folder, records, expectations=["row 9 (x) is stale: of 2 cells 2 passed"]
    )
