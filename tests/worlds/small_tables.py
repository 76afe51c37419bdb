"""Small tables of C functions, for tests of the files that are made from them."""

from __future__ import annotations

from impi.cabi.tables.abi_tables import Function, Parameter


def parameter(
    text: str,
    kind: str,
    direction: str = "in",
    *,
    length: str = "",
    large: str = "",
    name: str = "",
) -> Parameter:
    """A parameter by its C declaration."""
    name = name or text.replace("[]", "").replace("*", " ").split()[-1]
    return Parameter(
        name=name,
        kind=kind,
        direction=direction,
        length=length,
        root_only=False,
        text=text,
        large=large or text,
    )


def function(
    name: str, *parameters: Parameter, result: str = "int", large: bool = False
) -> Function:
    return Function(name=name, result=result, parameters=parameters, large=large)


COMM = parameter("MPI_Comm comm", "COMMUNICATOR")
BUF = parameter("const void *buf", "BUFFER")
COUNT = parameter("int count", "POLYXFER_NUM_ELEM_NNI", large="MPI_Count count")
DATATYPE = parameter("MPI_Datatype datatype", "DATATYPE")
SEND = function(
    "MPI_Send",
    BUF,
    COUNT,
    DATATYPE,
    parameter("int dest", "RANK"),
    parameter("int tag", "TAG"),
    COMM,
    large=True,
)
RANK = function("MPI_Comm_rank", COMM, parameter("int *rank", "RANK", "out"))
DUP = function(
    "MPI_Comm_dup", COMM, parameter("MPI_Comm *newcomm", "COMMUNICATOR", "out")
)
C2F = function("MPI_Comm_c2f", COMM, result="MPI_Fint")
TOOL = function("MPI_T_finalize")
