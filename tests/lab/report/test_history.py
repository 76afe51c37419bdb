from __future__ import annotations

import json

import pytest

from impi.base.errors import UsageError
from impi.lab.plan.cell import parse_cell
from impi.lab.report.history import DEFAULT_S, durations, expected_s, read_run

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"
PURE = "p2p.any/pure+pure/1x2+1x2"


def results(
    folder, name: str, backend: str, cells: dict[str, tuple[float, int]]
) -> None:
    (folder / name).mkdir(parents=True)
    value = {
        "backend": backend,
        "cells": [
            {"id": i, "seconds": s, "attempts": [{}] * n} for i, (s, n) in cells.items()
        ],
    }
    (folder / name / "results.json").write_text(json.dumps(value))


def test_the_newest_time_on_the_same_backend_counts(tmp_path):
    results(tmp_path, "20260101T000000-aaaa", "docker", {RING: (9.0, 1), ANY: (4.0, 2)})
    results(
        tmp_path, "20260102T000000-aaaa", "docker", {RING: (3.0, 1), PURE: (0.0, 0)}
    )
    results(tmp_path, "20260103T000000-aaaa", "local", {RING: (1.0, 1)})
    (tmp_path / "20260104T000000-aaaa").mkdir()
    (tmp_path / "20260104T000000-aaaa" / "results.json").write_text("{")
    assert durations(tmp_path, "docker") == {RING: 3.0, ANY: 2.0}
    assert durations(tmp_path / "none", "docker") == {}


def test_expected_time_of_labs_beside_each_other():
    cells = [parse_cell(c) for c in (RING, ANY, PURE)]
    known = {RING: 3.0, ANY: 2.0}
    assert expected_s(cells, known, 1) == 5.0 + DEFAULT_S
    assert expected_s(cells, known, 2) == 5.0
    assert expected_s(cells, known, 9) == 5.0
    assert expected_s([], known, 2) == 0.0


@pytest.mark.parametrize(
    "what", ["nothing", "no plan", "half a plan", "another time's cell"]
)
def test_a_run_that_cannot_be_read(tmp_path, what):
    if what != "nothing":
        (tmp_path / "latest").mkdir()
    if what == "half a plan":
        (tmp_path / "latest" / "plan.json").write_text('{"cells": [')
    if what == "another time's cell":
        plan = {"cells": [{"id": "p2p.rong/pure+pure/1x1+1x1"}], "excluded": []}
        (tmp_path / "latest" / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(
        UsageError,
        match={
            "nothing": "there is no run yet",
            "no plan": "is not a run: it has no plan.json; 'impilab ls runs' shows",
        }.get(what, "start a new one"),
    ):
        read_run(tmp_path)
