"""One cell of a run again: which, in what lab, with which options, and what its exit code says."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.cli import entry
from impi.cli.impilab import main
from impi.lab.nodes.interface import Build
from impi.lab.nodes.saved import list_labs
from impi.lab.report.history import read_run

ROOT = Path(__file__).parents[4]
DEADLINE_S = 120
RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"
KEY = "startup.key/mpich+openmpi/1x2+1x2/auth=key"


@pytest.fixture
def backend(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def breaks(*names: str):
    def tweak(job: Job) -> None:
        if job.name in names:
            job.wraps[0]["status"] = 1

    return tweak


def again() -> dict:
    """Return the results of the newest repro of the newest run."""
    return json.loads(Path("runs/latest/repro/latest/results.json").read_text())


# -- the command that a red cell prints


def test_the_printed_command_runs_that_cell_again(backend, capsys):
    backend.tweak = breaks("p2p.ring")
    assert lab(backend, "run", "p2p.[ras]*/mpich+openmpi/1x2+1x2") == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "again" in line]
    command = shlex.split(line.split("again")[1])
    assert lab(backend, "run", ANY) == 0  # the newest run is another one now
    assert command[0] == "impilab"
    assert lab(backend, *command[1:]) == 1
    assert "bad: fail; in that run: fail in" in capsys.readouterr().out
    backend.tweak = lambda job: None
    assert lab(backend, *command[1:]) == 0
    assert "good: pass; in that run: fail in" in capsys.readouterr().out


def test_a_repro_prints_a_command_that_runs_as_well(backend, capsys):
    backend.tweak = breaks("p2p.ring")
    assert lab(backend, "run", RING) == 1
    capsys.readouterr()
    assert lab(backend, "repro", RING) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "again" in line]
    assert lab(backend, *shlex.split(line.split("again")[1])[1:]) == 1


def test_the_run_itself_stays_the_newest_one(backend):
    assert lab(backend, "run", RING) == 0
    run = Path("runs/latest").resolve()
    assert lab(backend, "repro", RING) == 0
    assert Path("runs/latest").resolve() == run
    assert [cell["id"] for cell in again()["cells"]] == [RING]
    assert read_run(Path("runs")).records[0]["id"] == RING


@pytest.mark.parametrize("word", [RING, "p2p.ring", "*/mpich+openmpi/1x2+1x2"])
def test_a_cell_is_named_by_whatever_names_only_it(backend, word):
    assert lab(backend, "run", RING) == 0
    assert lab(backend, "repro", word) == 0
    (cell,) = read_run(Path("runs")).plan.cells
    assert lab(backend, "repro", cell.hash) == 0


# -- as the run did it


def test_options_seed_and_variant_are_the_runs_own(backend, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "impi.cli.lab.past_runs.repro.Limits.scaled",
        lambda self, factor: seen.append(factor) or self,
    )
    assert (
        lab(
            backend,
            "run",
            "startup.key/mpich+openmpi",
            "--seed",
            "77",
            "--timeout-scale",
            "3",
        )
        == 0
    )
    assert lab(backend, "repro", KEY) == 0
    assert again()["seed"] == 77
    assert seen[0] == 3
    texts = Path("runs/latest/repro/latest/cells").resolve().rglob("commands.txt")
    assert any('"IMPI_AUTH_KEY": "(key)"' in path.read_text() for path in texts)


def test_the_builds_under_test_are_the_runs_own_unless_said_otherwise(
    backend, tmp_path
):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    backend.builds = {"mpich": build("one")}
    assert (
        lab(backend, "run", RING, "--replace", "mpich=one", "--replace=openmpi=image:1")
        == 0
    )
    assert backend.replaced == {"mpich": str(tmp_path / "one"), "openmpi": "image:1"}
    assert lab(backend, "repro", RING) == 0
    assert backend.replaced == {"mpich": str(tmp_path / "one"), "openmpi": "image:1"}
    assert lab(backend, "repro", RING, "--replace", "mpich=two") == 0
    two = {"mpich": str(tmp_path / "two"), "openmpi": "image:1"}
    assert backend.replaced == two
    backend.replaced = {}
    assert lab(backend, "repro", RING, "--run", "runs/latest/repro/latest") == 0
    assert backend.replaced == two


def build(name: str) -> Build:
    return Build(
        vendor="mpich",
        origin=f"/{name}",
        prefix="/opt/mpich",
        libraries=("aa" * 32,),
        digest=name,
    )


# -- history and isolation


def test_history_replays_what_ran_before_it_in_its_lab(backend, capsys):
    assert (
        lab(
            backend,
            "run",
            "p2p.[ras]*/mpich+openmpi/1x2+1x2",
            "--jobs",
            "1",
            "--seed",
            "1",
        )
        == 0
    )
    earlier = read_run(Path("runs"))
    order = [record["id"] for record in earlier.records]
    last = earlier.plan.cells[[c.id for c in earlier.plan.cells].index(order[-1])]
    assert [cell.id for cell in earlier.before(last)] == order[:-1]
    backend.log.clear()
    capsys.readouterr()
    assert lab(backend, "repro", last.id, "--history") == 0
    assert backend.log == ["open", *["begin", "end"] * 4, "close"]
    shown = [
        line.split()[1]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(" ✓")
    ]
    assert shown == order
    assert [cell["id"] for cell in again()["cells"]] == [last.id]
    backend.log.clear()
    assert lab(backend, "repro", last.id, "--history", "--isolation", "cell") == 0
    assert backend.log == ["open", "begin", "end", "close"] * 4


def test_history_ends_where_a_lab_was_discarded(backend):
    backend.tweak = breaks("p2p.ring")
    assert (
        lab(
            backend,
            "run",
            "p2p.[ras]*/mpich+openmpi/1x2+1x2",
            "--jobs",
            "1",
            "--seed",
            "2",
        )
        == 1
    )
    earlier = read_run(Path("runs"))
    order = [done.cell for done in earlier.dones]
    at = next(i for i, cell in enumerate(order) if cell.id == RING)
    assert earlier.before(order[at]) == order[:at]
    assert all(
        earlier.before(cell) == order[at + 1 : i]
        for i, cell in enumerate(order)
        if i > at
    )


def test_a_history_that_fails_is_no_verdict(backend, capsys):
    assert (
        lab(
            backend,
            "run",
            "p2p.[ras]*/mpich+openmpi/1x2+1x2",
            "--jobs",
            "1",
            "--seed",
            "1",
        )
        == 0
    )
    order = [record["id"] for record in read_run(Path("runs")).records]
    backend.tweak = breaks(order[0].partition("/")[0])
    assert lab(backend, "repro", order[-1], "--history") == 125
    assert (
        f"not tested: {order[0]} of its history did not pass" in capsys.readouterr().out
    )


def test_attempts_count_as_often_as_they_were(backend):
    assert (
        lab(backend, "run", RING, ANY, "--jobs", "1", "--seed", "1", "--repeat", "2")
        == 0
    )
    order = [done.cell for done in read_run(Path("runs")).dones]
    assert read_run(Path("runs")).before(order[1]) == [order[0], order[0], order[1]]


# -- exit codes


def test_what_is_the_labs_own_fault_is_not_tested(backend, capsys):
    assert lab(backend, "run", RING) == 0
    backend.broken_open = "no subnet is free"
    assert lab(backend, "repro", RING) == 125
    assert "not tested: error" in capsys.readouterr().out
    backend.broken_open = ""
    backend.unsupported["1x2+1x2"] = "there is no machine"
    assert lab(backend, "repro", RING) == 125
    assert (
        capsys.readouterr().err
        == f"impilab: {RING} cannot be run here: there is no machine\n"
    )


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["nothing"], "has no cell 'nothing'"),
        (["p2p.*"], "names 2 cells"),
        ([RING, "--run", "runs/none"], "no run none in runs"),
        ([RING, "--run", "elsewhere"], "no run elsewhere in ."),
        ([RING, "--shell", "c7n0"], "the nodes of"),
        ([RING, "--repeat", "0"], "--repeat 0"),
        ([RING, "--repeat", "2", "--keep"], "--until-fail"),
        ([RING, "--until-fail"], "--repeat N"),
        ([RING, "--history", "--repeat", "2"], "contradict"),
        ([RING, "--ttl", "2"], "--ttl 2"),
        ([RING, "--ttl", "1s"], "10s or more"),
        ([RING, "--replace", "mpich"], "VENDOR=PREFIX"),
        ([RING, "--replace", "lamb=/opt"], "with a vendor of mpich, openmpi"),
        ([RING, "--replace", "mpich=/nowhere"], "no folder /nowhere"),
        ([RING, "--fast"], "unrecognized arguments"),
        ([], "CELL"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_verdict(backend, capsys, argv, complaint):
    assert lab(backend, "run", RING, ANY) == 0
    capsys.readouterr()
    assert lab(backend, "repro", *argv) == 125
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert complaint in captured.err
    assert not Path("runs/latest/repro").exists()


def test_without_a_run_there_is_nothing_to_repeat(backend, capsys):
    assert lab(backend, "repro", RING) == 125
    assert "there is no run yet in runs" in capsys.readouterr().err


def test_a_cell_that_the_run_left_out_is_told_with_the_reason(backend, capsys):
    assert (
        lab(
            backend,
            "run",
            "p2p.*",
            "--topology",
            "1x2+1x2",
            "--parties",
            "mpich+openmpi",
            "-x",
            "p2p.ring",
        )
        == 0
    )
    assert lab(backend, "repro", RING) == 125
    assert f"it left {RING} out: -x p2p.ring" in capsys.readouterr().err


def test_an_interrupt_ends_a_bisection(backend):
    assert lab(backend, "run", RING) == 0

    def tweak(job: Job) -> None:
        job.hangs |= {"server", "client 0"}
        os.kill(os.getpid(), signal.SIGINT)

    backend.tweak = tweak
    assert lab(backend, "repro", RING) == 130
    assert backend.open_labs == 0


def test_code_that_does_not_even_load_is_not_tested(monkeypatch, capsys):
    def broken(name: str) -> None:
        raise SyntaxError("in the middle of a bisection")

    monkeypatch.setattr("importlib.import_module", broken)
    monkeypatch.setattr(sys, "argv", ["impilab", "repro", RING])
    assert entry.impilab() == 125
    assert "in the middle of a bisection" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["impilab", "run", RING])
    assert entry.impilab() == 3  # no verdict either


def test_repeat_until_it_fails(backend):
    assert lab(backend, "run", RING) == 0
    count = Counter[str]()

    def tweak(job: Job) -> None:
        count[job.name] += 1
        if count[job.name] == 3:
            job.wraps[0]["status"] = 1

    backend.tweak = tweak
    assert lab(backend, "repro", RING, "--repeat", "9", "--until-fail") == 1
    assert count["p2p.ring"] == 3


# -- labs that stay


def test_a_shell_comes_after_the_cell_and_its_lab_goes_with_it(backend, monkeypatch):
    assert lab(backend, "run", RING) == 0
    entered = []
    monkeypatch.setattr(
        "impi.cli.lab.past_runs.repro.enter",
        lambda saved, node, argv: entered.append((saved.name, node)) or 0,
    )
    backend.log.clear()
    assert lab(backend, "repro", RING, "--shell", "c1n0") == 0
    assert [node for _, node in entered] == ["c1n0"]
    assert backend.log == ["open", "begin", "end", "hold", "close", "remove"]
    assert list_labs() == []
    assert lab(backend, "repro", RING, "--shell", "--keep") == 0
    assert [node for _, node in entered] == ["c1n0", "c0n0"]
    assert len(list_labs()) == 1


# -- for git

TOOL = """
import sys
from pathlib import Path
tree, tests, *sys.argv[1:] = sys.argv[1:]
sys.path[:0] = [tree, tests]
from forge import FakeBackend
import impi.lab.backends
program = (Path(tree) / "impi/lab/programs/p2p_ring.py").read_text()
def tweak(job):
    if "SystemExit" in program:
        job.wraps[0]["status"] = 1
impi.lab.backends.choose_backend = lambda name: FakeBackend(tweak=tweak)
from impi.cli.entry import impilab
sys.exit(impilab())
"""


@pytest.mark.slow
def test_git_bisect_finds_the_commit_that_broke_a_cell(tmp_path):
    """A checkout of its own, in which one commit breaks the cell and one breaks everything."""
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copytree(ROOT / "images", tree / "images")
    shutil.copytree(
        ROOT / "impi", tree / "impi", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tree / ".gitignore").write_text("__pycache__/\nruns/\n")
    environ = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_")
        },
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{
            f"GIT_{who}_{what}": "x@y.example"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }

    def call(*argv: str) -> str:
        done = subprocess.run(
            argv,
            cwd=tree,
            env=environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(subject: str) -> str:
        call("git", "add", "-A")
        call("git", "commit", "-q", "--allow-empty", "-m", subject)
        return call("git", "rev-parse", "HEAD").strip()

    (tmp_path / "tool.py").write_text(TOOL)
    impilab = [
        sys.executable,
        str(tmp_path / "tool.py"),
        str(tree),
        str(ROOT / "tests/worlds"),
    ]
    call("git", "init", "-q", ".")
    good = commit("good")
    call(*impilab, "run", RING)
    commit("nothing")
    cli = tree / "impi/cli/lab/past_runs/repro.py"
    text = cli.read_text()
    cli.write_text("this is not Python\n")
    broken = commit("broken altogether")
    cli.write_text(text)
    commit("mended")
    program = tree / "impi/lab/programs/p2p_ring.py"
    program.write_text(
        program.read_text().replace("report.done()", "raise SystemExit(1)")
    )
    bad = commit("bad")
    commit("later")
    call("git", "bisect", "start", "HEAD", good)
    call("git", "checkout", "-q", broken)  # where it begins
    told = call(
        "git",
        "bisect",
        "run",
        *impilab,
        "repro",
        RING,
        "--run",
        str(tree / "runs/latest"),
    )
    assert f"{bad} is the first bad commit" in told
    assert f"git bisect skip {broken}" in call("git", "bisect", "log")
