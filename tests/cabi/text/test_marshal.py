"""The Python side of a library: what each function converts, calls, stores and returns."""

from __future__ import annotations

import ast

import pytest
from small_tables import (
    BUF,
    COMM,
    COUNT,
    DATATYPE,
    DUP,
    RANK,
    SEND,
    TOOL,
    function,
    parameter,
)

from impi.cabi.tables import abi_tables
from impi.cabi.text import marshal
from impi.cabi.text.stubs import stubs


def written(made, *, large=False):
    """The lines of one function, without indentation."""
    text = marshal.module(abi_tables.abi("standard"), [made])
    ast.parse(text)
    name = list(stubs([made]))[large].python
    body = (
        text.partition(f"def {name}(")[2]
        .partition("\n\n\n")[0]
        .partition("\n\nFUNCTIONS")[0]
    )
    return [line.strip() for line in body.splitlines()]


def test_a_message_is_a_buffer_a_rank_a_tag():
    lines = written(SEND)
    assert lines[0] == "buf, count, datatype, dest, tag, comm):"
    assert "at_comm = comms[comm]" in lines
    assert "at_buf = payload(buf, count, datatype)" in lines
    assert {"at_dest = RANKS.get(dest, dest)", "at_tag = TAGS.get(tag, tag)"} <= set(
        lines
    )
    assert "at_comm.Send(at_buf, at_dest, at_tag)" in lines
    assert lines[-2:] == ["return failed(failure, 'Send', (comms, comm))", "return 0"]


def test_results_are_stored():
    assert "rank[0] = RANKS.reverse.get(value, value)" in written(RANK)
    lines = written(DUP)
    assert "newcomm[0] = comms.put(value)" in lines
    assert (
        lines[lines.index("except BaseException as failure:") + 1]
        == "newcomm[0] = comms.null"
    )


def test_a_handle_that_goes_is_settled_in_both_cases():
    lines = written(
        function("MPI_Comm_free", parameter("MPI_Comm *comm", "COMMUNICATOR", "inout"))
    )
    assert {
        "at_comm = comms[comm[0]]",
        "comms.settle(comm, at_comm)",
        "comms.settle_failed(comm)",
    } <= set(lines)


def test_at_the_root_and_at_the_leaves_different_arguments_count():
    root = parameter("int root", "RANK")
    send = [
        parameter("void *sendbuf", "BUFFER"),
        parameter("int sendcount", "N"),
        parameter("MPI_Datatype sendtype", "DATATYPE"),
    ]
    receive = [
        parameter("void *recvbuf", "BUFFER"),
        parameter("int recvcount", "N"),
        parameter("MPI_Datatype recvtype", "DATATYPE"),
    ]
    lines = written(function("MPI_Gather", *send, *receive, root, COMM))
    assert "role = at_comm._algorithms.role(at_root)" in lines
    assert (
        "at_sendbuf = block(sendbuf, sendcount, sendtype, 1) if role.is_leaf else None"
        in lines
    )
    assert (
        "at_recvbuf = block(recvbuf, recvcount, recvtype, at_comm._algorithms.peers) if role.is_root else None"
        in lines
    )


def test_what_has_no_expression_is_lacking():
    lines = written(function("MPI_Nothing_known", COMM))
    assert lines[-1] == "return lacking('MPI_Nothing_known', (comms, comm))"


def test_what_needs_no_python_has_none():
    assert "FUNCTIONS = {}" in marshal.module(abi_tables.abi("standard"), [TOOL])


def test_collectives_have_their_other_forms():
    calls = marshal.expressions()
    assert calls["Ibcast"] == calls["Bcast"].replace("Bcast", "Ibcast")
    assert calls["Bcast_init"] == calls["Bcast"].replace("Bcast", "Bcast_init")
    form = function(
        "MPI_Ibcast",
        parameter("void *buffer", "BUFFER"),
        COUNT,
        DATATYPE,
        parameter("int root", "RANK"),
        COMM,
    )
    assert "at_comm.Ibcast(at_buffer, at_root)" in written(form)


@pytest.mark.parametrize("name", abi_tables.NAMES)
def test_every_expression_is_of_a_function_and_its_text_is_python(name):
    functions = abi_tables.functions()
    known = {stub.name.removeprefix("MPI_") for stub in stubs(functions)}
    assert marshal.expressions().keys() <= known
    ast.parse(marshal.module(abi_tables.abi(name), functions))


def test_a_status_may_be_ignored():
    status = parameter("MPI_Status *status", "STATUS", "out")
    lines = written(
        function(
            "MPI_Mprobe",
            parameter("int source", "RANK"),
            parameter("int tag", "TAG"),
            COMM,
            parameter("MPI_Message *message", "MESSAGE", "out"),
            status,
        )
    )
    assert "at_status = None if status == IGNORE else Status()" in lines
    assert "if at_status is not None: store(at_status, status)" in lines
    assert BUF.name not in lines[0]
