"""Jobs with --resilient lose procs and clients at many places, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[3] / "jobs" / "programs"
RESILIENT = ["--resilient"]
FAILED = "MPI_ERR_PROC_FAILED"
PENDING = "MPI_ERR_PROC_FAILED_PENDING"


def resilient(n: int) -> dict[int, Sequence[str]]:
    return dict.fromkeys(range(n), RESILIENT)


STEPS = [
    (["pure:1", "pure:1", "pure:1"], "1@7", [0, 2]),
    (["pure:3"], "0@0", [1, 2]),
    (["pure:2", "pure:2"], "0@3,3@3", [1, 2]),
    (["pure:1", "pure:2", "pure:1"], "0@2,1@5,3@5", [2]),
    (["mpich:1", "pure:2", "openmpi:2"], "0@5,3@9", [1, 2]),
    (["openmpi:1", "mpich:2", "pure:1"], "3@4", [0, 1, 2]),
    (["mpich:2", "openmpi:1"], "2@4", [0, 1]),
]


@pytest.mark.parametrize(
    ("clients", "plan", "left"), STEPS, ids=lambda value: str(value).replace(" ", "")
)
def test_the_others_go_on(
    run_job: Callable[..., Any], clients: list[str], plan: str, left: list[int]
) -> None:
    job = run_job(
        [str(PROGRAMS / "survive_steps.py"), plan],
        clients,
        options=resilient(len(clients)),
    )
    total = sum(rank + 1 for rank in left)
    expected = sorted(f"left {rank} {len(left)} {total}" for rank in left)
    assert (
        sorted(line for line in job.out.splitlines() if line.startswith("left "))
        == expected
    ), str(job)
    assert job.server.code == 0, str(job)
    assert "the job goes on without" in job.server.err


EXPECTED = {
    "pending": [PENDING, PENDING, "acknowledged 1", "8 octets"],
    "any_object": [FAILED, "acknowledged 1"],
    "after": [FAILED, "octets 8", FAILED],
    "waitall": ["MPI_ERR_IN_STATUS"],
}
CALLS = [
    *(
        "recv",
        "sendrecv",
        "object",
        "any",
        "any_object",
        "long_send",
        "ssend",
        "long_recv",
        "waitany",
        "waitall",
        "probe",
    ),
    *(
        "probe_any",
        "barrier",
        "bcast",
        "ibarrier",
        "dup",
        "split",
        "persistent",
        "pending",
        "after",
    ),
]
LAYOUTS = (
    ["pure:1", "pure:1"],
    ["pure:2"],
    ["pure:1", "pure:2"],
    ["mpich:2", "pure:1"],
)


@pytest.mark.parametrize(
    ("call", "clients"),
    [
        pytest.param(
            call,
            clients,
            id=f"{call}-{','.join(clients)}",
            marks=[] if i % len(LAYOUTS) == j else pytest.mark.proof,
        )
        for i, call in enumerate(CALLS)
        for j, clients in enumerate(LAYOUTS)
    ],
)
def test_calls_that_need_the_lost(
    run_job: Callable[..., Any], call: str, clients: list[str]
) -> None:
    job = run_job(
        [str(PROGRAMS / "survive_calls.py"), call],
        clients,
        options=resilient(len(clients)),
    )
    size = sum(int(client.partition(":")[2]) for client in clients)
    words = " ".join(EXPECTED.get(call) or [FAILED])
    expected = [f"rank {rank} {words}" for rank in range(size - 1)]
    assert (
        sorted(line for line in job.out.splitlines() if line.startswith("rank "))
        == expected
    ), str(job)
    assert job.server.code == 0, str(job)


def test_the_example(run_job: Callable[..., Any]) -> None:
    program = Path(__file__).parents[4] / "examples" / "survive.py"
    job = run_job(
        [str(program), "1", "4"], ["pure:1", "pure:1", "pure:1"], options=resilient(3)
    )
    assert (
        job.out
        == f"the squares of 10000 numbers add up to {sum(n * n for n in range(10000))}\n"
    ), str(job)


def test_without_the_option_a_loss_ends_the_job(run_job: Callable[..., Any]) -> None:
    job = run_job(
        [str(PROGRAMS / "survive_steps.py"), "1@7"], ["pure:1", "pure:1", "pure:1"]
    )
    assert job.codes == [137] * 4, str(job)
    assert "left" not in job.out


def test_abort_ends_a_resilient_job(run_job: Callable[..., Any]) -> None:
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD; c.Barrier(); c.rank == 1 and c.Abort(5); c.recv()"
    job = run_job(["python3", "-c", code], ["pure:1", "pure:2"], options=resilient(2))
    assert job.codes == [5, 5, 5], str(job)


@pytest.mark.parametrize(
    ("options", "server", "sentence"),
    [
        (
            {0: RESILIENT},
            [],
            "--resilient needs all clients of ours, each with --resilient",
        ),
        (
            {0: RESILIENT, 1: ["--impi-version", "0.0"]},
            [],
            "none with --impi-version 0.0",
        ),
        (
            {},
            RESILIENT,
            "the server was started with --resilient, and not all clients were",
        ),
        ({0: [*RESILIENT, "--hosts", "node"]}, [], "leave out --hosts node"),
    ],
)
def test_who_lacks_it_is_told(
    run_job: Callable[..., Any],
    options: dict[int, list[str]],
    server: list[str],
    sentence: str,
) -> None:
    code = "from mpi4py import MPI; print('began')"
    job = run_job(
        ["python3", "-c", code],
        ["pure:1", "pure:1"],
        options=options,
        server_options=server,
    )
    assert all(job.codes), str(job)
    assert sentence in job.server.err, str(job)
    assert "began" not in job.out
    assert "Traceback" not in str(job)


def test_calls_of_a_job_with_0_0(run_job: Callable[..., Any]) -> None:
    code = (
        "from mpi4py import MPI\nc = MPI.COMM_WORLD\nassert c.Get_failed().size == c.Ack_failed() == 0\n"
        "for call in (c.Revoke, c.Shrink, lambda: c.Agree(1)):\n"
        " try: call()\n"
        " except MPI.Exception as e: print(e)\n"
    )
    job = run_job(
        ["python3", "-c", code],
        ["pure:1", "pure:1"],
        options={1: ["--impi-version", "0.0"]},
    )
    assert job.codes == [0, 0, 0], str(job)
    assert (
        job.out.count(
            "needs a version of ours at all clients, and one of this job offers IMPI 0.0 only"
        )
        == 6
    )


REVOKED = """
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
if comm.rank == 0:
    comm.Recv(bytearray(1), 1)  # nobody is in a collective any more when the communicator is revoked
    comm.Revoke()
else:
    comm.Send(bytearray(1), 0)
    try:
        comm.Recv(bytearray(8), 0, 70)
    except MPI.Exception as failure:
        print("revoked", failure.Get_error_class() == MPI.ERR_REVOKED, flush=True)
"""


@pytest.mark.parametrize("client", ["pure:2", "mpich:2"])
def test_a_proc_of_the_same_client_ends_a_wait(
    run_job: Callable[..., Any], tmp_path: Path, client: str
) -> None:
    """It waits for a message of another communicator than the one by which the news come."""
    program = tmp_path / "revoked.py"
    program.write_text(REVOKED)
    job = run_job([str(program)], [client], options=resilient(1))
    assert job.out == "revoked True\n", str(job)
