"""How programs in C begin and end: by MPI_Init and MPI_Finalize, MPI_Abort, sessions, or none."""

from __future__ import annotations

import pytest

VENDORS = (
    ("pure", "pure"),
    ("mpich", "openmpi"),
    ("pure", "mpich"),
    ("openmpi", "pure"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("abort", 7, "MPI_Abort of rank 0"),
        ("exit", 3, "rank 0 ended with 3 without MPI_Finalize"),
        ("return", 1, "rank 0 ended with 0 without MPI_Finalize"),
        ("fatal", None, "rank 0 ends the job: Send failed: MPI_ERR_"),
        ("interrupt", 130, "SIGINT"),
        ("lacking", None, "impi has no MPI_Abi_set_fortran_info yet"),
        ("after", 4, ""),
        # As if a peer had closed: OpenSSL writes without a flag against the signal
        ("pipe", 0, ""),
        ("well", 0, ""),
    ],
)
def test_ends(compiled, run_job, how, code, told):
    program = compiled("ends", "impicc")
    done = run_job([program], ["pure:1", "pure:1"], argv_of={0: [program, how]})
    failing = done.clients[0]
    assert (failing.code == code) if code is not None else failing.code, done
    assert told in failing.err
    assert "Traceback" not in failing.err
    assert "printed by rank 0" in failing.out


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("vendors", VENDORS[:2], ids="+".join)
def test_sessions_without_init(compiled, run_job, vendors):
    program = compiled("sessions", "standard")
    done = run_job([program], [f"{vendors[0]}:2", f"{vendors[1]}:1"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of 3: sum 6" for rank in range(3)
    ]
    failing = run_job([program, "open"], ["pure:1"]).clients[0]
    assert failing.code == 1
    assert "rank 0 ended with 0 without MPI_Finalize" in failing.err


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize(
    "when",
    [("-DIN_CONSTRUCTOR",), ("-DAT_EXIT",), ("-DAT_EXIT", "-DEARLY")],
    ids=" ".join,
)
@pytest.mark.parametrize("mode", ["", "--stand-in"])
def test_mpi_before_and_after_main(compiled, run_job, when, mode):
    program = compiled("times", "mpich", *when)
    done = run_job([program], ["mpich:1", "pure:1"], options={0: mode.split()})
    assert done.codes == [0, 0, 0], done
    told = [
        f"rank {rank}: {word}, sum 1" for rank in range(2) for word in ("last", "main")
    ]
    assert sorted(done.out.splitlines()) == told
