"""Copies of runs, and the history of their cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import record, written
from page_links import check_links

from impi.base.errors import LabError, UsageError
from impi.lab.report.pages.site import copy_run, publish

RING = "p2p.ring/pure+mpich/1x2+1x2"
LONG = "p2p.long/pure+mpich/1x2+1x2"
PORTS = "p2p.ports/pure+mpich/1x2+1x2"


def run(folder: Path, day: int, ring: str, long: str = "pass") -> Path:
    """A run of a day; the cell ``PORTS`` cannot be run."""
    records = [record(RING, ring), record(LONG, long), record(PORTS, "unsupported")]
    return written(folder, records, started=f"2027-01-0{day}T00:00:00+0000")


def captures(folder: Path) -> list[str]:
    return [path.parent.name for path in folder.rglob("*.pcap")]


def test_a_copy_has_what_a_page_host_needs(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "fail")
    (source / "plan.json").write_text("{}")
    page = copy_run(source, tmp_path / "copy")
    assert page == tmp_path / "copy/index.html"
    assert captures(page.parent) == [record(RING)["hash"]]  # the red one's alone
    assert not (page.parent / "plan.json").exists()
    assert check_links(page.parent) == 3
    assert len(captures(copy_run(source, tmp_path / "whole", captures=True).parent)) == 2


def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    with pytest.raises(UsageError, match="is there already: name a folder that does not exist"):
        copy_run(source, tmp_path)


def test_a_copy_that_cannot_be_made(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot be copied to"):
        copy_run(source, tmp_path / "file/copy")


def test_a_site_shows_what_became_of_cells(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for day, (name, ring, long) in enumerate([("a", "fail", "fail"), ("b", "pass", "fail"), ("c", "fail", "pass")], 1):
        page = publish(run(tmp_path / "runs" / name, day, ring, long), site)
    assert check_links(site) == 1 + 3 * 3
    text = page.read_text("utf-8")
    assert text.index("c/index.html") < text.index("b/index.html") < text.index("a/index.html")  # the newest first
    assert text.index(RING) < text.index(LONG)  # red now before red once
    assert PORTS not in text
    assert text.count("2/3") == 2
    assert '<a href="../index.html">all runs</a>' in (site / "a/index.html").read_text("utf-8")


def test_a_run_is_published_again(tmp_path: Path) -> None:
    site, runs = tmp_path / "site", tmp_path / "runs"
    publish(run(runs / "a", 1, "fail"), site)
    page = publish(written(runs / "later" / "a", [record(RING)]), site)
    assert sorted(path.name for path in site.iterdir()) == ["a", "index.html", "page.js", "pages.css"]
    text = page.read_text("utf-8")
    assert "<p>None.</p>" in text
    assert "1 cells were green in all runs that had them" in text


def test_a_site_that_cannot_be_written(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    (tmp_path / "site/index.html").mkdir(parents=True)
    with pytest.raises(LabError, match=r"the site .* cannot be written: Is a directory"):
        publish(source, tmp_path / "site")


def test_a_run_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> None:
        raise OSError(30, "Read-only file system")

    source, site = run(tmp_path / "runs/a", 1, "pass"), tmp_path / "site"
    publish(source, site)
    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(LabError, match="cannot be replaced: Read-only file system"):
        publish(source, site)
