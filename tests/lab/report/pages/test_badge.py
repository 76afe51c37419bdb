"""Badges: each says no more than the newest run of its vendor."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_run import record

from impi.lab.report.pages.badge import Badge, badges
from impi.lab.report.pages.run_pages import render
from impi.lab.report.pages.views import RunView

RING = "p2p.ring/pure+mpich/1x2+1x2"
ALL = "p2p.all/pure+openmpi/1x2+1x2"


def run(*records: dict[str, Any]) -> RunView:
    value = {
        "run": "a",
        "backend": "docker",
        "seconds": 1.0,
        "expectations": [],
        "cells": list(records),
    }
    return RunView(value)


def told(found: list[Badge]) -> dict[str, tuple[str, str]]:
    return {badge.vendor: (badge.message, badge.kind) for badge in found}


def test_each_vendor_has_its_own() -> None:
    assert told(badges([run(record(RING), record(ALL, "fail"))])) == {
        "": ("1/2", "red"),
        "pure": ("1/2", "red"),
        "mpich": ("1/1", "green"),
        "openmpi": ("0/1", "red"),
    }


def test_the_newest_run_that_has_the_vendor_counts() -> None:
    found = told(badges([run(record(RING, "fail")), run(record(RING), record(ALL))]))
    assert (found[""], found["mpich"], found["openmpi"]) == (
        ("0/1", "red"),
        ("0/1", "red"),
        ("1/1", "green"),
    )


@pytest.mark.parametrize(
    ("records", "message", "kind"),
    [
        ([record(RING), record(ALL, "skipped")], "1/1, not all run", "orange"),
        ([record(RING, "unsupported")], "not run", "grey"),
        ([record(RING, self_reported=True), record(ALL)], "2/2 self-reported", "green"),
        ([record(RING, "xfail"), record(ALL)], "2/2", "green"),
        ([record(RING, "xpass")], "0/1", "red"),
    ],
)
def test_green_is_only_what_is_known(
    records: list[dict[str, Any]], message: str, kind: str
) -> None:
    assert told(badges([run(*records)]))[""] == (message, kind)


def test_the_picture_and_the_file_for_shields() -> None:
    badge = Badge(vendor="mpich@4.3", message="1/1", kind="green")
    picture = ElementTree.fromstring(badge.to_svg(render))
    assert picture.get("aria-label") == "IMPI mpich@4.3: 1/1"
    assert badge.to_json() == {
        "schemaVersion": 1,
        "label": "IMPI mpich@4.3",
        "message": "1/1",
        "color": "#1a7f37",
    }
    assert badge.name == "badge-mpich@4.3"
