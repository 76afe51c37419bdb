"""The corpora's reading of outputs: a job of one client alone must be wrong."""

from __future__ import annotations

import subprocess
import tomllib
from functools import partial
from pathlib import Path

import corpus_debian
import corpus_fortran
import corpus_hpcc
import corpus_imb
import corpus_libraries
import corpus_netpipe
import corpus_petsc
import corpus_scalapack
import pytest
from corpus_binaries import Binary, chosen_layouts, faults, verdict
from programs_run import Ran

_IMB = "# Benchmarking PingPong \n# #processes = 2 \n{waiting}\n# All processes entering MPI_Finalize\n"
_LU = "TIME     M     N  NB    P    Q  LU Time  CHECK\nWALL     4     4   2    {grid}     0.00 PASSED\n"
_LU += "Finished 1 tests\n"
_LU += "    1 tests completed and passed residual checks.\n    0 tests skipped because of illegal input values.\n"

_SOLVED = "cg jacobi petsc right\ngmres bjacobi petsc right\npreonly lu mumps right\ncg hypre petsc right\n"


@pytest.mark.parametrize(
    ("judge", "good", "bad"),
    [
        (
            lambda text, procs: corpus_imb.judge(1, text, procs),
            _IMB.format(waiting="# ( 2 additional processes waiting in MPI_Barrier)"),
            _IMB.format(waiting=""),
        ),
        (
            corpus_hpcc.judge,
            "WALL 30 PASSED\nCommWorldProcs=4\nSuccess=1\n",
            "WALL 30 PASSED\nCommWorldProcs=2\nSuccess=1\n",
        ),
        (
            corpus_hpcc.judge,
            "1 PASSED\nCommWorldProcs=4\nSuccess=1\n",
            "1 FAILED\nCommWorldProcs=4\nSuccess=1\n",
        ),
        (corpus_scalapack.judge, _LU.format(grid="2    2"), _LU.format(grid="1    2")),
        (
            corpus_scalapack.judge,
            _LU.format(grid="2    2").replace("TIME", "Time"),
            _LU.format(grid="1    2").replace("TIME", "Time"),
        ),
        (
            corpus_fortran.judge,
            "".join(f"rank {rank} of 4: right\n" for rank in range(4)),
            "".join(f"rank {rank} of 2: right\n" for rank in range(2)),
        ),
        (
            corpus_petsc.judge,
            _SOLVED + "".join(f"rank {rank} of 4: 4 impi\n" for rank in range(4)),
            _SOLVED + "".join(f"rank {rank} of 2: 2 impi\n" for rank in range(2)),
        ),
        (
            corpus_petsc.judge,
            _SOLVED + "".join(f"rank {rank} of 4: 4 impi\n" for rank in range(4)),
            _SOLVED.replace("mumps right", "mumps inf")
            + "".join(f"rank {rank} of 4: 4 impi\n" for rank in range(4)),
        ),
        (
            corpus_petsc.judge_files,
            "".join(f"rank {rank} of 4: 4 impi right\n" for rank in range(4)),
            "".join(
                f"rank {rank} of 4: 4 impi {'wrong' if rank else 'right'}\n"
                for rank in range(4)
            ),
        ),
        (
            corpus_netpipe.judge_times,
            " 45:    4099 bytes   2735 times -->    385.81 Mbps in      20.31 usec\n",
            " 45:    1027 bytes   2735 times -->    385.81 Mbps in      20.31 usec\n",
        ),
        (
            corpus_netpipe.judge_integrity,
            " 19:    3073 bytes     72 times -->  Integrity check passed\n",
            " 19:    3073 bytes     72 times -->  Integrity check failed\n",
        ),
        (
            partial(corpus_debian.judge, {"says": ["rank {rank} of {procs}: right"]}),
            "".join(f"rank {rank} of 4: right\n" for rank in range(4)),
            "".join(f"rank {rank % 2} of 2: right\n" for rank in range(4)),
        ),
        (
            partial(corpus_debian.judge, {"once": "^band"}),
            "band 1\n",
            "band 1\nband 1\n",
        ),
        (
            partial(corpus_debian.judge, {"numbers": {r"^E = (\S+)": -2.5}}),
            "E = -1\nE = -2.50001\n",
            "E = -2.5\nE = -2.501\n",
        ),
    ],
)
def test_judges(judge, good, bad):
    assert judge(good, 4) == ""
    assert judge(bad, 4)
    assert judge("", 4)


def test_the_catalogue_of_debian_has_its_inputs():
    rows = tomllib.loads(corpus_debian.CATALOGUE.read_text(encoding="utf-8"))
    assert len(rows) > 10
    known = {"packages", "program", "compile", "argv", "inputs", "says", "once"}
    known |= {
        "numbers",
        "out",
        "prepare",
        "fixed",
        "handles",
        "abi",
        "modules",
        "environ",
        "fortran",
        "ways",
    }
    words = " ".join(
        word
        for row in rows.values()
        for word in (
            *row.get("compile", ()),
            *row.get("prepare", ()),
            *row.get("inputs", ()),
        )
    )
    for name, row in rows.items():
        assert row.keys() <= known, name
        # Without a witness a job of each client alone would be right.
        assert row.get("once") or any("{procs}" in said for said in row["says"]), name
        assert ("program" in row) != ("compile" in row), name
    for file in corpus_debian.INPUTS.iterdir():
        assert file.name in words.split(), file


def test_each_way_starts_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_debian, "MADE", tmp_path)
    monkeypatch.setattr(corpus_debian, "_tool", lambda abi: tmp_path / f"{abi}.so")
    echo = Binary(
        name="echo",
        path=Path("/bin/echo"),
        argv=("two  words", "$HOME"),
        judge=lambda text, procs: "",
    )
    for way, starts in corpus_debian.WAYS.items():
        if way == "gdb" and not Path("/usr/bin/gdb").exists():
            continue
        binary = starts(echo)
        done = subprocess.run(
            [binary.path, *binary.argv], capture_output=True, text=True, check=True
        )
        assert "two  words $HOME\n" in done.stdout, way
        assert bool(binary.judge("", 2)) == (way == "preloaded tool")


def test_what_apt_lacks_is_said():
    with pytest.raises(LookupError, match="apt-get says: Unable to locate package no-"):
        corpus_libraries.needed_packages(["no-such-package"])


def test_reduced_input_has_fewer_values():
    text = "4\t\t\tnumber of problems sizes\n4 10 17 13\t\tvalues of M\n3  Number of NBRHS's\n100  number of rows\n"
    lines = corpus_scalapack.reduced(text).splitlines()
    assert [line.split()[0] for line in lines] == ["2", "4", "1", "100"]
    asked = "T\t\t\t(T or F) Test Cond. Est. and Iter. Ref. Routines\n"
    assert corpus_scalapack.reduced(asked) == asked
    assert corpus_scalapack.reduced(asked, refined=False) == f"F{asked[1:]}"


def test_exit_codes_are_wrong_before_outputs():
    binary = Binary(name="b", path=Path("b"), judge=lambda text, procs: "")
    assert verdict(binary, Ran("", "", None), "", 4) == "did not end in time"
    lost = "impirun: client 0: host 3 was lost\nimpirun: client 2: rank 1 ended by signal 11\n"
    assert "exit code 1: impirun: client 2: rank 1" in verdict(
        binary, Ran("", lost, 1), "", 4
    )
    assert "exit code 1: impirun" in verdict(
        binary, Ran("", "noise\nimpirun: lost\n", 1), "", 4
    )
    assert verdict(binary, Ran("", "", 0), "", 4) == ""


def test_the_default_is_one_layout_of_all_vendors():
    four = Binary(name="b", path=Path("b"), judge=lambda text, procs: "")
    assert chosen_layouts(four, whole=False) == ("mpich:1,openmpi:1,pure:2",)
    assert chosen_layouts(four, whole=True) == four.layouts


def test_listed_binaries_must_be_wrong():
    expected = {"c": [{"binary": "listed", "reason": "because"}]}
    rows = [("l", "listed", "why"), ("l", "other", "why"), ("l", "well", "")]
    assert list(faults("c", rows, expected)) == ["l  other: why"]
    assert list(faults("c", [("l", "listed", "")], expected)) == [
        "l  listed: is right, and the list says that it is not: because"
    ]
