"""Signs and names on terminals of all encodings."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impi.cli.any_terminal import take_any_text

TOP = Path(__file__).parents[2]
FAILS = 'from mpi4py import MPI\nassert MPI.COMM_WORLD.rank != 1, "grösser ✗"\n'


@pytest.mark.parametrize(
    ("encoding", "text", "octets"),
    [
        ("ascii", "✓ ✗ ⧖ · ≈ é", b"+ F T . % \\xe9"),
        ("iso8859-1", "✓ é", b"+ \xe9"),
        ("utf-8", "✓ é", "✓ é".encode()),
        ("utf-8", "a\udce9b", b"a\xe9b"),
    ],
)
def test_a_stream_takes_what_its_encoding_lacks(
    encoding: str, text: str, octets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    take_any_text()
    print(text, end="", flush=True)
    assert stream.buffer.getvalue() == octets


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_the_null_device(
    closed: str, tmp_path: Path
) -> None:
    """A table on a closed output was a traceback; a file could get the number of a stream."""
    program = (
        "import os, sys; from impi.cli.guard import guarded\n"
        "def work():\n"
        "    print('out', flush=True); print('err', file=sys.stderr); sys.stdin.read()\n"
        "    os.system('echo child >&1')\n"
        "    return 0 if os.open('file', os.O_RDWR | os.O_CREAT) > 2 else 1\n"
        "sys.exit(guarded('impilab', work))"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    out = "" if " >&-" in f" {closed}" else "out\nchild\n"
    err = "" if "2>&-" in closed else "err\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        pytest.param({"PYTHONIOENCODING": "iso8859-1"}, marks=pytest.mark.proof),
    ],
    ids=["C", "Latin-1"],
)
def test_a_red_cell_in_each_locale_is_a_red_cell(
    locale: dict[str, str], tmp_path: Path
) -> None:
    """It had been a traceback with the exit code of a red cell, and its result was lost."""
    (tmp_path / "fail.py").write_text(FAILS, "utf-8")
    argv = [
        "run",
        "--program",
        "fail.py",
        "--parties",
        "pure+pure",
        "--topology",
        "1x1+1x1",
        "--backend",
        "local",
    ]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG", "PYTHON"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "impi.cli.impilab", *argv],
        env=environ | locale | {"PYTHONPATH": str(TOP)},
        cwd=tmp_path,
        capture_output=True,
        timeout=100,
        check=False,
    )
    said = done.stdout.decode("latin-1") + done.stderr.decode("latin-1")
    assert done.returncode == 1, said
    assert "Traceback" not in done.stderr.decode("latin-1")
    assert " F program.fail/pure+pure/1x1+1x1" in said
    [evidence] = (tmp_path / "runs/latest/cells").glob("*/client1.stderr")
    assert "grösser ✗" in evidence.read_text("utf-8")
