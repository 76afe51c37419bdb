"""Annotations of a run in GitHub Actions: not too many, and none that a run could forge."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import record, written

from impi.base.errors import LabError
from impi.lab.report.annotations import (
    SUMMARY,
    add_to_summary,
    changes_page,
    of_changes,
    of_run,
)
from impi.lab.report.pages.run_pages import read_results
from impi.lab.report.run_diff import Change

CELL = "p2p.ring/pure+mpich/1x2+1x2/auth=key,net=wan"


def test_a_red_cell_is_an_error(tmp_path: Path) -> None:
    reason = "100 %\n::set-output name=x::y\r"
    run = written(
        tmp_path / "a",
        [record(CELL, "fail", reason=reason), record("p2p.all/pure+pure/1x2+1x2")],
    )
    assert list(of_run(read_results(run))) == [
        "::error title=p2p.ring/pure+mpich/1x2+1x2/auth=key%2Cnet=wan::fail: 100 %25%0A::set-output name=x::y%0D"
        f"%0Aagain: impilab repro {CELL} --run runs/a"
    ]


def test_what_is_too_much_is_counted(tmp_path: Path) -> None:
    records = [record(f"p2p.ring/pure+mpich/1x2+1x{i}", "fail") for i in range(1, 25)]
    found = list(
        of_run(
            read_results(
                written(tmp_path / "a", records, expectations=["row 9 (x) is stale"])
            )
        )
    )
    assert [line.partition(" ")[0] for line in found] == ["::error"] * 10 + [
        "::warning"
    ]
    assert (
        found[9]
        == "::error title=impilab::and 15 more: the summary of the job has all red cells"
    )
    assert found[10] == "::warning title=expectations::row 9 (x) is stale"


def test_what_is_worse_is_an_error() -> None:
    def change(kind: str) -> Change:
        return Change(
            kind=kind,
            id=CELL,
            before="",
            after="fail",
            reason="why",
            seconds_before=1.0,
            seconds_after=1.0,
        )

    [line] = of_changes([change("worse"), change("better")])
    assert (
        line
        == "::error title=worse%3A p2p.ring/pure+mpich/1x2+1x2/auth=key%2Cnet=wan::none -> fail: why"
    )


def test_a_diff_as_markdown() -> None:
    assert (
        changes_page(["a -> b: no cell ended otherwise"])
        == "### ✅ a -> b: no cell ended otherwise\n\n"
    )
    assert (
        changes_page(["worse x ```", "a -> b"])
        == "### ❌ a -> b\n\n```\nworse x '''\n```\n"
    )


def test_the_summary_grows_up_to_what_is_shown(tmp_path: Path) -> None:
    environ = {SUMMARY: str(tmp_path / "summary")}
    assert not add_to_summary("x", {})
    assert add_to_summary("before", environ)
    assert add_to_summary("é" * 600_000, environ)
    assert (tmp_path / "summary").read_text(
        "utf-8"
    ) == "before\nthe report of impilab is too long for this page\n"
    assert add_to_summary("after", environ)


def test_a_summary_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"GITHUB_STEP_SUMMARY .* cannot be written: Is a directory"
    ):
        add_to_summary("x", {SUMMARY: str(tmp_path)})
