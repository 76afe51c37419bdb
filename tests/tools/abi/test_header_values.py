"""Values of a header are read from an object file, and a name that it does not have is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.tools.abi.compilers import Compiler
from impi.tools.abi.header_values import read_values

_HEADER = """
typedef struct { int MPI_SOURCE, MPI_TAG; } MPI_Status;
typedef struct MPI_ABI_Comm *MPI_Comm;
extern struct MPI_ABI_Comm *mpi_world;
#define MPI_COMM_SELF ((MPI_Comm)0x102)
#define MPI_COMM_WORLD ((MPI_Comm)&mpi_world)
enum { MPI_ANY_TAG = -2 };
"""


def _compiler(folder: Path, header: str = _HEADER) -> Compiler:
    (folder / "mpi.h").write_text(header)
    return Compiler(argv=("gcc", "-I", str(folder)), title="bin/mpicc_abi")


def test_values(tmp_path: Path) -> None:
    asked = ["sizeof(MPI_Status)", "MPI_ANY_TAG", "MPI_COMM_SELF"]
    assert read_values(_compiler(tmp_path), asked, tmp_path) == dict(
        zip(asked, (8, -2, 0x102), strict=True)
    )


def test_names_that_the_header_does_not_have(tmp_path: Path) -> None:
    asked = [
        "MPI_ERR_ABI",
        "MPI_ANY_TAG",
        "sizeof(MPI_Win)",
        "offsetof(MPI_Status, MPI_TAG)",
    ]
    missing = "the header does not have it"
    found = read_values(_compiler(tmp_path), asked, tmp_path)
    assert found == dict(zip(asked, (missing, -2, missing, 4), strict=True))


def test_addresses_are_no_constants(tmp_path: Path) -> None:
    found = read_values(
        _compiler(tmp_path), ["MPI_ANY_TAG", "MPI_COMM_WORLD"], tmp_path
    )
    assert found["MPI_ANY_TAG"] == -2
    assert found["MPI_COMM_WORLD"] == "it is an address, which differs from run to run"


def test_a_header_that_is_broken(tmp_path: Path) -> None:
    with pytest.raises(
        LaunchError, match=r"bin/mpicc_abi cannot compile the constants: .*error"
    ):
        read_values(
            _compiler(tmp_path, _HEADER + "#error of its own\n"),
            ["MPI_ANY_TAG"],
            tmp_path,
        )
