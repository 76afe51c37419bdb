"""The pages of a run: links that lead somewhere, text that stays text, size and time, a browser."""

from __future__ import annotations

import cProfile
import json
import pstats
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from made_up_run import made_up, record, written
from page_links import Page, check_for_everybody, check_links, troubles_of
from told_cells import CELL, hangs, ran

from impi.base.errors import LabError, UsageError
from impi.lab.report.evidence_files import write_seen
from impi.lab.report.pages.run_pages import write_pages

RING = "p2p.ring/pure+mpich/1x2+1x2"


def test_every_link_leads_somewhere_and_every_cell_that_ran_has_a_page(
    tmp_path: Path,
) -> None:
    folder = made_up(tmp_path / "run", 200)
    assert write_pages(folder) == folder / "index.html"
    ran_cells = list((folder / "cells").iterdir())
    assert check_links(folder) == len(ran_cells) + 1


def test_what_others_wrote_is_text(tmp_path: Path) -> None:
    evil = "</pre><script>alert(1)</script><img src=x>"
    row = {
        "row": 1,
        "result": "fail",
        "issue": "javascript:alert(1)",
        "until": "2027-03-01",
    }
    folder = written(
        tmp_path / "run",
        [
            record(RING, "xpass", reason=evil, expected=row),
            record(f"{RING}/a=b", "fail", reason=evil),
        ],
    )
    for cell in (folder / "cells").iterdir():
        (cell / "client1.stderr").write_text(evil)
        (cell / "hang.txt").write_text(evil)
    write_pages(folder)
    for page in folder.rglob("index.html"):
        found = Page(page)
        assert found.tags.count("script") == 1
        assert "img" not in found.tags
        assert not any(link.startswith("javascript") for link in found.links)
    assert "<script>" not in (folder / "report.md").read_text().replace(
        "\\<script\\>", ""
    )


def test_a_red_cell_says_why_first_and_how_to_repeat_it(tmp_path: Path) -> None:
    reason = "end.status: expected 0, but it ended with 1"
    folder = written(
        tmp_path / "run",
        [record(RING, "fail", reason=reason), record(f"{RING}/a=b", "error")],
    )
    first, second = (
        folder / item["evidence"]["folder"]
        for item in json.loads((folder / "results.json").read_text())["cells"]
    )
    (first / "client0.stderr").write_text("x" * 30_000)
    write_pages(folder)
    text = (first / "index.html").read_text("utf-8")
    head = text.partition("</header>")[0]
    assert reason in head
    assert f"../../{second.relative_to(folder)}/index.html" in head
    assert f"impilab repro {RING} --run runs/run" in text
    assert "impi decode runs/run/cells/" in text
    assert "Traceback &lt;script&gt;" in text
    assert "... client0.stderr has the rest" in text
    assert "2.0 kB" in text
    index = (folder / "index.html").read_text("utf-8")
    assert index.index(reason) < index.index('class="matrix"')


def test_attempts_have_their_timelines(tmp_path: Path) -> None:
    cell = record(RING, "flaky")
    own = cell["evidence"]["folder"]
    cell["attempts"] = [
        {**cell["attempts"][0], "folder": where}
        for where in (f"{own}/attempt-1", own, "")
    ]
    folder = written(tmp_path / "run", [cell])
    (folder / own / "attempt-1").mkdir()
    (folder / own / "attempt-1/timeline.html").touch()
    (folder / own / "timeline.html").write_bytes(bytes(2_000_000))
    write_pages(folder)
    links = Page(folder / own / "index.html").links
    assert {"attempt-1/timeline.html", "timeline.html"} <= set(links)
    assert "2.0 MB" in (folder / own / "index.html").read_text("utf-8")


def test_the_summary_is_short(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "run", [record(f"{RING}/n={i}", "fail") for i in range(60)]
    )
    write_pages(folder)
    text = (folder / "report.md").read_text("utf-8")
    assert text.startswith("## ❌ 60 red of 60 cells")
    assert "* and 10 more" in text
    assert "| pure+mpich | 0/60 ✗ |" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, " is not a run: it has no plan.json; 'impilab ls runs' shows those of"),
        ("{", "results.json cannot be read: "),
        ("[" * 100_000, "results.json cannot be read: "),
        ("[]", "results.json is not a file of results"),
        (
            '{"schema": "impilab/results/1"}',
            "results.json is not complete ('run'); run the cells again",
        ),
    ],
)
def test_a_folder_that_has_no_results(
    text: str | None, why: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "results.json").write_text(text)
    with pytest.raises(UsageError, match=re.escape(why)):
        write_pages(tmp_path)


def test_a_run_that_has_not_ended(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match=r"under way, or was killed; 'impilab run"):
        write_pages(tmp_path)


def test_a_run_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no run .*/none; 'impilab ls runs' shows them"
    ):
        write_pages(tmp_path / "none")


def test_pages_that_cannot_be_written(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", [record(RING)])
    (folder / "index.html").mkdir()
    with pytest.raises(
        LabError, match=r"the pages of .* cannot be written: Is a directory"
    ):
        write_pages(folder)


def test_a_cell_whose_files_are_gone_has_no_page(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", [record(RING)])
    shutil.rmtree(folder / "cells")
    write_pages(folder)
    assert [page.parent for page in folder.rglob("index.html")] == [folder]


def test_a_thousand_cells_are_small_and_quick(tmp_path: Path) -> None:
    folder = made_up(tmp_path / "run", 1000)
    before = {path for path in folder.rglob("*") if path.is_file()}
    profile = cProfile.Profile()
    profile.runcall(write_pages, folder)
    # These take 1 s; a bound in seconds would be one of the machine.
    assert pstats.Stats(profile).total_calls < 1_300_000  # type: ignore[attr-defined]
    assert (
        sum(
            path.stat().st_size
            for path in folder.rglob("*")
            if path.is_file() and path not in before
        )
        < 5e6
    )


# -- in a browser


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A run of made-up cells, one of which hangs and has all its files."""
    seen, verdict = ran(hangs)
    more = {
        "hash": CELL.hash,
        "reason": verdict.reason,
        "evidence": {"folder": f"cells/{CELL.hash}", "items": []},
    }
    folder = made_up(tmp_path / "run", 300)
    value = json.loads((folder / "results.json").read_text())
    others = [each for each in value["cells"] if each["id"] != CELL.id]
    value["cells"] = [*others, record(CELL.id, "timeout", **more)]
    (folder / "results.json").write_text(json.dumps(value))
    write_seen(CELL, seen, verdict, folder / "cells" / CELL.hash)
    write_pages(folder)
    return folder


@pytest.mark.proof
def test_a_browser_filters_by_the_address(browser: Any, site: Path) -> None:
    page = browser.new_page()
    troubles = troubles_of(page)
    page.goto(
        f"file://{site}/index.html#find=p2p.ring&result=fail,timeout&topology=1x1%2B1x3"
    )
    assert page.input_value("#find") == "p2p.ring"
    shown = page.locator(".matrix td a:visible")
    assert shown.count() > 0
    assert {
        shown.nth(i).get_attribute("data-result") for i in range(shown.count())
    } <= {"fail", "timeout"}
    assert page.inner_text(".matrix thead tr:first-child th:visible") == "1x1+1x3"
    assert not page.is_visible("#slow")
    page.click("#every")
    assert page.inner_text("#count") == "300 of 300 cells"
    assert page.input_value("[data-filter=topology]") == ""
    page.fill("#find", "mpich+openmpi/1x2+1x2")
    page.uncheck("input[value=pass]")
    assert "find=mpich%2Bopenmpi" in page.url
    assert "result=" in page.url
    page.go_back()
    page.goto(f"file://{site}/index.html#vendor=openmpi@4.1")
    page.locator(".matrix td a:visible").first.focus()
    before = page.evaluate("document.activeElement.href")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("document.activeElement.href")
    assert after != before
    page.keyboard.press("Enter")
    page.wait_for_url(after)
    assert page.inner_text("h1")
    assert troubles == []


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_for_everybody(
    width: int, scheme: str, browser: Any, site: Path
) -> None:
    """No finding of axe, and nothing to scroll sideways but tables."""
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    cell = f"cells/{CELL.hash}"
    for name in (
        "index.html",
        "index.html#result=fail",
        f"{cell}/index.html",
        f"{cell}/timeline.html",
    ):
        page.goto(f"file://{site}/{name}")
        check_for_everybody(page, width)
