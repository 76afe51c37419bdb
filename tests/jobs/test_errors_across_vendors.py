"""Wrong use across vendors: error class, handler, notices, and the job's end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
WRONG_USE = str(PROGRAMS / "wrong_use.py")
Results = dict[str, list[Any]]

HYDRA_COMMENTS = re.compile(
    r"\n=+\n=   BAD TERMINATION [^\0]*?\n=+\nYOUR APPLICATION TERMINATED [^\0]*? suggestions\n"
)
CRASHES = {
    "mpich": (),
    # Open MPI aborts on a matched probe on COMM_NULL, and hangs after truncation.
    "openmpi": (
        "freed comm recv",
        "truncate Bcast",
        "truncate Gather",
        "truncate Scatter",
    ),
}
"""Cases that a vendor's own job does not survive."""

DIFFERS = {
    "mpich": {
        # Its root does not copy its own block; ours has too small a buffer like all.
        "truncate Scatter": "its root succeeds",
    },
    "openmpi": {
        "rank Create_intercomm": "ERR_ARG",
        "tag Send high": "OverflowError: its TAG_UB is the largest int",
        "key Set_attr": "ERR_OTHER",
        "handler Set_errhandler": "ERR_ARG",
    },
}
"""Cases in which the two vendors differ, so that we cannot be like both."""


_made: dict[tuple[str, ...], Results] = {}


def of_job(run_job: Callable[..., Any], *words: str) -> Results:
    """Return what the program prints in a job, which each worker starts once for the same words."""
    if words not in _made:
        _made[words] = _of_job(run_job, *words)
    return _made[words]


def _of_job(run_job: Callable[..., Any], *words: str) -> Results:
    result = run_job([WRONG_USE, *words], ["mpich:1", "openmpi:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    found: Results = json.loads(result.out)
    return found


def of_vendor(run_alone: Callable[..., Any], vendor: str, *words: str) -> Results:
    """Return what the program prints in the vendor's own job, with nothing of ours."""
    result = run_alone([WRONG_USE, *words, *CRASHES[vendor]], vendor, 3)
    assert result.code == 0, result.err
    found: Results = json.loads(result.out)
    return found


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_every_wrong_use_is_what_mpi4py_makes_of_it(
    vendor: str, run_job: Callable[..., Any], run_alone: Callable[..., Any]
) -> None:
    ours, theirs = of_job(run_job), of_vendor(run_alone, vendor)
    assert set(ours) - set(theirs) == set(CRASHES[vendor]) and len(theirs) > 80
    differ = {
        case: (ours[case], theirs[case])
        for case in theirs
        if ours[case] != theirs[case]
    }
    assert set(differ) == set(DIFFERS[vendor]), differ
    assert not [case for case, outcomes in ours.items() if set(outcomes) == {"ok"}]


def test_the_handler_of_the_communicator_is_called_once(
    run_job: Callable[..., Any], run_alone: Callable[..., Any]
) -> None:
    """The call's own handler, or COMM_SELF's without one; Open MPI has COMM_WORLD's there."""
    ours, theirs = (
        of_job(run_job, "handler"),
        of_vendor(run_alone, "openmpi", "handler"),
    )
    for case, outcomes in ours.items():
        for outcome, calls in outcomes:
            assert len(calls) == outcome.startswith("ERR_"), (case, outcomes)
            assert not calls or calls[0][1] == outcome or outcome == "ERR_IN_STATUS", (
                case,
                outcomes,
            )
            assert not calls or calls[0][0] in (
                ["world"] if case == "predefined comm Free" else ["comm", "self"]
            )
    differ = {
        case: (ours[case], theirs[case])
        for case in theirs
        if case not in DIFFERS["openmpi"]
        and ours[case] != json.loads(json.dumps(theirs[case]).replace("world", "self"))
    }
    # A request is not of its communicator for Open MPI.
    assert set(differ) == {"active request Start", "predefined comm Free"}, differ


def test_counts_that_the_buffer_does_not_hold(run_job: Callable[..., Any]) -> None:
    """Undefined in MPI, so that there is nothing to compare with."""
    ours = of_job(run_job, "overrun")
    for case in ours:
        if case.startswith("count large"):
            assert ours[case] == ["ERR_BUFFER"] * 3, case


@pytest.mark.parametrize(
    "clients", [["pure:1", "pure:1"], ["mpich:1", "openmpi:1", "pure:1"]]
)
def test_unequal_counts_of_a_reduction_are_a_truncation(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([str(PROGRAMS / "unequal_counts.py")], clients)
    assert set(result.codes) == {0}, str(result)
    # Who meets them says which they are. Others are told who that was, and in which call.
    for case, outcomes in json.loads(result.out).items():
        assert {each.partition(":")[0] for each in outcomes} <= {"truncate", "ok"}, (
            case,
            outcomes,
        )
        assert any("elements to a reduction, another one" in each for each in outcomes)
        call = case.partition(" ")[0].lstrip("I").capitalize()
        for each in outcomes:
            found = re.search("failed in ([A-Z][a-z_]*):", each)
            assert found is None or call.startswith(found[1]), (case, outcomes)


@pytest.mark.parametrize(
    ("clients", "options"),
    [
        pytest.param(["mpich:1", "openmpi:1", "pure:1"], {}, id="one proc each"),
        pytest.param(["openmpi:2", "mpich:2", "pure:1"], {}, id="several procs"),
        pytest.param(
            ["pure:2", "mpich:2"],
            {0: ["--hosts", "client"], 1: ["--hosts", "node"]},
            id="host agents",
        ),
    ],
)
def test_the_others_are_told_of_a_mistake_in_a_collective(
    clients: list[str], options: dict[int, list[str]], run_job: Callable[..., Any]
) -> None:
    result = run_job([str(PROGRAMS / "told.py")], clients, options=options)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


HEAD = """
import sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
one = np.zeros(1, "i")
"""
ENDS = {
    # A program that ends by rank 1, and what is said of it.
    "uncaught in a collective": (
        "comm.Bcast(one, 99 if comm.rank == 1 else 0)\ncomm.Barrier()",
        "rank 1 ends the job: Bcast failed: MPI_ERR_ROOT: invalid root: root 99 is not in 0..2",
    ),
    "uncaught in a message": (
        "comm.Send(one, 99) if comm.rank == 1 else comm.Recv(one, 1)",
        "rank 1 ends the job: Send failed: MPI_ERR_RANK: invalid rank: destination rank 99 is not in 0..2",
    ),
    "truncated": (
        "comm.Send(np.zeros(2, 'i'), 1) if comm.rank == 0 else comm.Recv(one, 0) if comm.rank == 1 else None\n"
        "comm.Barrier()",
        "rank 1 ends the job: Recv failed: MPI_ERR_TRUNCATE: message truncated",
    ),
    "another exception": (
        "comm.Barrier()\n1 / (comm.rank - 1)\ncomm.Barrier()",
        "rank 1 ends the job: uncaught ZeroDivisionError",
    ),
    "fatal in a collective": (
        "comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)\ntry:\n    comm.Bcast(one, 99 if comm.rank == 1 else 0)\n"
        "    comm.Barrier()\nexcept BaseException:\n    print('still alive')\nfinally:\n    print('still alive')",
        "rank 1 ends the job: Bcast failed: MPI_ERR_ROOT",
    ),
    "abort in a message": (
        "comm.Set_errhandler(MPI.ERRORS_ABORT)\ntry:\n"
        "    comm.Send(one, 99) if comm.rank == 1 else comm.Recv(one, 1)\n"
        "except BaseException:\n    print('still alive')\nfinally:\n    print('still alive')",
        "rank 1 ends the job: Send failed: MPI_ERR_RANK",
    ),
    "a handler that fails": (
        "def handler(where, code):\n    raise ArithmeticError\n"
        "comm.Set_errhandler(MPI.Comm.Create_errhandler(handler))\n"
        "comm.Send(one, 99) if comm.rank == 1 else comm.Recv(one, 1)",
        "rank 1 ends the job: Send failed: MPI_ERR_RANK: invalid rank: destination rank 99 is not in 0..2; "
        "its error handler failed, too",
    ),
    "told": (
        # Rank 1 goes on, and ends well: the others, who are told, do not.
        "try:\n    comm.Bcast(one, 99 if comm.rank == 1 else 0)\n    comm.Barrier()\n"
        "except MPI.Exception:\n    if comm.rank != 1:\n        raise",
        "rank 1 failed in Bcast: MPI_ERR_ROOT: invalid root: root 99 is not in 0..2",
    ),
    "what impi lacks": (
        "MPI.Create_local().Idup() if comm.rank == 1 else comm.Barrier()",
        "rank 1 ends the job: MPI_Comm_idup of an LCO is not supported: an LCO has no group that others know",
    ),
    "what impi lacks, in a thread": (
        "import threading\nif comm.rank == 1:\n"
        "    threading.Thread(target=MPI.Create_local().Idup).start()\n"
        "    threading.Event().wait()\ncomm.Barrier()",
        "rank 1 ends the job: MPI_Comm_idup of an LCO is not supported: an LCO has no group that others know",
    ),
    "an exit code": ("sys.exit(4) if comm.rank == 1 else comm.Barrier()", "client 1"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_job_ends_as_a_whole(
    name: str, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program, sentence = ENDS[name]
    file = tmp_path / "program.py"
    file.write_text(HEAD + program)
    result = run_job([str(file)], ["mpich:1", "openmpi:1", "pure:1"])
    assert 0 not in result.codes and "ended by the test" not in str(result), str(result)
    assert (
        any(sentence in client.err for client in result.clients)
        or sentence in result.server.err
    ), str(result)
    assert "still alive" not in result.out, str(result)


def test_who_catches_what_it_is_told_goes_on(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    """Also to the end: Finalize does not wait in a communicator that is broken."""
    file = tmp_path / "program.py"
    file.write_text(
        HEAD
        + "try:\n    comm.Bcast(one, 99 if comm.rank == 1 else 0)\n    comm.Barrier()\n"
        "except MPI.Exception as failure:\n    print(failure.Get_error_class() == MPI.ERR_ROOT)\n"
    )
    result = run_job([str(file)], ["mpich:1", "openmpi:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "True\n" * 3


@pytest.mark.parametrize(
    ("choice", "clean"),
    [("exception", True), ("default", False), ("abort", False), ("fatal", False)],
)
def test_the_programs_choice_of_errors(
    choice: str, clean: bool, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        f"import mpi4py\nmpi4py.rc.errors = {choice!r}\n" + HEAD + "comm = comm.Dup()\n"
        "try:\n    comm.Send(one, 99)\nexcept MPI.Exception:\n    print('raised')\n"
    )
    result = run_job([str(file)], ["mpich:1", "pure:1"])
    assert (set(result.codes) == {0}) is clean and (0 in result.codes) is clean, str(
        result
    )
    # If both ranks end the job at once, Hydra may comment; nothing else may appear.
    said = HYDRA_COMMENTS.sub("", result.out)
    assert said == ("raised\n" * 2 if clean else ""), str(result)


@pytest.mark.parametrize(
    "clients", [["mpich:3"], ["openmpi:2", "mpich:2"]], ids="+".join
)
def test_what_the_library_finds_in_its_part_of_a_collective(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    """Inside a client the library moves the data: its errors are ours, and no rank waits."""
    result = run_job([WRONG_USE], clients)
    assert set(result.codes) == {0}, str(result)
    found: Results = json.loads(result.out)
    assert found["truncate Bcast"][1] == "ERR_TRUNCATE"
    names = {name for outcomes in found.values() for name in outcomes}
    assert all(
        name == "ok" or name.endswith("Error") or name.startswith("ERR_")
        for name in names
    ), names
