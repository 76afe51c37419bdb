"""``impi bench`` as users call it: files, comparisons, mistakes, and a real run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.base.machine import machine
from impi.cli.bench.verb import _warn_if_busy
from impi.cli.impi import main
from impi.tools.bench.rows import Row, at_most
from impi.tools.bench.run_file import Report, save

ROOT = Path(__file__).parents[3]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which a run in this process changes."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _row(
    *values: float,
    better: str = "lower",
    references: tuple[float, ...] = (),
    measure: str = "latency",
) -> Row:
    return Row(
        measure=measure,
        vendors="pure+pure",
        unit="us",
        better=better,
        values=values,
        references=references,
        against="sockets" if references else "",
        bound=at_most(2) if references else None,
    )


def _file(folder: Path, name: str, *rows: Row) -> str:
    file = folder / name
    save(
        Report(
            rows=rows, machine=machine(), versions={"impi": "1"}, options={"runs": 9}
        ),
        file,
    )
    return str(file)


def test_compare_says_by_its_code_whether_anything_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = (
        _file(tmp_path, "good.json", _row(1, 1.1, 1.2)),
        _file(tmp_path, "bad.json", _row(2, 2.1, 2.2)),
    )
    assert main(["bench", "compare", good, bad]) == 1
    assert "worse" in capsys.readouterr().out
    assert main(["bench", "compare", bad, good]) == 0
    out, err = capsys.readouterr()
    assert "better" in out
    assert not err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nonsense"], "there is no measure 'nonsense'"),
        (["--vendors", "lamb"], "there is no vendor 'lamb'"),
        (
            ["--vendors", "lam"],
            "vendor lam has an impirun of its own: LAM/MPI speaks IMPI itself",
        ),
        (["--vendors", ","], "--vendors needs a name"),
        (["--runs", "0"], "'0' is not a number from 1"),
        (
            ["--languages", "fortran"],
            "--languages has no 'fortran'; the choices are python, c",
        ),
        (
            ["--languages", "c", "--data", "bytearray"],
            "--data bytearray is for programs in Python",
        ),
        (
            ["bandwidth", "--spin", "1"],
            "--spin and --data are for latency, rate, collectives, not for bandwidth",
        ),
        (
            ["bandwidth", "--data", "bytearray"],
            "--spin and --data are for latency, rate, collectives",
        ),
        (["--nonsense"], "unrecognized arguments"),
        (["compare"], "compare needs two files"),
        (["compare", "one", "two", "three"], "compare needs two files"),
        (["compare", "one", "two", "--plot", "x.svg"], "compare takes no --plot"),
        (["compare", "no-such-file", "other"], "no-such-file cannot be read"),
        (
            ["latency", "--json", "nowhere/run.json"],
            "nowhere/run.json cannot be written: there is no folder",
        ),
        (["latency", "--json", "/"], "/ cannot be written"),
    ],
)
def test_mistakes_are_one_sentence(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *argv]) == 4
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["IMPI_ZERO_COPY", "IMPI_SPIN"])
def test_variables_that_are_none_are_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "abc")
    assert main(["bench", "derived", "--vendors", "pure"]) == 4
    err = capsys.readouterr().err
    assert name in err
    assert "abc" in err


def test_measures_that_need_other_vendors(
    own_signals: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "local", "--vendors", "pure"]) == 4
    assert "local cannot be measured with pure alone" in capsys.readouterr().err


def test_too_few_runs_to_compare_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = (
        _file(tmp_path, "few.json", _row(1, 1.1)),
        _file(tmp_path, "many.json", _row(2, 2.1, 2.2)),
    )
    assert main(["bench", "compare", few, many]) == 0
    assert (
        "rows with fewer than 3 runs, too few to report a change: 1"
        in capsys.readouterr().err
    )


def test_a_report_that_was_cut_off_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(_file(tmp_path, "part.json", _row(1)))
    value = json.loads(file.read_text())
    del value["rows"][0]["samples"]
    file.write_text(json.dumps(value))
    assert main(["bench", "show", str(file)]) == 4
    err = capsys.readouterr().err
    assert (
        "a row is not as 'impi bench' writes it: it has no 'samples'; it was cut off or edited"
        in err
    )
    assert "KeyError" not in err


@pytest.mark.parametrize(
    "text", ["", "[]", '{"form": "other"}', '{"form": "impi-bench 1"}']
)
def test_files_of_something_else(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text(text)
    assert main(["bench", "compare", str(tmp_path / "x"), str(tmp_path / "x")]) == 4
    assert str(tmp_path / "x") in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_a_real_run(tmp_path: Path, own_signals: None) -> None:
    if not (ROOT / ".mpi" / "mpich" / "bin" / "mpiexec").exists():
        pytest.skip("mpich is not in .mpi/mpich: run ci/vendors.sh")
    file = tmp_path / "out.json"
    argv = [
        "bench",
        "rate",
        "memory",
        "--quick",
        "--runs",
        "1",
        "--vendors",
        "pure,mpich",
        "--json",
        str(file),
    ]
    code = main(argv)
    value = json.loads(file.read_text())
    rows = value["rows"]
    assert not [row["error"] for row in rows if row["error"]]
    assert code == (1 if any(row["holds"] is False for row in rows) else 0)
    assert {"machine", "versions", "rows"} <= set(value)
    assert {row["vendors"] for row in rows} == {
        "pure+pure",
        "pure+mpich",
        "mpich+mpich",
    }
    assert {row["against"] for row in rows} >= {
        "plain sockets, spinning",
        "mpich's own TCP",
    }
    assert all(row["value"] > 0 and row["runs"] == 1 for row in rows)
    assert "mpich" in value["versions"]


def test_asked_to_end_it_leaves_nothing_running() -> None:
    """``timeout`` and CI send SIGTERM; a spinning job would spoil the next measurement."""
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impi",
        "bench",
        "idle",
        "--vendors",
        "pure",
        "--runs",
        "1",
    ]
    process = subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not (started := _impiruns(process.pid)):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    finally:
        process.kill()
        process.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _impiruns(pid: int) -> list[int]:
    """The processes of jobs that a process has started, by now.

    Before its first job, bench asks git and each library for a version. Such a child ends by itself
    within milliseconds, so it is not what must not stay.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if _is_impirun(child)]


def _is_impirun(pid: str) -> bool:
    with contextlib.suppress(OSError):
        return b"impi.cli.impirun" in Path(f"/proc/{pid}/cmdline").read_bytes()

    return False


def test_a_run_is_shown_again_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
    )
    good = _row(1, 2, 3, references=(1.0, 2.0, 3.0))
    bad = _row(9, 9, 9, references=(1.0, 2.0, 3.0), measure="blocked")
    file = _file(tmp_path, "run.json", good, _row(1, 2, measure="idle"))
    plot = tmp_path / "run.svg"
    assert main(["bench", "show", file, "--plot", str(plot)]) == 0
    assert "latency" in capsys.readouterr().out
    drawn = plot.read_text()
    assert "latency (lower is better)" in drawn
    assert "idle" not in drawn  # it is held against nothing
    first = plot.read_bytes()
    assert main(["bench", "show", file, "--plot", str(plot)]) == 0
    assert plot.read_bytes() == first
    both = _file(tmp_path, "both.json", good, bad)
    assert main(["bench", "show", both, "--plot", str(tmp_path / "both.png")]) == 1
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show"], "show needs one file"),
        (["show", "a.json", "b.json"], "show needs one file"),
        (
            ["show", "run.json", "--plot", "run.gif"],
            "ends in .svg or .png, not 'run.gif'",
        ),
        (["latency", "--plot", "nowhere/run.svg"], "there is no folder"),
    ],
)
def test_mistakes_with_plots(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments]) == 4
    assert says in capsys.readouterr().err


def test_nothing_to_draw_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
    )
    file = _file(tmp_path, "run.json", _row(1, 2))
    assert main(["bench", "show", file, "--plot", str(tmp_path / "run.svg")]) == 4
    assert "no row has a reference" in capsys.readouterr().err


@pytest.mark.parametrize(("load", "warned"), [(0.1, False), (3.2, True)])
def test_a_busy_machine_is_told(
    load: float, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _warn_if_busy({"load": [load, 1.0, 1.0]})
    assert ("busy (load 3.2)" in capsys.readouterr().err) == warned
