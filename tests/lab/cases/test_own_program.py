"""``impilab run --program``: a user's own program as a judged cell, and files that are none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.backends import choose_backend
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


def judged(tmp_path: Path, text: str) -> Verdict:
    program = tmp_path / "my prog.py"
    program.write_text(text)
    [cell] = cells_of_case(own_case(program, ["-n", "a b"]), parties=[("pure", "pure")])
    backend = choose_backend("local")
    backend.prepare(["pure"])
    lab = backend.open(cell.vendors, cell.topology, run="own")
    try:
        seen = run_cell(prepare(lab, "own"), cell, Limits(start=60, cell=60), threading.Event())
    finally:
        lab.close()
    return judge_cell(cell, seen)


@pytest.mark.slow
def test_a_program_that_ends_well_passes(tmp_path: Path) -> None:
    verdict = judged(tmp_path, GOOD)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.slow
def test_a_program_that_fails_is_red_with_its_rank(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 2: raise SystemExit(3)\n")
    assert (verdict.outcome, verdict.phase) == ("fail", "finalize")
    assert "rank 2" in verdict.blame


def test_the_cells_are_every_pair_of_the_default_vendors(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("")
    cells = cells_of_case(own_case(tmp_path / "p.py", []))
    assert {cell.vendors for cell in cells} >= {("pure", "mpich"), ("mpich", "pure"), ("openmpi", "openmpi")}
    assert {cell.options for cell in cells} == {()}
    assert {cell.case.name for cell in cells} == {"program.p"}


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "is no text"),
        (b"def", "is no Python"),
        (b"#" * (1 << 20) + b"\n", "has at most 1048576"),
    ],
)
def test_what_is_no_program_is_one_sentence(octets: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    if octets is not None:
        path.write_bytes(octets)
    with pytest.raises(UsageError, match=said) as caught:
        own_case(path, [])
    assert str(caught.value).startswith(f"--program {path}")
