"""The headers of C and Fortran."""

from __future__ import annotations

import re
import subprocess

from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi import IMPI_KEYS
from impi.cabi.text import headers


def test_the_header_stands_in_both_forms_of_source():
    lines = headers.fortran_header().splitlines()
    assert len(lines) > 500
    assert all(
        line[:6] == "      " and len(line) < 73 and "&" not in line for line in lines
    )
    assert "      parameter (MPI_MAX_PROCESSOR_NAME=255)" in lines
    assert "      parameter (MPI_DOUBLE_PRECISION=17)" in lines


def test_c_has_constants_functions_and_their_second_names(tmp_path):
    text = headers.c_header()
    constants = abi_tables.abi("standard").constants
    assert f"#define MPI_COMM_WORLD ((MPI_Comm){constants['COMM_WORLD']})" in text
    assert "\nint MPI_Finalize(void);\nint PMPI_Finalize(void);\n" in text
    assert re.search(
        r"^int MPI_Send_c\(const void\* buf, MPI_Count count,", text, re.MULTILINE
    )
    (tmp_path / "mpi.h").write_text(text)
    (tmp_path / "x.c").write_text(
        '#include "mpi.h"\nMPI_Comm world(void) { return MPI_COMM_WORLD; }\n'
    )
    subprocess.run(
        [
            "cc",
            "-Wall",
            "-Werror",
            "-c",
            "-o",
            str(tmp_path / "x.o"),
            str(tmp_path / "x.c"),
        ],
        check=True,
    )
    assert f"#define IMPI_HOST_SIZE {IMPI_KEYS['IMPI_HOST_SIZE']}" in text
