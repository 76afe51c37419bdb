"""impilab abi: its table, its files and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from abi_prefixes import fake_prefix
from open_labs import wait_until
from page_links import Page
from rich.console import Console

from impi.cli.impilab import main
from impi.cli.lab import abi
from impi.lab.report.pages.run_pages import render
from impi.tools.abi.audit import ITEMS
from impi.tools.abi.verdicts import AbiReport, Audited, Finding, Program, Ran

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """The options of a library that has the ABI, and of one that has it not."""
    (tmp_path / "plain").mkdir()
    return [
        "--library",
        f"good={fake_prefix(tmp_path / 'good')}",
        "--library",
        f"plain={tmp_path / 'plain'}",
    ]


def test_green_and_unsupported(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["abi", "--no-run", *pair]) == 0
    printed = capsys.readouterr().out
    assert "handles      pass  -" in printed
    assert "compiled with" not in printed
    assert "9 pass, 9 unsupported" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_library_that_must_have_the_abi(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["abi", "--no-run", *pair, "--require", "good"]) == 0
    assert main(["abi", "--no-run", *pair, "--require", "plain"]) == 1
    printed = capsys.readouterr().out
    assert "fail plain: it must have the ABI (--require), and has not" in printed
    assert "plain: red; verdicts against other libraries do not count" in " ".join(
        printed.split()
    )


def test_a_defect_is_told_and_is_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = fake_prefix(tmp_path / "bad", soname="libmpi_abi.so.0")
    assert main(["abi", "--no-run", "--library", f"bad={prefix}"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "fail bad: soname: its soname is libmpi_abi.so.0, and not libmpi_abi.so.1"
        in printed
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--library", "mine"], "--library is NAME=PREFIX, not 'mine'"),
        (["--library", "mine=/nowhere"], "there is no folder /nowhere"),
        (
            ["--library", "mine=/", "--require", "other"],
            "--require other names no library of this run; they are mine",
        ),
        (
            ["--library", "mine=/", "--json", "/nowhere/abi.json"],
            "there is no folder /nowhere",
        ),
    ],
)
def test_asked_wrongly(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["abi", *words]) == 4
    assert said in capsys.readouterr().err


def test_no_library_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(abi, "discovered", lambda environ: [])
    assert main(["abi"]) == 5
    assert (
        "no MPI library was found; name one by --library NAME=PREFIX"
        in capsys.readouterr().err
    )


def _valid(file: Path) -> Any:
    value = json.loads(file.read_text())
    schema = json.loads(
        (files("impi.lab") / "report/schemas/abi.schema.json").read_text()
    )
    jsonschema.Draft202012Validator(schema).validate(value)
    return value


def test_the_files(pair: list[str], tmp_path: Path) -> None:
    value, page = tmp_path / "abi.json", tmp_path / "abi.html"
    assert main(["abi", *pair, "--json", str(value), "--html", str(page)]) == 1
    found = _valid(value)
    assert found["failed"]
    assert [cell["under"] for cell in found["cells"][:3]] == ["good", "plain", "mixed"]
    shown = Page(page)
    assert {"table", "style"} <= set(shown.tags)
    # Nothing beside it is needed.
    assert set(shown.links) <= {"data:,", "#main"}


def _report() -> AbiReport:
    text = "<b>'&\" " + "long " * 60
    found = tuple(
        Finding(item=item, verdict="fail" if item == "links" else "pass", detail=text)
        for item in ITEMS
    )
    names = [f"a-library-with-a-long-name-{number}" for number in range(6)]
    libraries = tuple(
        Audited(
            name=name,
            prefix="/opt",
            vendor="",
            file="/opt/lib",
            soname="s",
            compiler="c",
            audit=found,
        )
        for name in names
    )
    programs = tuple(Program(name=name, compiler="c", verdict="pass") for name in names)
    cells = tuple(
        Ran(program=a, under=b, verdict="fail", detail=text)
        for a in names
        for b in (*names, "mixed")
    )
    return AbiReport(libraries=libraries, programs=programs, cells=cells)


def test_many_libraries_fit_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    abi._show(Console(width=80, highlight=False), _report())
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    # One reason of six programs is told once.
    assert " ".join(printed.split()).count("in a mixed job (compiled with") == 1


def test_words_of_others_do_not_reach_the_terminal_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = (
        Ran(program="a", under="b", verdict="fail", detail="\x1b[2Jgone\x07\u202e"),
    )
    report = AbiReport(
        libraries=(),
        programs=(Program(name="a", compiler="c", verdict="pass"),),
        cells=cells,
    )
    abi._show(Console(width=80, highlight=False), report)
    assert "under b (compiled with a):  [2Jgone" in capsys.readouterr().out


def test_sigterm_ends_the_jobs_and_removes_the_folder(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "slow")
    (prefix / "bin" / "mpiexec").write_text(
        f"#!/bin/sh\ntest $1 = --version && exit\ntouch {tmp_path}/began\nexec sleep 60\n"
    )
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impilab",
        "abi",
        "--library",
        f"slow={prefix}",
    ]
    with subprocess.Popen(
        argv, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL
    ) as process:
        assert wait_until((tmp_path / "began").exists)
        process.terminate()
        assert process.wait(30) == 143
    assert not list(tmp_path.glob("impilab-abi-*"))


def test_text_stays_text_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "abi.html"
    page.write_text(render("abi.html", **abi._page(_report())))
    assert Page(page).tags.count("b") == 0
    assert "&lt;b&gt;" in page.read_text()


@pytest.mark.proof
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_the_real_libraries(tmp_path: Path) -> None:
    libraries = [
        f"--library={name}={ROOT / '.mpi' / name}" for name in ("mpich", "openmpi")
    ]
    main(["abi", *libraries, "--json", str(tmp_path / "abi.json")])
    found = _valid(tmp_path / "abi.json")
    mpich, openmpi = (
        {each["verdict"] for each in library["audit"]} for library in found["libraries"]
    )
    assert (mpich, openmpi) == ({"pass"}, {"unsupported"})
    cells = {(cell["program"], cell["under"]): cell for cell in found["cells"]}
    assert {cells[program, "mixed"]["verdict"] for program in ("mpich", "MPI 5.0")} == {
        "pass"
    }
    assert {
        cells[program, "openmpi"]["verdict"] for program in ("mpich", "MPI 5.0")
    } == {"unsupported"}
    # MPICH 5.0.2 has the texts of its own numbers: pmodels/mpich#7835.
    assert (
        "MPI_Error_string of MPI_ERR_FILE_EXISTS" in cells["MPI 5.0", "mpich"]["detail"]
    )
    assert found["seconds"] < 180
