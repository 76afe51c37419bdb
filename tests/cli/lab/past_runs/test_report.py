"""Commands that show a run again, compare two, and publish one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forge import FakeBackend
from made_up_run import record, written

from impi.cli.impilab import main
from impi.cli.lab.past_runs.report import add_report
from impi.lab.report.live.server import RunServer

RING = "p2p.ring/mpich+openmpi/1x2+1x2"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, of which the second is red and the newest."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "runs/a", [record(RING)], seconds=100)
    written(tmp_path / "runs/b", [record(RING, "fail")], seconds=90, backend="local")
    (tmp_path / "runs/latest").symlink_to("b")
    return tmp_path / "runs"


def test_the_verbs_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert add_report.__module__ == "impi.cli.lab.past_runs.report"
    for verb in ("report", "serve", "diff", "publish"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        assert verb in capsys.readouterr().out


def test_a_run_ends_with_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", RING], choose=lambda _name: FakeBackend()) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("report runs/")
    page = Path(last.removeprefix("report "))
    assert RING in page.read_text("utf-8")
    assert page.parent == Path("runs/latest").resolve().relative_to(Path.cwd())


@pytest.mark.parametrize("named", [[], ["b"], ["runs/b"], ["../other/b"]])
def test_a_report_of_a_run_by_name_or_folder(
    named: list[str], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if named == ["../other/b"]:
        written(runs.parent.parent / "other/b", [record(RING)])
    assert main(["report", *named]) == 0
    assert Path(capsys.readouterr().out.split()[1]).is_file()


def test_a_server_says_its_address_and_ends_at_an_interrupt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_server: RunServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunServer, "serve", interrupted)
    assert main(["serve"]) == 0
    assert capsys.readouterr().out.startswith("the page is http://127.0.0.1:")
    assert main(["serve", "--port", "70000"]) == 4
    assert "--port 70000: a number from 0 to 65535" in capsys.readouterr().err


def test_a_copy_and_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a", "--to", "copy"]) == 0
    assert main(["publish", "site", "a"]) == main(["publish", "site"]) == 0
    assert (
        capsys.readouterr().out
        == "report copy/index.html\nsite site/index.html\nsite site/index.html\n"
    )


@pytest.mark.parametrize("verb", ["report", "serve"])
@pytest.mark.parametrize("more", [["none"], ["./none"]])
def test_a_run_that_there_is_not_is_one_sentence(
    verb: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, *more]) == 4
    assert "none; 'impilab ls runs' shows them" in capsys.readouterr().err


def test_a_gate_is_shut_by_what_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["worse", "pass", "->", "fail", RING]
    assert (
        lines[1]
        == "the backends differ, docker and local, and so does the evidence of cells"
    )
    assert lines[2] == "a -> b: 1 worse; 100 s -> 90 s"
    assert main(["diff", "a", "b", "--gate"]) == 1
    assert main(["diff", "b", "a", "--gate"]) == main(["diff", "b", "b", "--gate"]) == 0
    assert "no result differs" in capsys.readouterr().out


def test_cells_of_one_run_alone_are_counted(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(runs / "c", [record("p2p.all/mpich+openmpi/1x2+1x2")])
    assert main(["diff", "a", "c", "--gate"]) == 0
    assert capsys.readouterr().out == "a -> c: 1 new, 1 gone; 100 s -> 312 s\n"


def test_a_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["before"], value["after"], value["totals"]["worse"]) == ("a", "b", 1)


def test_a_job_of_github_gets_annotations_and_a_summary(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "summary.md"))
    assert main(["report", "--github"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"::error title={RING}::fail: ")
    assert lines[1] == "report runs/b/index.html"
    assert main(["diff", "a", "--gate", "--github"]) == 1
    assert f"::error title=worse%3A {RING}::pass -> fail: " in capsys.readouterr().out
    summary = (runs / "summary.md").read_text("utf-8")
    assert summary.startswith("## ❌ 1 red of 1 cells")
    assert "### ❌ a -> b: 1 worse" in summary
