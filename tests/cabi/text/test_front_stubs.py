"""Front mode: which calls go on to the library, by what the call is about."""

from __future__ import annotations

import pytest
from small_tables import BUF, C2F, COMM, COUNT, DATATYPE, DUP, SEND, function, parameter

from impi.cabi.tables import abi_tables
from impi.cabi.text.front_stubs import converted, prelude, way
from impi.cabi.text.stubs import stubs

MPICH = abi_tables.abi("mpich")


def way_of(made):
    return way(next(stubs([made])), MPICH)


def test_calls_of_the_library_itself_go_on_at_once():
    assert way_of(DUP).startswith(
        "if (IMPI_FROM_LIBRARY) return PMPI_Comm_dup(comm, newcomm);"
    )


def test_messages_inside_the_client_are_the_librarys():
    assert (
        "if (IMPI_LOCAL(comm)) IMPI_PASS(PMPI_Send(buf, count, datatype, dest, tag, comm))"
        in way_of(SEND)
    )
    assert "IMPI_PASS" not in way_of(DUP), "a communicator without a message"


def test_datatypes_are_always_the_librarys():
    assert way_of(function("MPI_Type_commit", DATATYPE)).endswith(
        "return PMPI_Type_commit(datatype);"
    )


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        (
            function("MPI_Wait", parameter("MPI_Request *request", "REQUEST", "inout")),
            "!IMPI_OURS(*request)",
        ),
        (
            function("MPI_File_close", parameter("MPI_File *fh", "FILE", "inout")),
            "!IMPI_OURS(*fh)",
        ),
        (
            function(
                "MPI_Mrecv",
                BUF,
                COUNT,
                DATATYPE,
                parameter("MPI_Message *message", "MESSAGE", "inout"),
            ),
            "!IMPI_OURS(*message)",
        ),
        (
            function(
                "MPI_Waitall",
                parameter("int n", "X"),
                parameter("MPI_Request r[]", "REQUEST", "inout", length="n"),
            ),
            "impi_library_has(n, r)",
        ),
        (
            function("MPI_Info_get_nkeys", parameter("MPI_Info info", "INFO")),
            "!IMPI_OURS(info)",
        ),
    ],
)
def test_other_objects_go_by_their_value(made, condition):
    assert condition in way_of(made).splitlines()[-1]


def test_infos_that_are_ours_do_not_reach_the_library():
    opened = function("MPI_File_open", COMM, parameter("MPI_Info info", "INFO"))
    null = f"(MPI_Info)(intptr_t){MPICH.constants['INFO_NULL']}"
    assert f"PMPI_File_open(comm, IMPI_OURS(info) ? {null} : info)" in way_of(opened)


def test_what_both_sides_must_know():
    made = function(
        "MPI_Op_create",
        parameter("void *user_fn", "F"),
        parameter("int commute", "L"),
        large=True,
    )
    small, large = (way(stub, MPICH) for stub in stubs([made]))
    assert "int code = PMPI_Op_create(user_fn, commute);" in small
    assert "impi_py_adopt_op((intptr_t)user_fn, commute, 0, *op)" in small
    assert "impi_py_adopt_op((intptr_t)user_fn, commute, 1, *op)" in large


def test_numbers_tell_whose_a_handle_is():
    stub = next(stubs([C2F]))
    assert (
        converted(stub, "comm", MPICH)
        == "return IMPI_OURS(comm) ? (MPI_Fint)comm : PMPI_Comm_c2f(comm);"
    )
    assert (
        f"#define IMPI_WORLD (MPI_Comm)(intptr_t){MPICH.constants['COMM_WORLD']}"
        in prelude(MPICH)
    )
