"""A vendor's library beside ours, in programs whose environment is a copy."""

from __future__ import annotations

import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import vendor_library


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_programs_that_are_not_position_independent(compiled, run_job):
    """UCX reads the environment when MPICH starts, and Open MPI does so at its end."""
    done = run_job([compiled("environ", "openmpi", "-no-pie")], ["mpich:1", "pure:1"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(2)]
    done = run_job([compiled("environ", "mpich", "-no-pie")], ["openmpi:1", "pure:1"])
    assert done.codes == [0, 0, 0], done


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "MPI4PY_LIBMPI is '': no such MPI library"), ("libother.so", "is neither libmpi.so.12 nor libmpi.so.40")],
)
def test_a_library_that_mpi4py_cannot_use_is_one_sentence(name, why, tmp_path, monkeypatch):
    if name:
        (tmp_path / name).touch()
    monkeypatch.setenv("MPI4PY_LIBMPI", str(tmp_path / name) if name else "")
    with pytest.raises(LaunchError, match=why):
        vendor_library.extension()
