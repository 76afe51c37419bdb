"""A run's folder: what survives of it, who may have it, and what its results say."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from told_cells import CELL, hangs, ran

from impi.base.errors import LabError, UsageError
from impi.lab.judge.expectations import Row
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.report.history import read_run
from impi.lab.report.results import (
    RunFolder,
    exit_code,
    list_runs,
    sign_of_result,
    why_self_reported,
)
from impi.lab.run.schedule import Attempt, Done


def created(parent: Path) -> RunFolder:
    return RunFolder.create(
        parent, Plan((CELL,), ()), argv=["run"], backend="fake", seed=7
    )


def done(*, fails: bool = False) -> Done:
    seen, verdict = ran(hangs) if fails else ran()
    return Done(
        cell=CELL,
        verdict=verdict,
        attempts=(Attempt(verdict=verdict, seconds=1.5, seen=seen, lab="lab-1"),),
    )


def results(parent: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((parent / "latest/results.json").read_text())
    return value


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["pass", "xfail", "unsupported"], 0),
        (["pass", "fail"], 1),
        (["timeout", "error"], 1),
        (["flaky"], 1),
        (["pass", "error"], 3),
        (["skipped"], 3),
        (["xpass"], 6),
    ],
)
def test_the_exit_code_is_that_of_the_worst(outcomes: list[str], code: int) -> None:
    assert exit_code(outcomes) == code
    assert exit_code(outcomes, interrupted=True) == 2
    assert exit_code(outcomes, stale=True) == (code or 6)


def test_a_pass_without_captures_has_a_sign_and_a_reason_of_its_own() -> None:
    assert (
        sign_of_result("pass"),
        sign_of_result("pass", self_reported=True),
        sign_of_result("fail", self_reported=True),
    ) == ("✓", "~", "✗")
    assert why_self_reported(["beta", "beta"]) == (
        "self-reported: packets of beta were not captured, so the lab has not seen all messages"
    )


def test_a_run_is_written_and_found_again(tmp_path: Path) -> None:
    folder = created(tmp_path)
    folder.add(done())
    folder.add_excluded(Excluded(CELL, "no such node", "backend"))
    folder.finish(0, ["row 1 is stale"])
    folder.close()
    value = results(tmp_path)
    assert (value["totals"], value["exit"], value["software"]) == (
        {"pass": 1, "unsupported": 1},
        0,
        {"fake": "1"},
    )
    assert [name for name, _ in list_runs(tmp_path)] == [folder.name]
    suite = ElementTree.parse(tmp_path / "latest/junit.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    assert (tmp_path / f"latest/cells/{CELL.hash}/evidence.json").exists()


def test_the_files_are_as_their_schemas_say(tmp_path: Path) -> None:
    for name, folder in (
        ("ended", created(tmp_path / "a")),
        ("cut off", created(tmp_path / "b")),
    ):
        if name == "ended":
            row = Row(
                number=3,
                cells=("*",),
                result="timeout",
                issue="https://tracker.example/41",
                until=date(2027, 3, 1),
            )
            folder.add(replace(done(fails=True), row=row))
        folder.add_excluded(Excluded(CELL, "no such node", "unsupported"))
        folder.add_skipped([CELL], "the run was interrupted")
        folder.finish(1, ["row 1 is stale"])
        folder.close()
        for kind in ("results", "plan"):
            schema = json.loads(
                (files("impi.lab") / f"report/schemas/{kind}.schema.json").read_text()
            )
            jsonschema.Draft202012Validator(schema).validate(
                json.loads((folder.path / f"{kind}.json").read_text())
            )


def test_a_schema_says_each_thing_once() -> None:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        assert len(found) == len(pairs), sorted(name for name, _ in pairs)
        return found

    for path in (files("impi.lab") / "report/schemas").iterdir():
        json.loads(path.read_text("utf-8"), object_pairs_hook=once)


def test_what_failed_says_why_in_both_forms(tmp_path: Path) -> None:
    folder = created(tmp_path)
    red = done(fails=True)
    folder.add(red)
    folder.finish(1)
    folder.close()
    [cell] = results(tmp_path)["cells"]
    assert (cell["outcome"], cell["reason"]) == ("timeout", red.verdict.reason)
    [failure] = (
        ElementTree.parse(tmp_path / "latest/junit.xml").getroot().iter("failure")
    )
    assert failure.get("message", "").startswith(f"timeout in {red.verdict.phase}: ")


def test_a_dead_run_is_taken_up_where_it_was(tmp_path: Path) -> None:
    folder = created(tmp_path)
    folder.add(done())
    (folder.path / "cells" / "half").mkdir()
    with pytest.raises(
        UsageError, match=r"^run .* is still running: nothing to resume"
    ):
        RunFolder.reopen(folder.path, folder._head, [])
    folder.close()
    run = read_run(tmp_path)
    assert (run.left, [each.verdict.outcome for each in run.dones]) == ([], ["pass"])
    again = RunFolder.reopen(run.path, run.head, run.records)
    again.finish(0)
    again.close()
    assert [path.name for path in (folder.path / "cells").iterdir()] == [CELL.hash]
    assert results(tmp_path)["totals"] == {"pass": 1}


def test_a_cell_that_was_cut_off_is_shown_but_has_no_result(tmp_path: Path) -> None:
    folder = created(tmp_path)
    seen, verdict = ran(hangs)
    folder.add_cut_off(Attempt(verdict=verdict, seconds=1.0, seen=seen), CELL)
    folder.add_skipped([CELL], "the run was interrupted")
    folder.finish(2)
    folder.close()
    [cell] = results(tmp_path)["cells"]
    assert cell["outcome"] == "skipped"
    assert cell["reason"].startswith("the run was interrupted; ")
    assert (folder.path / cell["evidence"]["folder"] / "hang.txt").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(LabError, match=r"the run's folder .* cannot be made: "):
        created(tmp_path / "runs")


def test_control_characters_do_not_spoil_the_xml(tmp_path: Path) -> None:
    folder = created(tmp_path)
    wrong = Verdict(outcome="fail", phase="case", reason="it said \x1b[31m\x00")
    folder.add(replace(done(), verdict=wrong))
    folder.finish(1)
    folder.close()
    [failure] = (
        ElementTree.parse(tmp_path / "latest/junit.xml").getroot().iter("failure")
    )
    assert failure.get("message") == "fail in case: it said ?[31m?"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    folder = created(tmp_path)
    folder.add(done())
    folder.finish(0)
    folder.close()
    assert results(tmp_path)["totals"] == {"pass": 1}


def test_a_folder_with_the_name_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    folder = created(tmp_path)
    assert (
        folder.note == f"{tmp_path}/latest does not point at this run: Is a directory"
    )
    folder.finish(0)
    folder.close()
    assert read_run(tmp_path).path == folder.path


def test_a_folder_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        LabError,
        match=r"cannot be made: No space left on device; go to a folder that you can write",
    ):
        created(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_was_full_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line, half a file of results and half a folder are what remains of it."""
    folder = created(tmp_path)
    folder.add(done())
    write = Path.write_text

    def full(path: Path, text: str, *more: str) -> int:
        write(path, text[: len(text) // 2], *more)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        LabError, match=r"the results in .* cannot be written: No space left on device"
    ):
        folder.finish(0)
    monkeypatch.undo()
    folder.close()
    assert not (folder.path / "results.json").exists()
    # A file of an earlier version
    (folder.path / "results.json").write_text('{"schema": "impil', "utf-8")
    with (folder.path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "p2p.ri')
    run = read_run(tmp_path)
    again = RunFolder.reopen(run.path, run.head, run.records)
    again.finish(0)
    again.close()
    assert results(tmp_path)["totals"] == {"pass": 1}


def test_what_a_program_says_is_kept_as_it_is(tmp_path: Path) -> None:
    """That files have this encoding in each locale is a rule of tests/architecture."""
    folder = created(tmp_path)
    seen, verdict = ran()
    [command, *_] = seen.evidence.clients
    assert command is not None
    client = replace(command, stdout="grösser ✗ \x85\n")
    seen = replace(seen, evidence=replace(seen.evidence, clients=(client,)))
    attempt = Attempt(
        verdict=replace(verdict, outcome="fail", reason="✗"),
        seconds=1.5,
        seen=seen,
        lab="lab-1",
    )
    folder.add(Done(cell=CELL, verdict=attempt.verdict, attempts=(attempt,)))
    folder.finish(1)
    folder.close()
    text = (folder.path / f"cells/{CELL.hash}/client0.stdout").read_text("utf-8")
    assert text == "grösser ✗ \x85\n"
