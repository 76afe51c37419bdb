"""Copies of runs, and the history of their cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import record, written
from page_links import check_links

from impi.base.errors import LabError, UsageError
from impi.lab.report.folder.sanitize import NAMES
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
    assert (
        len(captures(copy_run(source, tmp_path / "whole", captures=True).parent)) == 2
    )


def test_a_copy_names_neither_machine_nor_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = run(tmp_path / "runs/a", 1, "fail")
    value = json.loads((source / "results.json").read_text())
    value["cells"][0]["reason"] = "zelda@zelda-laptop: ssh to 192.0.2.77 failed"
    (source / "results.json").write_text(json.dumps(value))
    (source / value["cells"][0]["evidence"]["folder"] / "server.stderr").write_text(
        "/home/zelda/x on zelda-laptop"
    )
    # It ran elsewhere: the run has noted the names of that machine.
    names = {
        "zelda": "USER",
        "zelda-laptop": "HOST",
        "/home/zelda": "HOME",
        "192.0.2.77": "ADDRESS",
    }
    (source / NAMES).write_text(json.dumps(names))
    (source / "program").mkdir()
    (source / "program/mine.py").write_text("mine")
    publish(source, tmp_path / "site")
    copy = tmp_path / "site" / source.name
    texts = {
        path: path.read_text("utf-8")
        for path in copy.rglob("*")
        if path.is_file() and path.suffix != ".pcap"
    }
    assert not [
        path for path, text in texts.items() if "zelda" in text or "192.0.2.77" in text
    ]
    assert "USER@HOST: ssh to ADDRESS failed" in texts[copy / "index.html"]
    assert not (copy / NAMES).exists()
    assert not (copy / "program").exists()
    # The run itself stays as it is
    assert "zelda" in (source / "results.json").read_text()


def test_hosts_that_exist_are_not_named(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "fail")
    value = json.loads((source / "results.json").read_text())
    value["backend"] = "ssh:hosts.toml"
    value["cells"][0] |= {
        "unseen": ["beta.example.org"],
        "reason": "beta.example.org (192.0.2.78) is gone",
    }
    (source / "results.json").write_text(json.dumps(value))
    folder = source / value["cells"][0]["evidence"]["folder"]
    (folder / "evidence.json").write_text(
        json.dumps({"addresses": {"c1n0": "192.0.2.78"}})
    )
    text = copy_run(source, tmp_path / "copy").read_text("utf-8")
    assert "HOST-0 (ADDRESS-OF-c1n0) is gone" in text
    assert "beta" not in text


def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    with pytest.raises(
        UsageError, match="exists already: name a folder that does not exist"
    ):
        copy_run(source, tmp_path)


def test_a_copy_that_cannot_be_made(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot be copied to"):
        copy_run(source, tmp_path / "file/copy")


def test_a_site_shows_what_became_of_cells(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for day, (name, ring, long) in enumerate(
        [("a", "fail", "fail"), ("b", "pass", "fail"), ("c", "fail", "pass")], 1
    ):
        page = publish(run(tmp_path / "runs" / name, day, ring, long), site)
    assert check_links(site) == 1 + 3 * 3
    text = page.read_text("utf-8")
    # The newest first
    assert (
        text.index("c/index.html")
        < text.index("b/index.html")
        < text.index("a/index.html")
    )
    assert text.index(RING) < text.index(LONG)  # red now before red once
    assert PORTS not in text
    assert text.count("2/3") == 2
    assert '<a href="../index.html">all runs</a>' in (site / "a/index.html").read_text(
        "utf-8"
    )


def test_a_run_is_published_again(tmp_path: Path) -> None:
    site, runs = tmp_path / "site", tmp_path / "runs"
    publish(run(runs / "a", 1, "fail"), site)
    page = publish(written(runs / "later" / "a", [record(RING)]), site)
    badges = [
        f"badge{vendor}.{ending}"
        for vendor in ("", "-mpich", "-pure")
        for ending in ("json", "svg")
    ]
    rest = ["history.json", "index.html", "page.js", "pages.css"]
    assert sorted(path.name for path in site.iterdir()) == sorted(["a", *badges, *rest])
    text = page.read_text("utf-8")
    assert "<p>None.</p>" in text
    assert "1 cells were green in all runs that had them" in text


def test_what_is_red_by_chance_is_counted(tmp_path: Path) -> None:
    site = tmp_path / "site"
    # By chance: the second, the fourth
    ring = ["pass", "fail", "pass", "flaky", "fail", "pass", "fail", "fail"]
    for day, result in enumerate(ring, 1):
        publish(run(tmp_path / f"runs/{day}", day, result), site)
    value = json.loads((site / "history.json").read_text("utf-8"))
    assert value["runs"] == [str(day) for day in range(8, 0, -1)]
    assert value["cells"] == [
        {"id": RING, "runs": 8, "red": 5, "flaky": 2, "now": "fail"}
    ]


def test_a_site_that_cannot_be_written(tmp_path: Path) -> None:
    source = run(tmp_path / "runs/a", 1, "pass")
    (tmp_path / "site/index.html").mkdir(parents=True)
    with pytest.raises(
        LabError, match=r"the site .* cannot be written: Is a directory"
    ):
        publish(source, tmp_path / "site")


def test_a_run_that_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> None:
        raise OSError(30, "Read-only file system")

    source, site = run(tmp_path / "runs/a", 1, "pass"), tmp_path / "site"
    publish(source, site)
    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(LabError, match="cannot be replaced: Read-only file system"):
        publish(source, site)
