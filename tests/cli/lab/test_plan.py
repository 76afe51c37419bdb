"""The cells of a run: order, exclusions, times, earlier runs, several attempts."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import re
import signal
import threading
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from forge import FakeBackend, FakeLab, Job

from impi.cli.impilab import main
from impi.lab.run.collection import Seen

P2P = "p2p.[ras]*/mpich+openmpi/1x2+1x2"
pytestmark = pytest.mark.usefixtures("three_vendors")

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"


@pytest.fixture
def backend(tmp_path, monkeypatch):
    (tmp_path / "clusters").symlink_to(Path(__file__).parents[3] / "clusters")
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def results(run: str = "latest") -> dict:
    return json.loads(Path(f"runs/{run}/results.json").read_text())


def by_id() -> dict[str, dict]:
    return {cell["id"]: cell for cell in results()["cells"]}


def breaks(*names: str):
    def tweak(job: Job) -> None:
        if job.name in names:
            job.wraps[0]["status"] = 1

    return tweak


def breaks_once(name: str):
    seen = Counter[str]()

    def tweak(job: Job) -> None:
        seen[job.name] += 1
        if job.name == name and seen[name] == 1:
            job.wraps[0]["status"] = 1

    return tweak


def interrupts(backend, name: str) -> None:
    """At this case somebody presses Ctrl-C, and the case would hang."""

    def tweak(job: Job) -> None:
        if job.name == name:
            job.hangs |= {"server", "client 0"}
            os.kill(os.getpid(), signal.SIGINT)

    backend.tweak = tweak


# -- labs beside each other


@pytest.mark.parametrize(("asked", "most"), [((), 3), (("--jobs", "4"), 4)])
def test_as_many_labs_as_asked_for_run_beside_each_other(
    backend, monkeypatch, asked: tuple[str, ...], most: int
):
    """Each cell has four procs; here the processors have room for twelve."""
    monkeypatch.setattr(
        "impi.lab.run.schedule._PROCS_PER_CORE", 12 / len(os.sched_getaffinity(0))
    )
    monkeypatch.setattr("impi.cli.lab.select.default_jobs", lambda: 4)
    together = threading.Barrier(most)

    def tweak(job: Job) -> None:
        together.wait(60)  # broken if fewer come

    backend.tweak = tweak
    cells = [
        f"p2p.ring/{pair}/1x2+1x2"
        for pair in ("pure+mpich", "mpich+openmpi", "openmpi+pure", "openmpi+mpich")
    ]
    assert lab(backend, "run", *cells[:most], *asked) == 0


# -- memory


def test_a_run_does_not_keep_what_it_saw_of_cells_that_are_over(backend):
    kept = []

    def tweak(job: Job) -> None:
        gc.collect()
        kept.append(sum(isinstance(one, Seen) for one in gc.get_objects()))

    backend.tweak = tweak
    assert lab(backend, "run", P2P, "--jobs", "1") == 0
    assert len(kept) >= 4
    assert max(kept) <= 1  # that of the cell just before


# -- plan


def test_a_plan_shows_what_is_left_out_and_why(backend, capsys):
    backend.unsupported["2x2+2x2"] = "there is one machine"
    assert lab(backend, "plan", "--all", "p2p.ring", "-x", "*/pure+*") == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert "p2p.ring/pure+mpich/1x2+1x2  excluded: -x */pure+*" in text
    assert "p2p.ring/mpich+openmpi/2x2+2x2  unsupported: there is one machine" in text
    assert "p2p.ring/mpich+mpich/2x2+2x2  excluded: not in tier core" in text
    assert lines[-1].startswith(
        "6 cells, 6 labs, 2 unsupported, 9 left out (-x */pure+*), 8 left out (not in tier core)"
    )


def test_a_plan_groups_what_is_left_out_by_its_reason(backend, capsys):
    backend.unsupported["2x2+2x2"] = "there is one machine"
    selectors = ["p2p.ring/mpich+*", "p2p.any/mpich+*", "-x", "*/mpich+openmpi/1x2+1x2"]
    assert lab(backend, "plan", *selectors) == 0
    text = capsys.readouterr().out
    assert "unsupported: there is one machine: 1 cell\n" in text
    assert "\n    2x2+2x2      mpich+openmpi: p2p.ring\n" in text
    # Two pairs that leave out the same cases share a line.
    assert "\n    1x2+1x2      mpich+pure, mpich+mpich: p2p.any\n" in text
    left_out = sum(
        line.startswith(("excluded", "unsupported")) for line in text.splitlines()
    )
    assert left_out == 3
    assert lab(backend, "plan", "--all", *selectors) == 0
    each = re.findall(r"  (?:excluded|unsupported): ", capsys.readouterr().out)
    assert len(each) == sum(int(n) for n in re.findall(r": (\d+) cells?\n", text))


@pytest.mark.parametrize("columns", ["80", "120"])
def test_what_is_left_out_fits_the_terminal(backend, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert lab(backend, "plan", "p2p.*/mpich+openmpi/*") == 0
    lines = capsys.readouterr().out.splitlines()[:-1]
    assert max(map(len, lines)) <= int(columns)
    assert any(line.startswith(" " * 8) for line in lines)


def test_a_plan_tells_the_time(backend, capsys):
    assert lab(backend, "plan", P2P, "--jobs", "1") == 0
    assert (
        "about 10 s with 1 at a time, 4 of them guessed at 2.5 s"
        in capsys.readouterr().out
    )
    assert lab(backend, "run", P2P) == 0
    capsys.readouterr()
    assert lab(backend, "plan", P2P, "--jobs", "1") == 0
    assert "guessed" not in capsys.readouterr().out


def test_a_plan_for_machines(backend, capsys):
    assert lab(backend, "plan", "p2p.ring", "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "impilab/plan/1"
    assert RING in [cell["id"] for cell in value["cells"]]
    assert {e["kind"] for e in value["excluded"]} == {"tier"}
    assert not Path("runs").exists()


def test_tags_are_listed_and_select(backend, capsys):
    assert lab(backend, "ls", "tags") == 0
    assert "@collective" in capsys.readouterr().out
    assert lab(backend, "run", "@sync") == 0
    assert {c["case"] for c in results()["cells"]} == {"p2p.ssend"}


# -- order


def order(backend, *argv: str) -> list[str]:
    # Not p2p.sizes: its captures take long to make up.
    assert (
        lab(
            backend,
            "run",
            "@p2p/mpich+openmpi/1x2+1x2",
            "-x",
            "@long",
            "--jobs",
            "1",
            *argv,
        )
        == 0
    )
    return [
        json.loads(line)["id"]
        for line in Path("runs/latest/results.jsonl").read_text().splitlines()
    ]


def test_the_seed_decides_the_order_and_is_told(backend, capsys):
    first, second = order(backend, "--seed", "1"), order(backend, "--seed", "2")
    assert sorted(first) == sorted(second)
    assert first != second
    assert order(backend, "--seed", "1") == first
    assert results()["seed"] == 1
    capsys.readouterr()
    found = order(backend)
    seed = results()["seed"]
    assert f"seed {seed};" in capsys.readouterr().out
    assert order(backend, "--seed", str(seed)) == found


# -- failed


def test_only_what_failed(backend, capsys):
    backend.tweak = breaks("p2p.ring", "p2p.any")
    assert lab(backend, "run", P2P) == 1
    assert lab(backend, "run", "--failed") == 1
    assert set(by_id()) == {RING, ANY}
    assert lab(backend, "run", "--failed", "p2p.any") == 1
    assert set(by_id()) == {ANY}
    backend.tweak = lambda job: None
    assert lab(backend, "run", "--failed") == 0
    capsys.readouterr()
    assert lab(backend, "run", "--failed") == 5
    assert "all cells of the newest run" in capsys.readouterr().err


def test_failed_takes_cells_of_no_tier_and_none_that_is_not_asked_for(backend, capsys):
    backend.tweak = breaks("p2p.ring")
    assert (
        lab(
            backend,
            "run",
            "p2p.ring",
            "--topology",
            "1x1+1x3",
            "--parties",
            "pure+mpich",
        )
        == 1
    )
    assert lab(backend, "run", "--failed", "coll.*") == 5
    assert (
        "none of the 1 cells that did not pass is 'coll.*'" in capsys.readouterr().err
    )
    assert lab(backend, "run", "--failed") == 1
    assert list(by_id()) == ["p2p.ring/pure+mpich/1x1+1x3"]


@pytest.mark.parametrize(
    ("words", "named"), [((), "fake"), (("--backend", "swarm"), "swarm")]
)
def test_what_failed_runs_again_on_the_backend_of_its_run(backend, words, named):
    asked: list[str | None] = []

    def choose(name: str | None) -> FakeBackend:
        asked.append(name)
        return backend

    backend.tweak = breaks("p2p.ring")
    assert main(["run", P2P], choose=choose) == 1
    assert main(["run", "--failed", *words], choose=choose) == 1
    assert main(["plan", "--failed", *words], choose=choose) == 0
    assert asked == [None, named, named]


def test_what_an_interrupted_run_did_not_come_to_has_not_passed(backend):
    interrupts(backend, "p2p.any")
    assert lab(backend, "run", P2P, "--jobs", "1", "--seed", "5") == 2
    over = {i for i, c in by_id().items() if c["outcome"] == "pass"}
    backend.tweak = lambda job: None
    assert lab(backend, "run", "--failed") == 0
    assert ANY in by_id()
    assert len(over) + len(by_id()) == 4


# -- resume


def test_an_interrupted_run_goes_on(backend, capsys):
    interrupts(backend, "p2p.any")
    assert lab(backend, "run", P2P, "--jobs", "1", "--seed", "5") == 2
    assert "'impilab run --resume' continues it" in capsys.readouterr().out
    before = Path("runs/latest").resolve()
    assert Counter(c["outcome"] for c in results()["cells"]) == {
        "pass": 2,
        "skipped": 2,
    }
    backend.tweak = lambda job: None
    backend.log.clear()
    assert lab(backend, "run", "--resume") == 0
    assert Path("runs/latest").resolve() == before
    assert backend.log.count("begin") == 2
    value = results()
    assert (value["totals"], value["exit"], value["seed"]) == ({"pass": 4}, 0, 5)
    assert len(Path("runs/latest/results.jsonl").read_text().splitlines()) == 4
    assert "4 cells, 2 of them done before" in capsys.readouterr().out
    suite = ElementTree.parse("runs/latest/junit.xml").getroot()
    assert (suite.get("tests"), suite.get("skipped")) == ("4", "0")


def killed_run(backend) -> Path:
    """A run whose process was killed in the middle of writing."""
    interrupts(backend, "p2p.any")
    assert lab(backend, "run", P2P, "--jobs", "1", "--seed", "5", "--retries", "2") == 2
    backend.tweak = lambda job: None
    folder = Path("runs/latest").resolve()
    (folder / "results.json").unlink()
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"id": "p2p.s')
    half = next(
        c["hash"]
        for c in json.loads((folder / "plan.json").read_text())["cells"]
        if c["id"] == ANY
    )
    (folder / "cells" / half).mkdir(exist_ok=True)
    return folder


def test_a_killed_run_goes_on(backend):
    folder = killed_run(backend)
    assert lab(backend, "run", "--resume") == 0
    assert results()["totals"] == {"pass": 4}
    assert all(
        (folder / c["evidence"]["folder"] / "evidence.json").exists()
        for c in results()["cells"]
    )


def test_resume_keeps_the_options_of_the_run(backend):
    killed_run(backend)
    backend.tweak = breaks_once("p2p.any")
    assert lab(backend, "run", "--resume") == 1
    assert by_id()[ANY]["outcome"] == "flaky"  # it was started with --retries


def test_resume_takes_new_options_that_do_not_change_the_plan(backend):
    killed_run(backend)
    backend.tweak = breaks_once("p2p.any")
    assert lab(backend, "run", "--resume", "--retries", "0") == 1
    assert by_id()[ANY]["outcome"] == "fail"


def test_resume_counts_what_failed_before(backend):
    def both(job: Job) -> None:
        if job.name == "p2p.any":
            job.hangs |= {"server", "client 0"}
            os.kill(os.getpid(), signal.SIGINT)
        job.wraps[0]["status"] = 1

    backend.tweak = both
    assert lab(backend, "run", P2P, "--jobs", "1", "--seed", "5") == 2
    backend.tweak = lambda job: None
    assert lab(backend, "run", "--resume") == 1
    assert results()["totals"] == {"pass": 2, "fail": 2}


def test_resume_declares_again_what_is_unsupported(backend):
    backend.unsupported["2x2+2x2"] = "there is one machine"
    interrupts(backend, "p2p.ring")
    assert lab(backend, "run", "p2p.ring/mpich+openmpi") == 2
    backend.tweak = lambda job: None
    assert lab(backend, "run", "--resume") == 0
    assert results()["totals"] == {"pass": 1, "unsupported": 1}


def test_nothing_to_resume(backend, capsys):
    assert lab(backend, "run", "--resume") == 4
    assert "there is no run yet" in capsys.readouterr().err
    assert lab(backend, "run", RING) == 0
    capsys.readouterr()
    assert lab(backend, "run", "--resume") == 5
    assert "ran all its cells" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        [RING],
        ["-x", RING],
        ["--tier", "full"],
        ["--seed", "1"],
        ["--failed"],
        ["--repeat", "2"],
    ],
)
def test_resume_does_not_select_anew(backend, capsys, more):
    killed_run(backend)
    capsys.readouterr()
    assert lab(backend, "run", "--resume", *more) == 4
    assert "leave out all options that select or order cells" in capsys.readouterr().err


def test_a_run_under_way_is_not_resumed(backend, capsys):
    folder = os.open(killed_run(backend), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    capsys.readouterr()
    assert lab(backend, "run", "--resume") == 4
    assert "is still running" in capsys.readouterr().err
    os.close(folder)


def test_another_source_is_another_run(backend, capsys, monkeypatch):
    killed_run(backend)
    capsys.readouterr()
    monkeypatch.setattr("impi.cli.lab.run.planned_digest", lambda: "another")
    assert lab(backend, "run", "--resume") == 4
    assert "impi has changed since run" in capsys.readouterr().err


def test_another_backend_is_another_run(backend, capsys):
    killed_run(backend)
    capsys.readouterr()
    assert lab(backend, "run", "--resume", "--backend", "docker") == 4
    assert "is one of backend fake" in capsys.readouterr().err


# -- attempts


def test_a_retry_that_passes_is_flaky_and_fails_the_run(backend, capsys):
    backend.tweak = breaks_once("p2p.ring")
    assert lab(backend, "run", P2P, "--retries", "2") == 1
    value = results()
    assert value["totals"] == {"pass": 3, "flaky": 1}
    cell = by_id()[RING]
    assert [a["outcome"] for a in cell["attempts"]] == ["fail", "pass"]
    assert "end.status" in cell["reason"]
    first, second = (Path("runs/latest") / a["folder"] for a in cell["attempts"])
    assert first.name == cell["hash"]
    assert second == first / "attempt-2"
    assert all((folder / "evidence.json").exists() for folder in (first, second))
    suite = ElementTree.parse("runs/latest/junit.xml").getroot()
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "flaky"
    assert {p.get("value") for p in suite.iter("property")} == {"fail, pass"}
    out = capsys.readouterr().out
    assert f"≈ {RING}" in out
    assert "1 of 2 attempts passed" in out


def test_a_lab_that_fails_once_is_no_failure_of_a_vendors(backend, monkeypatch):
    begin = FakeLab.begin_capture

    def breaks_the_first(mine: FakeLab) -> None:
        backend.broken_capture = "begin" not in backend.log
        begin(mine)

    monkeypatch.setattr(FakeLab, "begin_capture", breaks_the_first)
    assert lab(backend, "run", RING, "--retries", "1") == 3
    assert results()["totals"] == {"flaky": 1}
    assert [a["outcome"] for a in by_id()[RING]["attempts"]] == ["error", "pass"]


def test_repeat_until_it_fails(backend, capsys):
    seen = Counter[str]()

    def tweak(job: Job) -> None:
        seen[job.nonce] += 1
        job.wraps[0]["status"] = int(len(seen) == 4)

    backend.tweak = tweak
    assert (
        lab(
            backend,
            "run",
            P2P,
            "--repeat",
            "3",
            "--until-fail",
            "--jobs",
            "1",
            "--seed",
            "5",
        )
        == 1
    )
    cells = results()["cells"]
    assert Counter(c["result"] for c in cells) == {"pass": 1, "fail": 1, "skipped": 2}
    assert sorted(len(c["attempts"]) for c in cells) == [0, 0, 1, 3]
    assert {c["reason"] for c in cells if c["result"] == "skipped"} == {
        "the run ended early"
    }
    assert "3 of 3 attempts passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--retries", "-1"], "--retries -1"),
        (["--repeat", "0"], "--repeat 0"),
        (["--retries", "1", "--repeat", "2"], "contradict"),
        (["--until-fail"], "--until-fail needs --repeat N"),
        (["--seed", "x"], "--seed 'x': write a whole number"),
        (["--failed"], "there is no run yet"),
        (["@fast"], "no case has the tag"),
        (["--expect", "none.toml"], "none.toml cannot be read"),
    ],
)
def test_bad_options(backend, capsys, argv, words):
    assert lab(backend, "run", *argv) == 4
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("runs").exists()
