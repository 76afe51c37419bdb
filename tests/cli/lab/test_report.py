"""What a user types to see a run again, to hold two against each other, and to publish one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forge import FakeBackend
from made_up_run import record, written

from impi.cli.impilab import main
from impi.cli.lab.report import add_report

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
    assert add_report.__module__ == "impi.cli.lab.report"
    for verb in ("report", "diff", "publish"):
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
def test_a_report_of_a_run_by_name_or_folder(named: list[str], runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if named == ["../other/b"]:
        written(runs.parent.parent / "other/b", [record(RING)])
    assert main(["report", *named]) == 0
    assert Path(capsys.readouterr().out.split()[1]).is_file()


def test_a_copy_and_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a", "--to", "copy"]) == 0
    assert main(["publish", "site", "a"]) == main(["publish", "site"]) == 0
    assert capsys.readouterr().out == "report copy/index.html\nsite site/index.html\nsite site/index.html\n"


@pytest.mark.parametrize("more", [["none"], ["./none"]])
def test_a_run_that_there_is_not_is_one_sentence(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *more]) == 4
    assert "none; 'impilab ls runs' shows them" in capsys.readouterr().err


def test_a_gate_is_shut_by_what_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["worse", "pass", "->", "fail", RING]
    assert lines[1] == "the backends differ, docker and local: what is seen of a cell differs, too"
    assert lines[2] == "a -> b: 1 worse; 100 s -> 90 s"
    assert main(["diff", "a", "b", "--gate"]) == 1
    assert main(["diff", "b", "a", "--gate"]) == main(["diff", "b", "b", "--gate"]) == 0
    assert "no cell ended otherwise" in capsys.readouterr().out


def test_cells_of_one_run_alone_are_counted(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(runs / "c", [record("p2p.all/mpich+openmpi/1x2+1x2")])
    assert main(["diff", "a", "c", "--gate"]) == 0
    assert capsys.readouterr().out == "a -> c: 1 new, 1 gone; 100 s -> 312 s\n"


def test_a_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["before"], value["after"], value["totals"]["worse"]) == ("a", "b", 1)
