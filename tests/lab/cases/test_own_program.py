"""``impilab run --program``: a user's own program as a judged cell, and files that are none."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.base.manifests import library_folder
from impi.lab.backends import choose_backend
from impi.lab.cases import Case
from impi.lab.cases.own import Conditions
from impi.lab.cases.own_program import own_case
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.matrix import cells_of_case
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

GOOD = """\
import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert sys.argv[1:] == ["-n", "a b"] and __name__ == "__main__"
halves = comm.Split(comm.rank % 2)
comm.send(comm.rank, (comm.rank + 1) % comm.size, 77)
assert comm.recv(tag=77) == (comm.rank - 1) % comm.size
sys.exit(0)
"""


IN_C = """\
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *file = fopen("sum.txt", "w");
        fprintf(file, "%d %s\\n", sum, argv[2]);
        fclose(file);
    }
    return MPI_Finalize();
}
"""


def judged(tmp_path: Path, text: str, conditions: Conditions | None = None) -> Verdict:
    program = tmp_path / "my prog.py"
    program.write_text(text)
    return judged_case(own_case(program, ["-n", "a b"], conditions), "pure", "pure")


def judged_case(case: Case, *vendors: str) -> Verdict:
    [cell] = cells_of_case(case, parties=[vendors])
    backend = choose_backend("local")
    backend.prepare(sorted(set(vendors)))
    lab = backend.open(cell.vendors, cell.topology, run="own")
    try:
        seen = run_cell(
            prepare(lab, "own"), cell, Limits(start=60, cell=60), threading.Event()
        )
    finally:
        lab.close()
    return judge_cell(cell, seen)


@pytest.mark.slow
def test_a_program_that_ends_well_passes(tmp_path: Path) -> None:
    verdict = judged(tmp_path, GOOD)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.slow
def test_a_program_that_fails_is_red_with_its_rank(tmp_path: Path) -> None:
    verdict = judged(
        tmp_path,
        "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 2: raise SystemExit(3)\n",
    )
    assert (verdict.outcome, verdict.phase) == ("fail", "finalize")
    assert "rank 2" in verdict.blame


@pytest.mark.slow
def test_the_exit_code_and_the_output_that_are_asked_for(tmp_path: Path) -> None:
    program = """
from mpi4py import MPI
total = MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)
if MPI.COMM_WORLD.rank == 3:
    open("sum.txt", "w").write(f"{total}\\n")
MPI.COMM_WORLD.Barrier()
raise SystemExit(5)
"""
    asked = Conditions(exit_code=5, output="sum.txt", limit_s=60.0)
    verdict = judged(tmp_path, program, asked)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    verdict = judged(tmp_path, "import sys; sys.exit(0)", asked)
    assert verdict.outcome == "fail"
    assert verdict.reason.startswith(
        "end.code: expected impirun of client 0 ends with 5"
    )


@pytest.mark.proof
@pytest.mark.vendor("mpich")
def test_a_compiled_program_under_two_libraries(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(IN_C)
    compiler = library_folder("mpich") / "bin/mpicc"
    subprocess.run([compiler, "-o", "a.out", "sum.c"], cwd=tmp_path, check=True)
    (tmp_path / "wanted").write_text("6 a b\n")
    case = own_case(
        tmp_path / "a.out",
        ["-n", "a b"],
        Conditions(output="sum.txt"),
        tmp_path / "wanted",
    )
    for vendors in (("pure", "mpich"), ("mpich", "pure")):
        verdict = judged_case(case, *vendors)
        assert (verdict.outcome, verdict.reason) == ("pass", "")
    (tmp_path / "wanted").write_text("7 a b\n")
    other = own_case(
        tmp_path / "a.out",
        ["-n", "a b"],
        Conditions(output="sum.txt"),
        tmp_path / "wanted",
    )
    assert judged_case(other, "pure", "mpich").reason.endswith(
        "line 1 has 6, and there it is 7"
    )


def test_the_cells_are_every_pair_of_the_default_vendors(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("")
    cells = cells_of_case(own_case(tmp_path / "p.py", []))
    assert {cell.vendors for cell in cells} >= {
        ("pure", "mpich"),
        ("mpich", "pure"),
        ("openmpi", "openmpi"),
    }
    assert {cell.options for cell in cells} == {()}
    assert {cell.case.name for cell in cells} == {"program.p"}


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "is not text"),
        (b"def", "is not Python"),
        (b"#" * (1 << 20) + b"\n", "has at most 1048576"),
    ],
)
def test_what_is_no_program_is_one_sentence(
    octets: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    if octets is not None:
        path.write_bytes(octets)
    with pytest.raises(UsageError, match=said) as caught:
        own_case(path, [])
    assert str(caught.value).startswith(f"--program {path}")
