"""A user's program in the folder of a run, and what may have become of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.cases.own import Conditions, OwnProgram
from impi.lab.cases.own_program import case_of
from impi.lab.nodes import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.report.folder.own_files import (
    own_of,
    program_value,
    read_program,
    write_program,
    write_references,
)

TERMS = Conditions(exit_code=3, output="out.txt", tolerance=1e-6, limit_s=60.0)


@pytest.fixture
def own() -> OwnProgram:
    return OwnProgram(
        name="mine.py", octets=b"print()\n", arguments=("-n", "a b"), conditions=TERMS
    )


def kept(folder: Path, own: OwnProgram) -> dict[str, object]:
    write_program(folder, own)
    return {"program": json.loads(json.dumps(program_value(own)))}


def test_it_comes_back_as_it_was(tmp_path: Path, own: OwnProgram) -> None:
    own.references.keep("1x2+1x2", "a cell", b"1")
    own.references.keep("", "/home/me/wanted.txt", b"2")
    case = read_program(tmp_path, kept(tmp_path, own))
    assert case is not None
    assert case.own == own
    assert case.own.references.all() == own.references.all()
    assert own_of([Cell(case, ("pure", "pure"), parse_topology("1x1+1x1"))]) == own


def test_references_that_come_later(tmp_path: Path, own: OwnProgram) -> None:
    plan = kept(tmp_path, own)
    own.references.keep("1x2+1x2", "a cell", b"1")
    write_references(tmp_path, own)
    case = read_program(tmp_path, plan)
    assert case is not None
    assert case.own is not None
    assert case.own.references.of("1x2+1x2") == ("a cell", b"1")


def test_a_run_of_the_catalogue_has_none(tmp_path: Path) -> None:
    assert read_program(tmp_path, {"cells": []}) is None
    assert own_of([]) is None


def test_a_compiled_program_is_mute(tmp_path: Path) -> None:
    own = OwnProgram(name="a.out", octets=b"\x7fELF...")
    case = read_program(tmp_path, kept(tmp_path, own))
    assert case is not None
    assert case.mute
    assert "text" not in case.params
    assert not case_of(OwnProgram(name="a.py", octets=b"")).mute


def test_what_was_changed_is_refused(tmp_path: Path, own: OwnProgram) -> None:
    plan = kept(tmp_path, own)
    (tmp_path / "program/mine.py").write_text("print(2)\n")
    with pytest.raises(UsageError, match=r"mine\.py was changed"):
        read_program(tmp_path, plan)


def test_a_name_that_leads_elsewhere_is_refused(
    tmp_path: Path, own: OwnProgram
) -> None:
    plan = {"program": {**program_value(own), "name": "../../etc/passwd"}}
    with pytest.raises(UsageError, match="is not the name of a file"):
        read_program(tmp_path, plan)


def test_an_index_that_is_none(tmp_path: Path, own: OwnProgram) -> None:
    own.references.keep("1x2+1x2", "a cell", b"1")
    plan = kept(tmp_path, own)
    for text in ("[", '{"../x": "y"}', '{"missing": "y"}', "3"):
        (tmp_path / "references/index.json").write_text(text)
        with pytest.raises(UsageError, match="references"):
            read_program(tmp_path, plan)
