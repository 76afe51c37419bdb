"""Variables of the environment for a program, and for the Pythons that it starts itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent.parent.parent / "jobs" / "programs"


def test_launchers_variables_become_those_of_the_job(
    run_job: Callable[..., Any],
) -> None:
    result = run_job(
        [str(PROGRAMS / "launcher_variables.py")], ["pure:2", "mpich:2", "openmpi:1"]
    )
    assert set(result.codes) == {0}, result
    assert (
        result.out == "[('0', '2'), ('1', '2'), ('0', '2'), ('1', '2'), ('0', None)]\n"
    )


@pytest.mark.parametrize("clients", [["pure:2", "mpich:1"], ["openmpi:1"]])
def test_a_python_that_a_rank_starts_is_a_job_of_its_own(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([str(PROGRAMS / "spawned_child.py")], clients)
    assert set(result.codes) == {0}, result
    size = sum(int(client.partition(":")[2]) for client in clients)
    found = [(rank * rank, 0, 1) for rank in range(size)]
    assert result.out == f"spawn {found}\nforkserver {found}\n"


@pytest.mark.parametrize(
    ("version", "known"), [([], True), (["--impi-version", "0.0"], False)]
)
def test_a_pickle_that_cannot_be_read_names_the_versions(
    version: list[str], known: bool, tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    (tmp_path / "only_here.py").write_text("class Thing: pass\n")
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("")
    (tmp_path / "numpy" / "version.py").write_text('version = "1.26.4"\n')
    result = run_job(
        [str(PROGRAMS / "unknown_class.py")],
        ["pure:1", "pure:1"],
        options={0: version},
        environ_of={0: {"PYTHONPATH": str(tmp_path)}},
    )
    assert set(result.codes) == {0}, result
    assert result.out.startswith("['rank 1 (client 1) has Python 3.")
    end = (
        f"Python {sys.version_info[0]}.{sys.version_info[1]}, numpy 1.26"
        if known
        else "unknown versions"
    )
    assert result.out.endswith(f"; rank 0 (client 0): {end}']\n")


@pytest.mark.parametrize("vendor", ["mpich", "openmpi", "pure"])
def test_ranks_of_clients_of_one_node_listen_on_loopback_only(
    vendor: str, run_job: Callable[..., Any]
) -> None:
    result = run_job([str(PROGRAMS / "listeners.py")], [f"{vendor}:2"])
    assert (set(result.codes), result.out) == ({0}, "[]\n"), result


def test_what_a_proc_is_told_of_itself(alone: Callable[..., list[str]]) -> None:
    alone("""
assert MPI.Compute_dims(12, 2) == [4, 3] and MPI.Compute_dims(12, [0, 2]) == [6, 2]
refused(MPI.ERR_DIMS, MPI.Compute_dims, 12, [5, 0])
refused(MPI.ERR_DIMS, MPI.Compute_dims, 12, [-1])
assert MPI.Get_version() == (4, 1) and MPI.Get_library_version().endswith("(IMPI 0.0) over impi pure")
assert MPI.Is_initialized() and MPI.Is_thread_main() and not MPI.Is_finalized()
refused(MPI.ERR_ARG, MPI.Init_thread, 4)
assert MPI.Init_thread(MPI.THREAD_SINGLE) == MPI.Query_thread() == MPI.THREAD_MULTIPLE  # as its import asked
assert 0 < MPI.Wtick() < 1e-3 and MPI.Wtime() <= MPI.Wtime()
assert MPI.Get_abi_info().items() == [(f"mpi_{name}_size", "8") for name in ("aint", "count", "offset")]
MPI.Finalize()
assert MPI.Is_finalized()
refused(MPI.ERR_OTHER, MPI.Finalize)
refused(MPI.ERR_OTHER, MPI.Init)
""")
