"""Bundles that strangers made: what is refused, and that nothing is written elsewhere."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from impi.base.errors import LabError, UsageError
from impi.lab.cases.own import OwnProgram
from impi.lab.plan.cell import hash_of
from impi.lab.report.folder.own_files import program_value
from impi.lab.report.keeping import bundle
from impi.lab.report.keeping.bundle import SCHEMA, read_bundle, told_lines

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
MINE = "program.mine/pure+pure/1x1+1x1"
OWN = OwnProgram(name="mine.py", octets=b"print()\n")
RECORD = {
    "id": RING,
    "outcome": "fail",
    "result": "fail",
    "phase": "case",
    "blame": "lab",
    "reason": "why\x1b[31m",
    "self_reported": False,
    "unseen": [],
    "seconds": 1.0,
    "attempts": [],
    "evidence": {"folder": "../../x"},
}


def told(**more: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "cell": RING,
        "cells": [RING],
        "run": "a",
        "backend": "local",
        "seed": 7,
        "source": "x",
        "timeout_scale": 2.0,
        "capture": "keep",
        "builds": {},
        "program": None,
        "records": [RECORD],
        **more,
    }


def packed(folder: Path, value: object, **files: str) -> Path:
    """A bundle; in names of files ``__`` stands for a slash."""
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        if value is not None:
            archive.writestr(
                "bundle.json", value if isinstance(value, str) else json.dumps(value)
            )
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_a_bundle_becomes_a_run(tmp_path: Path) -> None:
    files = {"cell__timeline.txt": "t", "cell__attempt-2__server.stderr": "s"}
    found = read_bundle(packed(tmp_path, told(), **files), tmp_path / "runs")
    assert (found.cell.id, found.run.head["backend"], found.run.head["seed"]) == (
        RING,
        "local",
        7,
    )
    assert found.run.head["argv"] == [
        "run",
        "--timeout-scale",
        "2",
        "--capture",
        "keep",
    ]
    cell = found.run.path / "cells" / hash_of(RING)
    assert (cell / "timeline.txt").read_text() == "t"
    assert (cell / "attempt-2/server.stderr").read_text() == "s"
    assert not (tmp_path / "runs/latest").exists()
    lines = told_lines(found)
    # No control characters of a stranger's
    assert "there it was fail: why?[31m" in lines
    assert any(line.startswith("impi differs here") for line in lines)
    assert found.run.records[0]["evidence"] == {"folder": "", "items": []}


def test_a_program_comes_with_a_warning(tmp_path: Path) -> None:
    value = told(
        cell=MINE,
        cells=[MINE],
        records=[],
        program=program_value(OWN),
        builds={"mpich": "00"},
    )
    path = packed(tmp_path, value)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("program/mine.py", OWN.octets)
    found = read_bundle(path, tmp_path / "runs")
    assert found.run.own is not None
    assert found.run.own.own == OWN
    lines = told_lines(found)
    assert any("is a stranger's: read it, for it runs as you" in line for line in lines)
    assert any("add --replace for mpich" in line for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "cell/../x",
        "cell/a/b",
        "cell\\x",
        "program/.hidden",
        "x",
        "cell/",
        "references/a/b",
        "cell/\x00x",
    ],
)
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path, told())
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("x")
        entry.filename = name
        archive.writestr(entry, "x")
    with pytest.raises(UsageError, match="is not a bundle: it has a file"):
        read_bundle(path, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "it has no bundle.json"),
        ("{", "is not a bundle of 'impilab bundle'"),
        ("[" * 100_000, "it is nested too deeply"),
        ([], "is not a bundle of"),
        (told(schema="impilab/bundle/9"), "its schema is 'impilab/bundle/9'"),
        (told(backend="ssh:../../x y"), "backend 'ssh:../../x y' is none"),
        (told(timeout_scale=1e9), "it has wrong conditions"),
        (told(timeout_scale=float("nan")), "it has wrong conditions"),
        (told(capture="--keep"), "it has wrong conditions"),
        (told(cell="p2p.none/a/b"), "there is no case 'p2p.none'"),
        (told(cells=["x"]), "there is no case 'x'"),
        (told(seed="x"), "is not a bundle of"),
        (told(records=[{"id": RING}]), "'outcome' is missing"),
        (
            told(records=[{**RECORD, "attempts": [{}]}]),
            "cannot be repeated by this impilab",
        ),
        (told(program={**program_value(OWN)}), "No such file"),
        (
            told(program={**program_value(OWN), "name": "../x"}),
            "which is not the name of a file",
        ),
    ],
)
def test_contents_that_are_none(tmp_path: Path, value: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_bundle(packed(tmp_path, value), tmp_path / "runs")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "runs").glob("*"))


def test_files_that_are_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_bundle(path, tmp_path / "runs")
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UsageError, match="is not a bundle of 'impilab bundle'"):
        read_bundle(path, tmp_path / "runs")
    whole = packed(tmp_path, told(), cell__a="x" * 1000)
    whole.write_bytes(whole.read_bytes().replace(b"x" * 1000, b"y" * 1000))
    with pytest.raises(
        UsageError, match="is not a bundle of 'impilab bundle': Bad CRC"
    ):
        read_bundle(whole, tmp_path / "runs")


def test_an_archive_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_MOST", 5000)
    with pytest.raises(
        UsageError, match="has more than 5000 octets when it is unpacked"
    ):
        read_bundle(packed(tmp_path, told(), cell__a="0" * 6000), tmp_path / "runs")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_twice(tmp_path: Path) -> None:
    path = packed(tmp_path, told(), cell__a="1")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("cell/a", "2")
    with pytest.raises(UsageError, match="it has cell/a twice"):
        read_bundle(path, tmp_path / "runs")


def test_somebody_elses_hosts_are_none_of_here(tmp_path: Path) -> None:
    path = packed(tmp_path, told(backend="ssh"))
    assert read_bundle(path, tmp_path / "runs").run.head["backend"] == "local"
    assert (
        read_bundle(path, tmp_path / "runs", backend="docker").run.head["backend"]
        == "docker"
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(LabError, match="cannot be made"):
        read_bundle(packed(tmp_path, told()), tmp_path / "runs")
