"""What the corpora make of outputs: a job of one client alone must be wrong."""

from __future__ import annotations

from pathlib import Path

import corpus_fortran
import corpus_hpcc
import corpus_imb
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
        (corpus_hpcc.judge, "1 PASSED\nCommWorldProcs=4\nSuccess=1\n", "1 FAILED\nCommWorldProcs=4\nSuccess=1\n"),
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
            _SOLVED.replace("mumps right", "mumps inf") + "".join(f"rank {rank} of 4: 4 impi\n" for rank in range(4)),
        ),
        (
            corpus_petsc.judge_files,
            "".join(f"rank {rank} of 4: 4 impi right\n" for rank in range(4)),
            "".join(f"rank {rank} of 4: 4 impi {'wrong' if rank else 'right'}\n" for rank in range(4)),
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
    ],
)
def test_judges(judge, good, bad):
    assert judge(good, 4) == ""
    assert judge(bad, 4)
    assert judge("", 4)


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
    assert "exit code 1: impirun: client 2: rank 1" in verdict(binary, Ran("", lost, 1), "", 4)
    assert "exit code 1: impirun" in verdict(binary, Ran("", "noise\nimpirun: lost\n", 1), "", 4)
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
