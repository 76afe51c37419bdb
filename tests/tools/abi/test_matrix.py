"""The matrix: a pass takes a witness, and a library that does nothing is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from abi_prefixes import fake_prefix

from impi.tools.abi import matrix
from impi.tools.abi.audit import audit
from impi.tools.abi.libraries import Library, named
from impi.tools.abi.verdicts import (
    FAIL,
    MIXED,
    OURS,
    PASS,
    UNSUPPORTED,
    UNTESTED,
    Program,
)

ROOT = Path(__file__).resolve().parents[3]


def _account(place: Path, number: int, *lines: str) -> None:
    (place / f"told-{number}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libmpi_abi.so.1"
    path.touch()
    return path


def test_a_pass_takes_all_processes_and_the_right_library(
    library: Path, tmp_path: Path
) -> None:
    for number in range(2):
        _account(
            tmp_path,
            number,
            f"library {library}",
            "at MPI_Init",
            "at MPI_Finalize",
            "end",
        )
    assert matrix._judged(tmp_path, 2, "", library) == ""
    assert matrix._judged(tmp_path, 3, "", library) == "2 of 3 processes began"
    assert matrix._judged(tmp_path, 2, "", Path("/other/libmpi_abi.so.1")) == (
        f"it ran with {library}, and not with /other/libmpi_abi.so.1"
    )


def test_a_program_that_found_no_library(library: Path, tmp_path: Path) -> None:
    said = "A under B failed; mpiexec said: libmpi_abi.so.1: cannot open  shared object file"
    assert matrix._judged(tmp_path, 2, said, library) == (
        "0 of 2 processes began; libmpi_abi.so.1: cannot open shared object file"
    )


def test_what_a_process_found_is_the_reason(library: Path, tmp_path: Path) -> None:
    bad = [f"bad types: of {number}" for number in range(5)]
    for number in range(2):
        _account(
            tmp_path, number, f"library {library}", "at types", *bad, "at files", "end"
        )
    assert (
        matrix._judged(tmp_path, 2, "", library)
        == "types: of 0; types: of 1; types: of 2; 2 more"
    )


def test_a_process_that_ended_is_known_by_its_check(
    library: Path, tmp_path: Path
) -> None:
    _account(tmp_path, 0, f"library {library}", "at types", "at MPI_ERRORS_RETURN")
    _account(tmp_path, 1, f"library {library}", "at types", "at MPI_ERRORS_RETURN")
    said = "A under B failed; mpiexec said: Abort(6)"
    assert matrix._judged(tmp_path, 2, said, library) == (
        "2 of 2 processes ended at the check MPI_ERRORS_RETURN; Abort(6)"
    )


def test_a_failure_of_a_job_whose_processes_all_ended_well_is_no_pass(
    library: Path, tmp_path: Path
) -> None:
    _account(tmp_path, 0, f"library {library}", "end")
    assert matrix._judged(
        tmp_path, 1, "A under B has not ended within 60 s: ...", library
    )


def _audited(folder: Path, *libraries: Library) -> tuple[list[Program], Path]:
    compiled = []
    for each in libraries:
        (folder / each.name).mkdir()
        compiled.append((each, audit(each, folder / each.name)[1]))
    return matrix.programs(compiled, folder), folder


def test_cells_of_a_library_that_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "work").mkdir()
    fake, plain = named(
        [f"fake={fake_prefix(tmp_path / 'fake')}", f"plain={tmp_path / 'plain'}"]
    )
    made, folder = _audited(tmp_path / "work", fake, plain)
    assert [(each.name, each.verdict) for each in made] == [
        ("fake", PASS),
        ("plain", UNSUPPORTED),
        (OURS, PASS),
    ]
    found = {
        (each.program, each.under): each
        for each in matrix.cells([fake, plain], made, folder)
    }
    assert len(found) == 9
    for program in ("fake", OURS):
        assert found[program, "fake"].verdict == FAIL
        assert "processes ended at the check" in found[program, "fake"].detail
        assert found[program, "plain"].verdict == UNSUPPORTED
        assert found[program, MIXED].verdict == UNTESTED
    assert {found["plain", under].verdict for under in ("fake", "plain", MIXED)} == {
        UNSUPPORTED
    }


def test_a_program_that_its_library_lacks_a_name_of(tmp_path: Path) -> None:
    """As a program with PMPI_Comm_fromint, which MPICH 5.0.1 had in a second library."""
    (tmp_path / "work").mkdir()
    [fake] = named(
        [f"fake={fake_prefix(tmp_path / 'fake', lacks=['PMPI_Comm_fromint'])}"]
    )
    made, _ = _audited(tmp_path / "work", fake)
    assert made[0].verdict == FAIL
    assert "undefined reference to `PMPI_Comm_fromint'" in made[0].detail


def test_libraries_of_two_sonames(tmp_path: Path) -> None:
    """As MPICH 5.0.1 and 5.0.2: by its RUNPATH, a program finds the one that it was made with."""
    (tmp_path / "work").mkdir()
    prefixes = [
        fake_prefix(tmp_path / f"so.{n}", soname=f"libmpi_abi.so.{n}") for n in range(2)
    ]
    old, new = named([f"old={prefixes[0]}", f"new={prefixes[1]}"])
    made, folder = _audited(tmp_path / "work", old, new)
    found = {
        (each.program, each.under): each
        for each in matrix.cells([old, new], made, folder)
    }
    assert (
        found["old", "new"].detail
        == f"the program needs libmpi_abi.so.0, which {prefixes[1]}/lib does not have"
    )
    assert (
        found[OURS, "old"].detail
        == f"the program needs libmpi_abi.so.1, which {prefixes[0]}/lib does not have"
    )


def test_without_mpiexec_and_without_wrapper(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    prefix = fake_prefix(tmp_path / "fake")
    for name in ("mpiexec", "mpicc_abi"):
        (prefix / "bin" / name).unlink()
    [fake] = named([f"fake={prefix}"])
    made, folder = _audited(tmp_path / "work", fake)
    assert (made[0].verdict, made[0].detail) == (
        UNTESTED,
        "it has no compiler for the ABI",
    )
    found = {
        (each.program, each.under): each for each in matrix.cells([fake], made, folder)
    }
    assert found["fake", "fake"].verdict == UNTESTED
    assert found[OURS, "fake"].detail == f"{prefix} has no bin/mpiexec"


@pytest.mark.vendor("mpich")
def test_the_real_library_runs_its_program(tmp_path: Path) -> None:
    [mpich] = named([f"mpich={ROOT / '.mpi/mpich'}"])
    made, folder = _audited(tmp_path, mpich)
    assert {each.verdict for each in made} == {PASS}
    for cell in matrix.cells([mpich], made, folder):
        # MPICH 5.0.2 has the texts of its own numbers: pmodels/mpich#7835.
        assert (
            cell.detail.startswith(
                "error classes: MPI_Error_string of MPI_ERR_FILE_EXISTS"
            )
            or cell.under == MIXED
        )
