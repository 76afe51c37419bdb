"""The symbols of a library, and the calls that C answers itself."""

from __future__ import annotations

from small_tables import C2F, RANK, SEND, TOOL, function, parameter

from impi.cabi.text.stubs import answer, conversion, is_tool, needs_python, stubs


def test_a_large_function_has_two_stubs():
    small, large = stubs([SEND])
    assert (small.name, large.name) == ("MPI_Send", "MPI_Send_c")
    assert (small.texts[1], large.texts[1]) == ("int count", "MPI_Count count")
    assert large.python == "impi_py_Send_c"


def test_answers():
    (rank,) = stubs([RANK])
    assert answer(rank).startswith("KNOWN(comm")
    assert needs_python(rank), "C does not know every communicator"
    (version,) = stubs([function("MPI_Get_version")])
    assert not needs_python(version)
    small, large = stubs([function("MPI_Get_count", large=True)])
    assert answer(small) and not answer(large)


def test_conversions_between_handles_and_numbers_need_no_python():
    (stub,) = stubs([C2F])
    assert (conversion(stub.function), needs_python(stub)) == ("comm", False)
    other = function(
        "MPI_Status_c2f", parameter("int *a", "STATUS"), parameter("int *b", "STATUS")
    )
    assert conversion(other) is None


def test_the_tool_interface_is_absent():
    (stub,) = stubs([TOOL])
    assert is_tool(stub) and not needs_python(stub)
