"""A run's folder ``runs/<run>/``: ``results.json``, ``junit.xml`` and evidence of every cell.

``plan.json`` holds the plan from the start, and ``results.jsonl`` grows by a line with every cell.
So a dead run's results survive, and another process can resume it; the rest is written at the end,
with ``faults.md`` where faults were among the cells, and ``soak.md`` where a soak was. The pages
are those of :mod:`impi.lab.report.pages`.
``runs/latest`` points at the newest run, where that is possible (:mod:`.newest`).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

from impi import __version__
from impi.base.errors import LabError, UsageError
from impi.base.exit_codes import ExitCode
from impi.base.files import MALFORMED
from impi.base.machine import commit, machine
from impi.lab.evidence.witness_reports import planned_digest
from impi.lab.judge.hang import explain
from impi.lab.judge.verdict import OUTCOMES, Verdict
from impi.lab.plan.cell import Cell
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.report.evidence_files import write_seen
from impi.lab.report.fault_table import fault_tables
from impi.lab.report.folder.newest import point_at
from impi.lab.report.folder.own_files import (
    own_of,
    program_value,
    write_program,
    write_references,
)
from impi.lab.report.folder.sanitize import write_names
from impi.lab.report.soak_table import soak_table
from impi.lab.run.schedule import Attempt, Done

Json: TypeAlias = "Mapping[str, Any]"
"""A JSON object of a run: its results, or the record of a cell. The schemas are in ``schemas``."""
RESULTS = (*OUTCOMES, "xfail", "xpass")
"""Results of cells: the outcome compared with the expectations."""
GREEN = ("pass", "xfail")
"""Results as they should be."""
RED = ("fail", "timeout", "flaky", "error", "xpass")
"""Results that want an answer; a result in neither tuple was not run."""
_SIGNS = dict(zip(RESULTS, "✓✗-!⧖·≈xX", strict=True))


def sign_of_result(result: str, *, self_reported: bool = False) -> str:
    """Return the character for a result; a self-reported pass has one of its own."""
    return "~" if result == "pass" and self_reported else _SIGNS[result]


def why_self_reported(unseen: Iterable[str]) -> str:
    """Return why a pass is self-reported, in a sentence; ``unseen``: hosts without a capture."""
    if names := ", ".join(dict.fromkeys(unseen)):
        return f"self-reported: packets of {names} were not captured, so the lab has not seen all messages"

    return "self-reported: no capture shows that anything crossed"


def typed_command() -> str:
    """Return how this user starts impilab, as words of the shell."""

    started, there = Path(sys.argv[0]), shutil.which("impilab")
    if started.name == "impilab.py":  # python -m impi.cli.impilab
        return shlex.join([sys.executable, "-m", "impi.cli.impilab"])

    # A script of that name counts only if the shell would find the same one.
    if started.name != "impilab" or (
        there and started.exists() and started.samefile(there)
    ):
        return "impilab"

    return shlex.quote(sys.argv[0])


def repeat_command(cell: str, run: str, program: str) -> str:
    """Return the command that repeats a cell of a run.

    Args:
        cell: its id.
        run: the folder of the run.
        program: how impilab is started, as :func:`typed` says.
    """
    return f"{program} repro {shlex.quote(cell)} --run {shlex.quote(run)}"


def shown_time(seconds: float) -> str:
    """Return a time of the epoch as ``results.json`` has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds))


def exit_code(
    results: Iterable[str], *, interrupted: bool = False, stale: bool = False
) -> int:
    """Return 0 as expected, 1 failures, 2 interrupted, 3 the lab's fault, 6 ``stale`` expectations.

    A pass against its row counts as stale. If several apply, the first of 2, 1, 3, 6 counts.
    """

    counts = Counter(results)
    if interrupted:
        return ExitCode.INTERRUPTED

    # A job that failed says more than a lab that failed, and both more
    # than a stale row.
    if counts["fail"] or counts["timeout"] or counts["flaky"]:
        return ExitCode.FAILED

    if counts["error"] or counts["skipped"]:
        return ExitCode.OWN_FAULT

    return ExitCode.STALE if stale or counts["xpass"] else ExitCode.OK


def plan_value(plan: Plan) -> dict[str, Any]:
    """A plan for ``plan.json`` and for ``impilab plan --json``."""
    own = own_of(plan.cells)
    return {
        "schema": "impilab/plan/1",
        **({"program": program_value(own)} if own is not None else {}),
        **({"shard": plan.shard, "whole": list(plan.whole)} if plan.shard else {}),
        "cells": [{"id": cell.id, "hash": cell.hash} for cell in plan.cells],
        "excluded": [
            {"id": e.cell.id, "hash": e.cell.hash, "kind": e.kind, "reason": e.reason}
            for e in plan.excluded
        ],
    }


def list_runs(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return name and ``results.json`` of every finished run, newest first."""
    found = []
    # A run without results.json is under way or was killed, and is resumed, not shown.
    for path in sorted(folder.glob("*/results.json"), reverse=True):
        if not path.parent.is_symlink():
            try:
                found.append((path.parent.name, json.loads(path.read_text("utf-8"))))
            except (OSError, *MALFORMED):
                continue

    return found


def _lock(descriptor: int) -> None:
    """Lock a run's folder. BlockingIOError: somebody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass  # file systems of clusters may have no locks: then no other process is kept out


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: the disk may be full. Raises OSError."""
    # A reader never sees half a file: the last step is one rename.
    part = path.with_suffix(".part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _earlier_results(results: Path) -> dict[str, Any]:
    """Return what is written of a run that was over, or thought so; nothing of half a file."""
    try:
        value = json.loads(results.read_text("utf-8"))
    except (OSError, *MALFORMED):
        return {}

    return value if isinstance(value, dict) else {}


class RunFolder:
    """One run's folder, created exclusively, locked against others until :meth:`close`."""

    def __init__(self, path: Path, head: dict[str, Any], note: str = "") -> None:
        """``note``: what could not be done for the convenience of users, in a sentence."""

        # Cells whose captures are kept: one of :data:`.evidence_files.CAPTURE_CHOICES`
        self.capture = "keep"
        self.path, self.name, self.note = path, path.name, note
        self.started: float = head["started"]
        self.seed: int = head["seed"]
        self.backend: str = head["backend"]
        self._head = head
        self._where = {"impi": __version__, "commit": commit(), "machine": machine()}
        self._seconds = 0.0
        self._began = time.monotonic()
        self._records: list[dict[str, Any]] = []
        self._software: dict[str, str] = {}
        self._cut_off: dict[str, str] = {}
        # A lock, not a file with a process number: it goes with a run that is killed.
        self._lock = os.open(path, os.O_RDONLY)
        _lock(self._lock)

    @classmethod
    def create(
        cls,
        parent: Path,
        plan: Plan,
        *,
        argv: list[str],
        backend: str,
        seed: int,
        builds: Mapping[str, str] | None = None,
    ) -> RunFolder:
        """Create the folder of a new run; ``builds``: digests of replaced libraries by vendor.

        Raises:
            LabError: it cannot be made or written.
        """

        started = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(started))
        # The time orders runs by name; the rest of the name tells apart two
        # of one second.
        path = parent / f"{stamp}-{secrets.token_hex(2)}"
        head = {
            "argv": argv,
            "backend": backend,
            "seed": seed,
            "started": started,
            "builds": dict(builds or {}),
        }
        head |= {"shard": plan.shard} if plan.shard else {}

        made = False
        try:
            parent.mkdir(parents=True, exist_ok=True)
            # Made exclusively: two runs of one second must not share a folder.
            path.mkdir()
            made = True

            (path / "cells").mkdir()
            if (own := own_of(plan.cells)) is not None:
                write_program(path, own)

            text = json.dumps(
                {
                    "run": path.name,
                    **head,
                    "source": planned_digest(),
                    **plan_value(plan),
                },
                indent=1,
            )
            (path / "plan.json").write_text(text + "\n", "utf-8")
            write_names(path)
            # The folder is locked from here on, while it has all files of a run
            # already.
            found = cls(path, head)
        except OSError as error:
            if made:
                shutil.rmtree(path, ignore_errors=True)

            raise LabError(
                f"the run's folder {path} cannot be made: {error.strerror};"
                " go to a folder that you can write, or name one by --runs DIR"
            ) from error

        found.note = point_at(path)

        return found

    @classmethod
    def reopen(
        cls, path: Path, head: dict[str, Any], records: Sequence[dict[str, Any]]
    ) -> RunFolder:
        """Reopen the folder of an interrupted run; remove files of cells without a record.

        Raises:
            UsageError: the run is not interrupted but running.
            LabError: it cannot be written.
        """
        try:
            found = cls(path, head)
        except BlockingIOError:
            raise UsageError(
                f"run {path.name} is still running: nothing to resume"
            ) from None

        try:
            # Seconds and software of the first part belong to the whole run.
            results = path / "results.json"
            before = _earlier_results(results)
            found._seconds, found._software = (
                before.get("seconds", 0.0),
                before.get("software", {}),
            )

            # Evidence without a record is of a cell that was cut off: it runs
            # again, and begins anew.
            known = {record["hash"] for record in records}
            for folder in (path / "cells").iterdir():
                if folder.name not in known:
                    shutil.rmtree(folder)

            results.unlink(missing_ok=True)
            found._records = list(records)
            # Rewritten as a whole, for the last line of a killed run may be
            # half a line.
            (path / "results.jsonl").write_text(
                "".join(json.dumps(record) + "\n" for record in records), "utf-8"
            )
        except (OSError, ValueError) as error:
            found.close()
            raise LabError(
                f"the run's folder {path} cannot be used again: {error}"
            ) from error

        return found

    def adopt(self, run: Path, records: Iterable[dict[str, Any]]) -> None:
        """Take over cells of another run, a shard of this one, with their evidence.

        Raises:
            LabError: it cannot be copied.
        """

        before = _earlier_results(run / "results.json")
        self._software.update(before.get("software", {}))

        # They ran beside each other
        self._seconds = max(self._seconds, float(before.get("seconds", 0.0)))
        try:
            for record in records:
                if folder := record["evidence"]["folder"]:
                    shutil.copytree(run / folder, self.path / folder)

                self._append(record)
        except (OSError, shutil.Error) as error:
            raise LabError(
                f"the evidence of {run} cannot be copied to {self.path}: {error}"
            ) from error

    def restate(self, earlier: Iterable[Done]) -> None:
        """Compare the records of a reopened folder with the expectations as they are now."""
        for record, done in zip(self._records, earlier, strict=True):
            record.update(_expectation(done))

    def close(self) -> None:
        os.close(self._lock)

    def cell_path(self, cell: Cell) -> Path:
        return self.path / "cells" / cell.hash

    def add(self, done: Done) -> None:
        try:
            # Evidence first: a record in the list has its files.
            self._write_evidence(done)
            if (own := done.cell.case.own) is not None:
                write_references(self.path, own)

            record = _record(done)
            self._software.update(done.seen.software if done.seen is not None else {})
            self._append(record)
        except OSError as error:
            raise LabError(
                f"the evidence of {done.cell.id} cannot be written: {error.strerror}"
            ) from error

    def _append(self, record: dict[str, Any]) -> None:
        self._records.append(record)
        # A line at once: a run that is killed loses no cell that is over.
        with (self.path / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def add_excluded(self, excluded: Excluded) -> None:
        record = bare_record(excluded.cell, "unsupported", excluded.reason)
        self._records.append(record)

    def add_cut_off(self, attempt: Attempt, cell: Cell) -> None:
        """Record a cell that was under way at an interrupt: it has no result, and runs again."""

        # It was interrupted before anything was seen.
        if attempt.seen is None:
            return

        folder, found = self.cell_path(cell), explain(attempt.seen.facts(cell))
        reason = found.sentence if found is not None else ""

        verdict = Verdict(
            outcome="interrupted", phase=attempt.verdict.phase, reason=reason
        )
        try:
            # A cell that is cut off has no record, so its folder is free.
            shutil.rmtree(folder, ignore_errors=True)
            write_seen(cell, attempt.seen, verdict, folder, capture=self.capture)
        except OSError as error:
            raise LabError(
                f"the evidence of {cell.id} cannot be written: {error.strerror}"
            ) from error

        self._cut_off[cell.id] = verdict.reason

    def add_skipped(self, cells: Iterable[Cell], reason: str) -> None:
        """Record the cells that the run did not reach, or did not finish."""
        for cell in cells:
            record = bare_record(cell, "skipped", reason)
            if cell.id in self._cut_off:
                stood = self._cut_off[cell.id]
                record |= {"reason": f"{reason}; {stood}" if stood else reason}
                record["evidence"] = {"folder": f"cells/{cell.hash}", "items": []}

            self._records.append(record)

    def finish(self, code: int, problems: Sequence[str] = ()) -> None:
        """Write ``results.json`` and ``junit.xml``; ``problems``: faults of expectation rows."""
        seconds = self._seconds + time.monotonic() - self._began

        value = {
            "schema": "impilab/results/1",
            "run": self.name,
            **self._head,
            **self._where,
            "again": {"impilab": typed_command(), "run": str(self.path)},
            "started": shown_time(self.started),
            "seconds": round(seconds, 1),
            "exit": code,
            "totals": self.totals,
            "expectations": list(problems),
            "software": self._software,
            "cells": self._records,
        }
        try:
            # The results first: everything else is made from them.
            _write_whole(self.path / "results.json", json.dumps(value, indent=1) + "\n")
            if tables := fault_tables(self.path, self._records):
                (self.path / "faults.md").write_text(tables, "utf-8")

            if table := soak_table(self.path, self._records):
                (self.path / "soak.md").write_text(table, "utf-8")

            junit = _junit(self.name, self._records, problems, seconds)
            junit.write(self.path / "junit.xml", encoding="utf-8", xml_declaration=True)
        except OSError as error:
            raise LabError(
                f"the results in {self.path} cannot be written: {error.strerror}"
            ) from error

    @property
    def totals(self) -> dict[str, int]:
        """Count the cells of each result; passes without captures are counted separately."""
        counts = Counter(
            "self-reported"
            if r["self_reported"] and r["result"] == "pass"
            else r["result"]
            for r in self._records
        )
        return {
            name: counts[name] for name in (*RESULTS, "self-reported") if counts[name]
        }

    def _write_evidence(self, done: Done) -> None:
        folder = self.cell_path(done.cell)
        folder.mkdir()

        (folder / "cell.json").write_text(
            json.dumps(_record(done), indent=1) + "\n", "utf-8"
        )
        for i, attempt in enumerate(done.attempts):
            if attempt.seen is not None:
                # The deciding attempt stands in the cell's own folder, where links
                # lead to.
                where = folder if i == done.deciding else folder / f"attempt-{i + 1}"
                write_seen(
                    done.cell,
                    attempt.seen,
                    attempt.verdict,
                    where,
                    capture=self.capture,
                )


def bare_record(cell: Cell, outcome: str, reason: str) -> dict[str, Any]:
    """Return the record of a cell that was not run, with the reason."""
    return {
        "id": cell.id,
        "hash": cell.hash,
        "case": cell.case.name,
        "parties": list(cell.vendors),
        "topology": str(cell.topology),
        "variant": cell.variant,
        "outcome": outcome,
        "result": outcome,
        "phase": "",
        "blame": "",
        "reason": reason,
        "self_reported": False,
        "unseen": [],
        "seconds": 0.0,
        "expected": None,
        "attempts": [],
        "evidence": {"folder": "", "items": []},
    }


def _record(done: Done) -> dict[str, Any]:
    verdict = done.verdict
    return {
        **bare_record(done.cell, verdict.outcome, verdict.reason),
        **_expectation(done),
        "phase": verdict.phase,
        "blame": verdict.blame,
        "self_reported": verdict.self_reported,
        "unseen": list(verdict.unseen),
        "seconds": round(done.seconds, 2),
        "attempts": [
            _attempt(i, attempt, done) for i, attempt in enumerate(done.attempts)
        ],
        "evidence": {
            "folder": f"cells/{done.cell.hash}",
            "items": [asdict(item) for item in verdict.items],
        },
    }


def _expectation(done: Done) -> dict[str, Any]:
    row = done.row
    return {
        "result": done.result,
        "expected": row
        and {
            "row": row.number,
            "result": row.result,
            "issue": row.issue,
            "until": str(row.until),
        },
    }


def _attempt(index: int, attempt: Attempt, done: Done) -> dict[str, Any]:
    folder = (
        f"cells/{done.cell.hash}"
        if index == done.deciding
        else f"cells/{done.cell.hash}/attempt-{index + 1}"
    )
    return {
        "outcome": attempt.verdict.outcome,
        "lab": attempt.lab,
        "phase": attempt.verdict.phase,
        "blame": attempt.verdict.blame,
        "reason": attempt.verdict.reason,
        "seconds": round(attempt.seconds, 2),
        "folder": folder if attempt.seen is not None else "",
    }


# The element of junit.xml for a result; a pass has none.
_JUNIT = {
    **dict.fromkeys(("fail", "timeout", "flaky", "xpass"), "failure"),
    "error": "error",
    **dict.fromkeys(("unsupported", "skipped", "xfail"), "skipped"),
}


def _junit(
    name: str,
    records: Sequence[dict[str, Any]],
    problems: Sequence[str],
    seconds: float,
) -> ElementTree.ElementTree[ElementTree.Element]:
    counts = Counter(_JUNIT.get(r["result"], "") for r in records)
    numbers = {
        "tests": len(records) + bool(problems),
        "failures": counts["failure"] + bool(problems),
        "errors": counts["error"],
        "skipped": counts["skipped"],
    }
    attributes = {key: str(value) for key, value in numbers.items()} | {
        "time": f"{seconds:.1f}"
    }
    root = ElementTree.Element("testsuites", attributes)

    suite = ElementTree.SubElement(
        root, "testsuite", {"name": f"impilab {name}", **attributes}
    )
    for record in records:
        # Parties, topology and variant as the class, so that viewers group
        # cells by them.
        classname = ".".join(
            filter(
                None,
                ("+".join(record["parties"]), record["topology"], record["variant"]),
            )
        )

        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": classname,
                "name": record["case"],
                "time": f"{record['seconds']:.2f}",
            },
        )
        if len(record["attempts"]) > 1:
            values = ", ".join(attempt["outcome"] for attempt in record["attempts"])
            properties = ElementTree.SubElement(case, "properties")
            ElementTree.SubElement(
                properties, "property", {"name": "attempts", "value": values}
            )

        element = _JUNIT.get(record["result"])
        if element is not None:
            ElementTree.SubElement(
                case, element, {"type": record["result"], "message": _message(record)}
            )
        elif record["self_reported"]:
            ElementTree.SubElement(case, "system-out").text = why_self_reported(
                record["unseen"]
            )

    # A wrong row fails the run, so it is a test of its own.
    if problems:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "expectations", "name": "rows", "time": "0"},
        )
        ElementTree.SubElement(
            case,
            "failure",
            {"type": "stale", "message": _printable("; ".join(problems))},
        )

    return ElementTree.ElementTree(root)


def _message(record: dict[str, Any]) -> str:
    if record["result"] == "xpass":
        return _printable(
            f"it passed, but row {record['expected']['row']} expects {record['expected']['result']}"
        )

    text = (
        f"{record['outcome']} in {record['phase']}: {record['reason']}"
        if record["phase"]
        else record["reason"]
    )
    return _printable(
        f"{text} ({record['expected']['issue']})" if record["expected"] else text
    )


def _printable(text: str) -> str:
    # XML has no control characters
    return "".join(c if c.isprintable() else "?" for c in text)
