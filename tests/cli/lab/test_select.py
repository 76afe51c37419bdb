"""The selection of cells by options."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.cli.ending import declare
from impi.cli.lab.select import SELECTION, expectations_of, jobs_of, planned, some
from impi.lab.plan.matrix import NothingSelected, Plan

RING = "p2p.ring/mpich+openmpi/1x2+1x2"


def options(*argv: str) -> Namespace:
    parser = ArgumentParser()
    declare(parser, SELECTION)
    return parser.parse_args(argv)


def test_a_selector_picks_cells_and_x_leaves_some_out() -> None:
    both = planned(options("p2p.[ra]*/mpich+openmpi/1x2+1x2"), FakeBackend())
    assert RING in {cell.id for cell in both.cells} and len(both.cells) > 1
    rest = planned(options("p2p.[ra]*/mpich+openmpi/1x2+1x2", "-x", "p2p.ring*"), FakeBackend())
    assert {cell.id for cell in rest.cells} == {cell.id for cell in both.cells} - {RING}


def test_an_own_program_is_the_only_case(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("print()\n")
    argv = ("--program", str(program), "--args", "one 'two words'", "--topology", "1x2+1x2", "--parties", "pure+pure")
    (cell,) = planned(options(*argv), FakeBackend()).cells
    assert (cell.parties, str(cell.topology)) == ("pure+pure", "1x2+1x2")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--tier", "core", "--topology", "1x2+1x2"], "--tier and --topology or --parties contradict each other"),
        (["--args", "x"], "--args belongs to --program FILE"),
        (["--program", "x.py", "--failed"], "--program is the only case"),
        (["--with", "nosuch"], "there is no vendor 'nosuch'"),
    ],
)
def test_options_that_contradict_each_other(argv: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        planned(options(*argv), FakeBackend())


def test_backends_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert options("--backend", "ssh:hosts.toml").backend == "ssh:hosts.toml"
    with pytest.raises(SystemExit):
        options("--backend", "podman")
    assert "invalid choice: 'podman' (choose from docker, local, swarm, ssh:FILE" in capsys.readouterr().err


def test_how_many_labs() -> None:
    assert jobs_of(options("--jobs", "3")) == 3
    assert 1 <= jobs_of(options()) <= 4
    with pytest.raises(UsageError, match="--jobs 65: from 1 to 64 labs"):
        jobs_of(options("--jobs", "65"))


def test_nothing_is_no_plan() -> None:
    with pytest.raises(NothingSelected, match="nothing to run"):
        some(Plan((), ()))
    plan = planned(options(RING), FakeBackend())
    assert some(plan) is plan


def test_what_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert expectations_of(options()).rows == ()
    assert all(row.result for row in expectations_of(options("--prove-unsupported")).rows)
    with pytest.raises(UsageError):
        expectations_of(options("--expect", "none.toml"))
