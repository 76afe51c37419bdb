"""``impirun -slurm`` in heterogeneous jobs of a real Slurm, in containers (``make slurm``)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from slurm_lab import SlurmLab, opened

pytestmark = pytest.mark.docker

PROGRAMS = {
    "sum.py": """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
assert world.allreduce(world.rank) == sum(range(world.size))
print("rank", world.rank, "of", world.size, "on", MPI.Get_processor_name(), flush=True)
world.Barrier()
""",
    "seven.py": """
import sys
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
sys.exit(7 if MPI.COMM_WORLD.rank == 4 else 0)
""",
    "hang.py": """
from mpi4py import MPI
print("up", MPI.COMM_WORLD.rank, flush=True)
MPI.COMM_WORLD.recv(source=MPI.COMM_WORLD.rank)
""",
}
ENDS_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with opened() as cluster:
        cluster.put(PROGRAMS)
        yield cluster


def check_sum(lab: SlurmLab, first: str, second: str) -> None:
    ended = lab.wait(lab.submit(f"--vendor {first} sum.py : --vendor {second} sum.py"))
    assert (ended.state, ended.code) == ("COMPLETED", 0), ended.output
    told = sorted(line.split() for line in ended.output.splitlines() if line.startswith("rank"))
    assert [words[1] for words in told] == list("012345"), ended.output
    assert {words[3] for words in told} == {"6"}
    assert {words[-1] for words in told[:3]} == {"left1", "left2"}, ended.output
    assert {words[-1] for words in told[3:]} == {"right1", "right2"}, ended.output
    assert lab.left_over() == []


@pytest.mark.parametrize(
    ("first", "second"), [("mpich", "openmpi"), ("openmpi", "pure"), ("pure", "mpich"), ("openmpi", "mpich")]
)
def test_two_libraries_on_two_partitions(lab: SlurmLab, first: str, second: str) -> None:
    check_sum(lab, first, second)


def test_the_exit_code_of_the_job_is_the_programs(lab: SlurmLab) -> None:
    ended = lab.wait(lab.submit("--vendor mpich seven.py : seven.py"))
    assert (ended.state, ended.code) == ("FAILED", 7), ended.output
    assert "rank 1 of this client ended with exit code 7" in ended.output
    assert lab.left_over() == []


def test_scancel_ends_all_with_one_sentence(lab: SlurmLab) -> None:
    job = lab.submit("hang.py : --vendor mpich hang.py")
    lab.await_lines("up", 6)
    began = time.monotonic()
    lab.run("left1", "scancel", job)
    ended = lab.wait(job)
    while lab.left_over():
        assert time.monotonic() - began < ENDS_WITHIN_S, lab.left_over()
    assert ended.state == "CANCELLED"
    assert ended.output.count("Error: ") == 1, ended.output
    assert time.monotonic() - began < ENDS_WITHIN_S
