"""The C text of a library."""

from __future__ import annotations

import subprocess

import pytest
from small_tables import C2F, RANK, SEND, TOOL

from impi.cabi.tables import abi_tables
from impi.cabi.text import emit

TABLE = (C2F, RANK, SEND, TOOL)


@pytest.fixture(params=abi_tables.NAMES)
def abi(request):
    return abi_tables.abi(request.param)


def body(text, head):
    """The lines of a function between its braces."""
    return text.partition(f"{head}\n{{\n")[2].partition("\n}\n")[0]


def test_a_stub_calls_python_and_has_a_second_name(abi):
    text = emit.source(abi, TABLE, "/usr/bin/python", "libx.so")
    head = "int PMPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)"
    lines = body(text, head).splitlines()
    assert lines[:2] == ["    if (impi_gone()) return IMPI_GONE;", "    impi_start();"]
    assert (
        "impi_py_Send_c((char *)buf, (int64_t)count, (MPI_Datatype)datatype, (int)dest"
        in lines[2]
    )
    assert (
        '__typeof__(PMPI_Send_c) MPI_Send_c __attribute__((weak, alias("PMPI_Send_c")));'
        in text
    )
    assert (
        '#define IMPI_PYTHON "/usr/bin/python"' in text
        and '#define IMPI_SONAME "libx.so"' in text
    )


def test_what_c_knows_needs_no_python(abi):
    text = emit.source(abi, TABLE, "python", "libx.so")
    assert "KNOWN(comm, rank, first)" in body(
        text, "int PMPI_Comm_rank(MPI_Comm comm, int *rank)"
    )
    assert body(text, "int PMPI_T_finalize(void)") == "    return IMPI_TOOLS;"


def test_numbers_of_open_mpi_are_those_of_its_fortran_header():
    own = {
        name: emit.source(abi_tables.abi(name), TABLE, "python", "libx.so")
        for name in abi_tables.NAMES
    }
    head = "MPI_Fint PMPI_Comm_c2f(MPI_Comm comm)"
    assert (
        body(own["openmpi"], head)
        == "    return impi_number_of(impi_numbers_Comm, comm);"
    )
    assert body(own["standard"], head) == "    return (MPI_Fint)(intptr_t)comm;"


def test_in_front_mode_only_functions_of_the_library_are_exported():
    text = emit.source(
        abi_tables.abi("mpich"),
        TABLE,
        "python",
        "libx.so",
        frozenset(["MPI_Comm_rank"]),
    )
    assert "int MPI_Comm_rank(MPI_Comm comm, int *rank)\n{" in text
    assert "extern int PMPI_Comm_rank(MPI_Comm comm, int *rank);" in text
    assert "MPI_Send" not in text.partition("extern int PMPI_Comm_rank")[2]


def test_python_lends_what_the_stubs_call(abi):
    told = emit.declarations(abi, TABLE)
    assert (
        "int impi_py_Send_c(char *, int64_t, MPI_Datatype, int, int, MPI_Comm);" in told
    )
    assert "impi_py_Comm_c2f" not in told and "impi_py_T_finalize" not in told
    assert (
        "impi_py_turn" in told,
        "impi_py_turn" in emit.declarations(abi, TABLE, front=True),
    ) == (False, True)


def test_the_types_compile(abi, tmp_path):
    (tmp_path / "x.c").write_text(
        "\n".join(emit.types(abi)) + "\nMPI_Status s; int octets = sizeof s;\n"
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
