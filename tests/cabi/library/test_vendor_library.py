"""A vendor's library beside ours, in programs whose environment is a copy."""

from __future__ import annotations

import sys

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
    [
        ("", "MPI4PY_LIBMPI is '': no such MPI library"),
        ("libother.so", "is neither libmpi.so.12 nor libmpi.so.40"),
    ],
)
def test_a_library_that_mpi4py_cannot_use_is_one_sentence(
    name, why, tmp_path, monkeypatch
):
    if name:
        (tmp_path / name).touch()
    monkeypatch.setenv("MPI4PY_LIBMPI", str(tmp_path / name) if name else "")
    with pytest.raises(LaunchError, match=why):
        vendor_library.extension()


def test_the_extension_of_another_python(tmp_path, monkeypatch):
    """A distribution's mpi4py is for one library: for others that of impirun's Python serves."""
    site, mine = tmp_path / "site" / "mpi4py", tmp_path / "mine"
    for folder, file, needed in (
        (site, "MPI.cpython.so", "libmpi.so.40"),
        (mine, "MPI.mpich.cpython.so", "libmpi.so.12"),
        (mine, "MPI.openmpi.cpython.so", "libmpi.so.40"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(f"\0{needed}\0".encode())
    (site / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(site.parent)])
    monkeypatch.delitem(sys.modules, "mpi4py", raising=False)
    found = vendor_library._extension_for("openmpi")
    assert found == (str(site / "MPI.cpython.so"), "libmpi.so.40")
    with pytest.raises(LaunchError, match=r"no mpi4py with an extension for mpich: "):
        vendor_library._extension_for("mpich")
    monkeypatch.setenv("IMPI_MPI4PY_FROM", f"/no/such/folder:{mine}")
    for family, soname in (("mpich", "libmpi.so.12"), ("openmpi", "libmpi.so.40")):
        wheel = str(mine / f"MPI.{family}.cpython.so")
        assert vendor_library._extension_for(family) == (wheel, soname)
    (site / "MPI.cpython.so").write_bytes(b"\0libmpich.so.12\0")
    monkeypatch.delenv("IMPI_MPI4PY_FROM")
    assert vendor_library._extension_for("mpich")[1] == "libmpich.so.12"
