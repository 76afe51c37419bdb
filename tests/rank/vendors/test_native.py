"""A vendor over an MPI library: which library it is, who sees whom, and long messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from vendor_alone import HERE, ROOT, launch, need


@pytest.mark.parametrize(
    ("vendor", "other"), [("mpich", "openmpi"), ("openmpi", "mpich")]
)
def test_another_library_is_refused_by_name(vendor: str, other: str) -> None:
    need(other)
    program = str(HERE / "programs" / "wrong_library.py")
    result = launch(vendor, 1, program, WRONG=str(ROOT / ".mpi" / other / "lib"))
    names = {"mpich": "MPICH", "openmpi": "Open MPI"}
    assert result.returncode == 0, result.stderr
    assert (
        f"vendor {vendor} needs {names[vendor]}, but the MPI library that was loaded is {names[other]}"
        in result.stdout
    )


def test_procs_that_do_not_see_each_other_are_refused() -> None:
    """A proc of one MPI under another's mpiexec is rank 0 of 1, without an error of its own."""
    need("openmpi")
    wrong = str(ROOT / ".mpi" / "openmpi" / "lib")
    # Else a singleton leaves shared memory
    environ = {"WRONG": wrong, "VENDOR": "openmpi", "OMPI_MCA_btl": "self"}
    result = launch("mpich", 2, str(HERE / "programs" / "wrong_library.py"), **environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Open MPI sees 1 of the 2 procs") == 2


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_more_octets_than_a_c_int_counts(vendor: str) -> None:
    available = next(
        line
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    if int(available.split()[1]) < 8 * 2**20:
        pytest.skip(
            "less than 8 GiB of memory are available, and two messages of 2 GiB must fit"
        )
    result = launch(vendor, 2, str(HERE / "programs" / "huge.py"))
    assert result.returncode == 0, result.stderr
    assert "huge message is right" in result.stdout
