"""The selection of cells by options."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.base.errors import UsageError
from impi.base.remote.supervised import Completed
from impi.cli.ending import declare
from impi.cli.impilab import main
from impi.cli.lab.select import SELECTION, expectations_of, jobs_of, planned, some
from impi.lab.plan.matrix import NothingSelected, Plan
from impi.lab.report.history import read_run
from impi.lab.report.results import RunFolder

RING = "p2p.ring/mpich+openmpi/1x2+1x2"


def options(*argv: str) -> Namespace:
    parser = ArgumentParser()
    declare(parser, SELECTION)
    return parser.parse_args(argv)


def test_a_selector_picks_cells_and_x_leaves_some_out() -> None:
    both = planned(options("p2p.[ra]*/mpich+openmpi/1x2+1x2"), FakeBackend())
    assert RING in {cell.id for cell in both.cells} and len(both.cells) > 1
    rest = planned(
        options("p2p.[ra]*/mpich+openmpi/1x2+1x2", "-x", "p2p.ring*"), FakeBackend()
    )
    assert {cell.id for cell in rest.cells} == {cell.id for cell in both.cells} - {RING}


def test_an_own_program_is_the_only_case(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("print()\n")
    argv = (
        "--program",
        str(program),
        "--args",
        "one 'two words'",
        "--topology",
        "1x2+1x2",
        "--parties",
        "pure+pure",
    )
    (cell,) = planned(options(*argv), FakeBackend()).cells
    assert (cell.parties, str(cell.topology)) == ("pure+pure", "1x2+1x2")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (
            ["--tier", "core", "--topology", "1x2+1x2"],
            "--tier and --topology or --parties contradict each other",
        ),
        (["--args", "x"], "--args belongs to --program FILE"),
        (["--program", "x.py", "--failed"], "--program is the only case"),
        (["--with", "nosuch"], "there is no vendor 'nosuch'"),
    ],
)
def test_options_that_contradict_each_other(argv: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        planned(options(*argv), FakeBackend())


def test_a_shard_is_a_part(tmp_path: Path) -> None:
    whole = planned(options("--tier", "smoke"), FakeBackend())
    parts = [
        planned(options("--tier", "smoke", "--shard", f"{i}/2"), FakeBackend())
        for i in (1, 2)
    ]
    assert {cell.id for part in parts for cell in part.cells} == {
        cell.id for cell in whole.cells
    }
    assert [part.shard for part in parts] == ["1/2", "2/2"]


def test_what_failed_of_an_own_program_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print()\n", "utf-8")
    own = (
        "--program",
        str(tmp_path / "mine.py"),
        "--topology",
        "1x2+1x2",
        "--parties",
        "pure+pure",
    )
    plan = planned(options(*own), FakeBackend())
    RunFolder.create(tmp_path, plan, argv=["run", *own], backend="fake", seed=7).close()
    (tmp_path / "mine.py").unlink()
    [cell] = planned(options("--failed", "--runs", str(tmp_path)), FakeBackend()).cells
    assert (cell.id, cell.case.params) == (plan.cells[0].id, plan.cells[0].case.params)


def test_backends_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert options("--backend", "ssh:hosts.toml").backend == "ssh:hosts.toml"
    with pytest.raises(SystemExit):
        options("--backend", "podman")
    assert (
        "invalid choice: 'podman' (choose from docker, local, swarm, ssh:FILE"
        in capsys.readouterr().err
    )


def test_how_many_labs() -> None:
    assert jobs_of(options("--jobs", "3")) == 3
    assert 1 <= jobs_of(options()) <= 4
    with pytest.raises(UsageError, match="--jobs 65: from 1 to 64 cells"):
        jobs_of(options("--jobs", "65"))


def test_nothing_is_no_plan() -> None:
    with pytest.raises(NothingSelected, match="nothing to run"):
        some(Plan((), ()))
    plan = planned(options(RING), FakeBackend())
    assert some(plan) is plan


def test_what_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert expectations_of(options()).rows == ()
    assert all(
        row.result for row in expectations_of(options("--prove-unsupported")).rows
    )
    with pytest.raises(UsageError):
        expectations_of(options("--expect", "none.toml"))


# -- one's own program, as a cell like any other

MINE = "program.mine/mpich+openmpi/1x2+1x2"
PAIR = ("--parties", "mpich+openmpi")


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("print('mine')\n")
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def breaks(job: Job) -> None:
    job.wraps[0]["status"] = 1


def test_a_run_of_ones_own_program_can_be_read(own, capsys):
    own.tweak = breaks
    assert lab(own, "run", "--program", "mine.py", "--args", "-n '3 4'", *PAIR) == 1
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "again" in line]
    earlier = read_run(Path("runs"))
    assert (
        [cell.id for cell in earlier.plan.cells]
        == [cell.id for cell in earlier.red]
        == [MINE]
    )
    assert earlier.own is not None
    assert earlier.own.params == {
        "name": "mine.py",
        "arguments": ["-n", "3 4"],
        "text": "print('mine')\n",
    }
    Path("mine.py").unlink()  # the run has its own copy
    assert lab(own, *shlex.split(line.split("again")[1])[1:]) == 1
    assert "bad: fail; in that run: fail in" in capsys.readouterr().out


def test_what_failed_of_ones_own_program_runs_again(own, capsys):
    own.tweak = lambda job: breaks(job) if job.roster.vendor(0) == "mpich" else None
    assert lab(own, "run", "--program", "mine.py", "--topology", "1x2+1x2") == 1
    assert lab(own, "run", "--failed") == 1
    assert {cell.vendors[0] for cell in read_run(Path("runs")).plan.cells} == {"mpich"}
    own.tweak = lambda job: None
    assert lab(own, "run", "--failed", "-x", "*/mpich+pure") == 0
    assert lab(own, "run", "--failed") == 5
    assert "passed" in capsys.readouterr().err


def test_an_interrupted_run_of_ones_own_program_goes_on(own, capsys):
    assert lab(own, "run", "--program", "mine.py", *PAIR) == 0
    run = Path("runs/latest").resolve()
    (run / "results.jsonl").write_text("")  # as if it had been killed
    (run / "results.json").unlink()
    assert lab(own, "run", "--resume", "--program", "mine.py") == 4
    assert "leave out all options that select" in capsys.readouterr().err
    assert lab(own, "run", "--resume") == 0
    assert Path("runs/latest").resolve() == run
    assert [record["id"] for record in read_run(Path("runs")).records] == [MINE]


def test_expectations_name_ones_own_program(own, capsys):
    row = f'[[expect]]\ncells = "{MINE}"\nresult = "fail"\nissue = "https://tracker.example/1"\nuntil = 2099-01-01\n'
    Path("rows.toml").write_text(row)
    own.tweak = breaks
    assert lab(own, "run", "--program", "mine.py", *PAIR, "--expect", "rows.toml") == 0
    assert lab(own, "expect", "show", "--expect", "rows.toml") == 0
    assert "in the run: 1 xfail" in capsys.readouterr().out
    assert lab(own, "expect", "lint", "--expect", "rows.toml") == 0
    assert (
        lab(own, "run", "p2p.ring/mpich+openmpi", "--expect", "rows.toml") == 1
    )  # not 6: other runs have no such cell
    assert "names no cell" not in capsys.readouterr().out


def test_outputs_of_all_vendors_are_compared(own, capsys):
    values = {
        "mpich": b"sum 1.0 of 4\n",
        "openmpi": b"sum 1.0000000001 of 4\n",
        "pure": b"sum 1.5 of 4\n",
    }

    def writes(job: Job) -> None:
        job.output = values[job.roster.vendor(0)]

    own.tweak = writes
    argv = [
        "--program",
        "mine.py",
        "--output",
        "sum.txt",
        "--topology",
        "1x2+1x2",
        "--jobs",
        "1",
    ]
    Path("wanted.txt").write_text("sum 1 of 4\n")
    assert (
        lab(own, "run", *argv, "--tolerance", "1e-6", "--reference", "wanted.txt") == 1
    )
    red = {cell.vendors[0] for cell in read_run(Path("runs")).red}
    assert red == {"pure"}
    said = capsys.readouterr().out
    assert "expected  sum.txt as that of wanted.txt  (end.output)" in said
    assert "actual    line 1 has 1.5, and there it is 1" in said
    # Without a reference it is the first cell's, and without a tolerance all digits count.
    assert lab(own, "run", *argv, "--seed", "1") == 1
    first = read_run(Path("runs")).records[0]
    assert first["result"] == "pass"
    index = json.loads(Path("runs/latest/references/index.json").read_text())
    assert index == {"1x2+1x2": first["id"]}
    odd = read_run(Path("runs")).red[0]
    assert lab(own, "repro", odd.id) == 1  # by the same reference
    own.tweak = lambda job: None
    assert lab(own, "run", *argv) == 1
    assert "no rank has written it" in capsys.readouterr().out


def test_an_exit_code_that_is_asked_for(own, capsys):
    def leaves(job: Job, code: int = 3) -> None:
        job.clients = [
            Completed(argv=(), code=code, stdout=b"", stderr=b"") for _ in job.clients
        ]
        job.server = Completed(
            argv=(), code=code, stdout=b"", stderr=b"Error: client 0 has failed\n"
        )

    own.tweak = leaves
    assert lab(own, "run", "--program", "mine.py", *PAIR, "--exit-code", "3") == 0
    assert lab(own, "run", "--program", "mine.py", *PAIR, "--exit-code", "4") == 1
    assert (
        "expected  impirun of client 0 ends with 4  (end.code)"
        in capsys.readouterr().out
    )
    own.tweak = lambda job: None
    assert lab(own, "run", "--program", "mine.py", *PAIR, "--exit-code", "3") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--exit-code", "3"], "--exit-code belongs to --program FILE"),
        (["--output", "x"], "--output belongs to --program FILE"),
        (
            ["--program", "mine.py", "--exit-code", "256"],
            "--exit-code 256: a number from 0 to 255",
        ),
        (
            ["--program", "mine.py", "--output", "/etc/passwd"],
            "a file that the program writes into its own folder",
        ),
        (
            ["--program", "mine.py", "--output", "../x"],
            "a file that the program writes into its own folder",
        ),
        (
            ["--program", "mine.py", "--output", "x", "--tolerance", "nan"],
            "--tolerance nan: a part of the number",
        ),
        (["--program", "mine.py", "--tolerance", "0.1"], "name it with --output FILE"),
        (
            ["--program", "mine.py", "--reference", "mine.py"],
            "--reference needs --output FILE",
        ),
        (
            ["--program", "mine.py", "--output", "x", "--reference", "none"],
            "--reference none cannot be read",
        ),
        (["--program", "mine.py", "--limit", "soon"], "--limit soon"),
        (["--program", "mine.py", "--args", "'"], "--args ': No closing quotation"),
    ],
)
def test_conditions_that_are_none(own, capsys, argv, said):
    assert lab(own, "run", *argv) == 4
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()
