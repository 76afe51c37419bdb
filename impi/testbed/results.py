"""The folder of a run: ``runs/<run>/`` with ``results.json``, ``junit.xml`` and the evidence of every cell.

``results.jsonl`` grows by a line with every cell, so that a run that dies has told what it knew; the rest is written
at the end. ``runs/latest`` points at the newest run.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from impi.errors import LabError
from impi.testbed.cell import Cell
from impi.testbed.matrix import Excluded
from impi.testbed.schedule import Done
from impi.testbed.verdict import OUTCOMES

__all__ = ["RunFolder", "exit_code", "list_runs", "sign"]

_SIGNS = {"pass": "✓", "fail": "✗", "timeout": "⧖", "error": "!", "unsupported": "-", "skipped": "·"}


def sign(outcome: str, *, self_reported: bool = False) -> str:
    """The character for an outcome; a pass without captures has one of its own."""
    return "~" if outcome == "pass" and self_reported else _SIGNS[outcome]


def exit_code(outcomes: Iterable[str], *, interrupted: bool = False) -> int:
    """0 as expected, 1 failures, 2 interrupted, 3 the lab's own fault; the first of 2, 1, 3 that applies."""
    counts = Counter(outcomes)
    if interrupted:
        return 2
    if counts["fail"] or counts["timeout"]:
        return 1
    return 3 if counts["error"] or counts["skipped"] else 0


def list_runs(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Name and ``results.json`` of every finished run, newest first."""
    found = []
    for path in sorted(folder.glob("*/results.json"), reverse=True):
        if not path.parent.is_symlink():
            try:
                found.append((path.parent.name, json.loads(path.read_text())))
            except (OSError, ValueError):
                continue
    return found


class RunFolder:
    """One run's folder, created exclusively.

    Raises:
        LabError: it cannot be made or written.
    """

    def __init__(self, parent: Path, *, argv: list[str], backend: str) -> None:
        self.started = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(self.started))
        self.name = f"{stamp}-{secrets.token_hex(2)}"
        self.path = parent / self.name
        self._head: dict[str, Any] = {"argv": argv, "backend": backend}
        self._records: list[dict[str, Any]] = []
        self._software: dict[str, str] = {}
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir()
            (self.path / "cells").mkdir()
            temporary = parent / f".latest-{secrets.token_hex(3)}"
            temporary.symlink_to(self.name)
            os.replace(temporary, parent / "latest")  # noqa: PTH105
        except OSError as error:
            raise LabError(f"the run's folder {self.path} cannot be made: {error.strerror}") from error

    def cell_path(self, cell: Cell) -> Path:
        """The folder of a cell's evidence."""
        return self.path / "cells" / cell.hash

    def add(self, done: Done) -> None:
        """Write down a cell that is over, with all its evidence."""
        try:
            self._write_evidence(done)
            record = _record(done)
            self._software.update(done.seen.software if done.seen is not None else {})
            self._records.append(record)
            self._append(record)
        except OSError as error:
            raise LabError(f"the evidence of {done.cell.id} cannot be written: {error.strerror}") from error

    def add_excluded(self, excluded: Excluded) -> None:
        """Write down a cell that this backend cannot run."""
        self._records.append(_bare(excluded.cell, "unsupported", excluded.reason))

    def add_skipped(self, cells: Iterable[Cell]) -> None:
        """Write down the cells that an interrupted run did not come to."""
        for cell in cells:
            self._records.append(_bare(cell, "skipped", "the run was interrupted"))

    @property
    def outcomes(self) -> list[str]:
        """Of all cells so far."""
        return [record["outcome"] for record in self._records]

    def finish(self, code: int) -> None:
        """Write ``results.json`` and ``junit.xml``."""
        counts = Counter(
            "self-reported" if r["self_reported"] and r["outcome"] == "pass" else r["outcome"] for r in self._records
        )
        value = {
            "schema": "impilab/results/1",
            "run": self.name,
            **self._head,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self.started)),
            "seconds": round(time.time() - self.started, 1),
            "exit": code,
            "totals": {name: counts[name] for name in (*OUTCOMES, "self-reported") if counts[name]},
            "software": self._software,
            "cells": self._records,
        }
        try:
            (self.path / "results.json").write_text(json.dumps(value, indent=1) + "\n")
            junit = _junit(self.name, self._records, time.time() - self.started)
            junit.write(self.path / "junit.xml", encoding="utf-8", xml_declaration=True)
        except OSError as error:
            raise LabError(f"the results in {self.path} cannot be written: {error.strerror}") from error

    def _append(self, record: dict[str, Any]) -> None:
        with (self.path / "results.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _write_evidence(self, done: Done) -> None:
        folder = self.cell_path(done.cell)
        folder.mkdir()
        (folder / "cell.json").write_text(json.dumps(_record(done), indent=1) + "\n")
        if done.seen is None:
            return
        evidence = done.seen.evidence
        (folder / "evidence.json").write_text(json.dumps({"nonce": done.seen.nonce, **evidence.to_json()}, indent=1))
        (folder / "commands.txt").write_text("\n".join(done.seen.command_lines) + "\n")
        for command in filter(None, (evidence.server, *evidence.clients)):
            name = command.who.replace(" ", "")
            (folder / f"{name}.stdout").write_text(command.stdout)
            (folder / f"{name}.stderr").write_text(command.stderr)
        if evidence.wire is not None:
            (folder / "timeline.txt").write_text("\n".join(evidence.wire.timeline) + "\n")
        for capture in done.seen.captures:
            (folder / f"{capture.node}.pcap").write_bytes(capture.pcap)


def _bare(cell: Cell, outcome: str, reason: str) -> dict[str, Any]:
    return {
        "id": cell.id,
        "hash": cell.hash,
        "case": cell.case.name,
        "parties": list(cell.vendors),
        "topology": str(cell.topology),
        "variant": cell.variant,
        "outcome": outcome,
        "phase": "",
        "blame": "",
        "reason": reason,
        "self_reported": False,
        "seconds": 0.0,
        "evidence": {"folder": "", "items": []},
    }


def _record(done: Done) -> dict[str, Any]:
    verdict = done.verdict
    return {
        **_bare(done.cell, verdict.outcome, verdict.reason),
        "phase": verdict.phase,
        "blame": verdict.blame,
        "self_reported": verdict.self_reported,
        "seconds": round(done.seconds, 2),
        "evidence": {"folder": f"cells/{done.cell.hash}", "items": [asdict(item) for item in verdict.items]},
    }


def _junit(name: str, records: list[dict[str, Any]], seconds: float) -> ElementTree.ElementTree[ElementTree.Element]:
    counts = Counter(r["outcome"] for r in records)
    numbers = {
        "tests": len(records),
        "failures": counts["fail"] + counts["timeout"],
        "errors": counts["error"],
        "skipped": counts["unsupported"] + counts["skipped"],
    }
    attributes = {key: str(value) for key, value in numbers.items()} | {"time": f"{seconds:.1f}"}
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"impilab {name}", **attributes})
    elements = {
        "fail": "failure",
        "timeout": "failure",
        "error": "error",
        "unsupported": "skipped",
        "skipped": "skipped",
    }
    for record in records:
        classname = ".".join(filter(None, ("+".join(record["parties"]), record["topology"], record["variant"])))
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": classname, "name": record["case"], "time": f"{record['seconds']:.2f}"},
        )
        if record["outcome"] in elements:
            text = (
                f"{record['outcome']} in {record['phase']}: {record['reason']}" if record["phase"] else record["reason"]
            )
            shown = "".join(c if c.isprintable() else "?" for c in text)  # XML has no control characters
            ElementTree.SubElement(case, elements[record["outcome"]], {"message": shown})
        elif record["self_reported"]:
            ElementTree.SubElement(case, "system-out").text = "self-reported: no capture shows that anything crossed"
    return ElementTree.ElementTree(root)
