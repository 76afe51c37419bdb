"""Two runs beside each other: what is worse, and what is merely other."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from made_up_run import record

from impi.lab.report.run_diff import KINDS, as_json, compare

RING = "p2p.ring/pure+mpich/1x2+1x2"


def run(name: str, **results: str) -> dict[str, Any]:
    return {
        "run": name,
        "cells": [
            record(f"p2p.{case}/pure+mpich/1x2+1x2", result)
            for case, result in results.items()
        ],
    }


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("pass", "fail", "worse"),
        ("xfail", "timeout", "worse"),
        ("skipped", "error", "worse"),
        ("pass", "flaky", "worse"),
        ("xfail", "xpass", "worse"),
        ("", "fail", "worse"),
        ("pass", "skipped", "worse"),
        ("xfail", "unsupported", "worse"),
        ("fail", "pass", "better"),
        ("timeout", "xfail", "better"),
        ("pass", "xfail", "changed"),
        ("fail", "timeout", "changed"),
        ("fail", "skipped", "changed"),
        ("skipped", "pass", "changed"),
        ("", "pass", "new"),
        ("", "unsupported", "new"),
        ("pass", "", "gone"),
        ("pass", "pass", ""),
        ("fail", "fail", ""),
    ],
)
def test_kinds_of_changes(before: str, after: str, kind: str) -> None:
    old, new = (
        run(name, **({"ring": result} if result else {}))
        for name, result in (("a", before), ("b", after))
    )
    assert [(c.kind, c.id, c.before, c.after) for c in compare(old, new)] == (
        [(kind, RING, before, after)] if kind else []
    )


def test_worse_comes_first() -> None:
    old = run("a", a="pass", b="fail", c="fail", d="pass", e="pass")
    new = run("b", a="xfail", b="pass", c="timeout", d="fail", f="pass")
    changes = compare(old, new)
    assert [(c.kind, c.id[4]) for c in changes] == [
        ("worse", "d"),
        ("better", "b"),
        ("changed", "a"),
        ("changed", "c"),
        ("new", "f"),
        ("gone", "e"),
    ]
    assert changes[0].reason.startswith("end.status: ")


def test_the_json_is_as_its_schema_says() -> None:
    schema = json.loads(
        (files("impi.lab") / "report/schemas/diff.schema.json").read_text()
    )
    old, new = run("a", a="pass"), run("b", a="fail", b="pass")
    value = as_json(old, new, compare(old, new))
    jsonschema.Draft202012Validator(schema).validate(value)
    assert value["totals"] == dict.fromkeys(KINDS, 0) | {"worse": 1, "new": 1}
