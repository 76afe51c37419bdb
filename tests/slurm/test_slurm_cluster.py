"""``impirun -slurm`` in heterogeneous jobs of a real Slurm, in containers (``make slurm``)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from slurm_lab import TASKS, Ended, SlurmLab, await_idle, opened

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
    "waits.py": """
import os, time
from mpi4py import MPI
world = MPI.COMM_WORLD
print("up", world.rank, flush=True)
while not world.bcast(os.path.exists("go"), 0):
    time.sleep(0.1)
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
    told = sorted(
        line.split() for line in ended.output.splitlines() if line.startswith("rank")
    )
    assert [words[1] for words in told] == list("012345"), ended.output
    assert {words[3] for words in told} == {"6"}
    assert {words[-1] for words in told[:3]} == {"left1", "left2"}, ended.output
    assert {words[-1] for words in told[3:]} == {"right1", "right2"}, ended.output
    assert lab.left_over() == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mpich", "openmpi"),
        ("openmpi", "pure"),
        ("pure", "mpich"),
        ("openmpi", "mpich"),
    ],
)
def test_two_libraries_on_two_partitions(
    lab: SlurmLab, first: str, second: str
) -> None:
    check_sum(lab, first, second)


def test_srun_starts_the_procs_of_a_client(lab: SlurmLab) -> None:
    ended = lab.wait(lab.submit("sum.py", TASKS))
    assert (ended.state, ended.code) == ("COMPLETED", 0), ended.output
    told = sorted(
        line.split() for line in ended.output.splitlines() if line.startswith("rank")
    )
    assert [words[1] for words in told] == list("0123"), ended.output
    assert [words[-1] for words in told] == ["left1", "left1", "left2", "left1"], (
        ended.output
    )
    assert lab.left_over() == []


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


def check_ends_soon(lab: SlurmLab, job: str, began: float) -> Ended:
    """The job has ended in time, and nothing of it is left on nodes that live."""
    # By processes: slurmctld itself may not answer for half a minute after it has lost a node.
    while lab.left_over():
        assert time.monotonic() - began < ENDS_WITHIN_S, lab.left_over()
    ended = lab.wait(job)
    assert ended.output.count("Error: ") == 1, ended.output
    return ended


def test_a_node_that_drains_keeps_its_job(lab: SlurmLab) -> None:
    job = lab.submit("waits.py : waits.py")
    lab.await_lines("up", 6)
    lab.run(
        "head",
        "scontrol",
        "update",
        "nodename=right2",
        "state=drain",
        "reason=test",
        user="root",
    )
    lab.run("left1", "touch", "go")
    try:
        assert (lab.wait(job).state, lab.left_over()) == ("COMPLETED", [])
    finally:
        lab.run(
            "head", "scontrol", "update", "nodename=right2", "state=resume", user="root"
        )


def test_a_node_that_is_set_down_ends_the_job(lab: SlurmLab) -> None:
    job = lab.submit("hang.py : hang.py")
    lab.await_lines("up", 6)
    began = time.monotonic()
    lab.run(
        "head",
        "scontrol",
        "update",
        "nodename=right2",
        "state=down",
        "reason=test",
        user="root",
    )
    ended = check_ends_soon(lab, job, began)
    assert "Node failure on right2" in ended.output
    await_idle(lab)  # slurmd has registered the node again


def test_a_node_whose_slurmd_is_killed_is_named(lab: SlurmLab) -> None:
    # The last test: slurmd is all that keeps this container, so the whole node is gone.
    job = lab.submit("hang.py : hang.py")
    lab.await_lines("up", 6)
    began = time.monotonic()
    lab.containers["right2"].kill()
    ended = check_ends_soon(lab, job, began)
    assert (
        "the starter of node right2 has not answered for 2 s, while the job was running"
        in ended.output
    )
