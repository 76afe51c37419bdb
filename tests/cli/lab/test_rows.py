"""``--json`` of each verb that lists or checks: one shape, and one schema that says what it is."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from forge import FakeBackend

from impi.cli.impi import main as impi
from impi.cli.impilab import main, parser_of_all
from impi.cli.lab import vendor as vendor_verbs
from impi.lab.nodes.interface import LabSeen
from impi.lab.run.vendor_check import Requirement

SCHEMA = json.loads(
    (files("impi.lab") / "report/schemas/rows.schema.json").read_text("utf-8")
)
RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ROW = f"""[[expect]]
cells = "{RING}"
result = "fail"
issue = "https://tracker.example/41"
until = 2999-01-01
"""
FOR_PEOPLE = {
    *("run", "repro", "demo", "vendor-ci", "merge", "report", "serve", "abi"),
    "publish",
    *("up", "down", "ssh", "exec", "logs", "new", "bundle", "unbundle", "bisect"),
    *("net set", "net reset"),
}
"""Verbs that do something; runs, pages and the ABI matrix are files with schemas of their own."""


pytestmark = pytest.mark.usefixtures("three_vendors")


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/expectations.toml").write_text(ROW)
    backend = FakeBackend()
    assert main(["run", RING], choose=lambda _: backend) == 6
    up = ["up", "1x1+1x1", "--parties", "pure+pure"]
    assert main(up, choose=lambda _: backend) == 0
    return backend


def rows_of(
    argv: list[str], backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    capsys.readouterr()
    main([*argv, "--json"], choose=lambda _: backend)
    value = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(value)
    rows: list[dict[str, Any]] = value["rows"]
    return rows


def test_rows_are_as_the_schema_says(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    for what in ("cases", "cases --clauses", "tags", "vendors", "topologies", "runs"):
        assert rows_of(["ls", *what.split()], backend, capsys) or what == "topologies"
    assert rows_of(["doctor"], backend, capsys)
    for line in ("expect lint", "expect update", "clean --runs", "clean"):
        rows_of(line.split(), backend, capsys)


def test_rows_of_labs_and_links(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.seen = [
        LabSeen(
            lab="x-1",
            labels={"user": "alice"},
            parts=("a",),
            state="left over",
            age_s=7300,
            left_s=-1,
        )
    ]
    labs = {lab["lab"]: lab for lab in rows_of(["status"], backend, capsys)}
    assert labs["x-1"]["state"] == "left over"
    assert "lab" in [lab["name"] for lab in labs.values()]
    assert rows_of(["net", "show"], backend, capsys) == []
    assert main(["net", "set", "--delay", "20ms"], choose=lambda _: backend) == 0
    links = rows_of(["net", "show"], backend, capsys)
    assert {(link["asked"]["delay"], link["cut"]) for link in links} == {(0.02, "")}


def test_rows_of_requirements_and_their_code(
    backend: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [
        Requirement(number="R01", text="one", ok=True, evidence="well"),
        Requirement(number="R02", text="two", ok=None, evidence="not tried"),
    ]
    monkeypatch.setattr(vendor_verbs, "check", lambda name, backend: found)
    rows = rows_of(["check", "mpich"], backend, capsys)
    assert [row["ok"] for row in rows] == [True, None]
    assert main(["check", "mpich", "--json"], choose=lambda _: backend) == 1


def test_rows_of_expectations(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = rows_of(["expect", "show"], backend, capsys)
    assert (row["cells"], row["named"], row["ran"]) == ([RING], 1, {"xpass": 1})


def test_rows_of_the_tests_of_the_tester(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert impi(["conform", "list", "3.6", "--json", "-"]) == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(value)
    assert value["rows"]
    file = tmp_path / "tests.json"
    assert impi(["conform", "list", "3.6", "--json", str(file)]) == 0
    assert json.loads(file.read_text("utf-8")) == value


def test_every_verb_that_tells_something_has_it() -> None:
    def verbs(parser: argparse.ArgumentParser, head: str = "") -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, verb in action.choices.items():
                    inner = verbs(verb, f"{head}{name} ")
                    found |= inner or {
                        f"{head}{name}": set(verb._option_string_actions)
                    }
        return found

    told = {name for name, flags in verbs(parser_of_all()).items() if "--json" in flags}
    assert set(verbs(parser_of_all())) - told == FOR_PEOPLE - {"abi"}
