"""MPI.Exception and the functions on error classes and codes."""

from __future__ import annotations

from impi.protocol.semantics.errors import MPIException, error, table
from impi.rank.api.handles.failing import guarded_function

__all__ = [
    "Add_error_class",
    "Add_error_code",
    "Add_error_string",
    "Exception",
    "Get_error_class",
    "Get_error_string",
    "Remove_error_class",
    "Remove_error_code",
    "Remove_error_string",
    "error",
]

Exception = MPIException
"""An MPI call failed; see :class:`impi.protocol.semantics.errors.MPIException`."""


@guarded_function
def Get_error_class(errorcode: int) -> int:
    """Return the error class of an error code."""
    return table.class_of(errorcode)


@guarded_function
def Get_error_string(errorcode: int) -> str:
    """Return the text of an error class or code."""
    return table.text_of(errorcode)


@guarded_function
def Add_error_class() -> int:
    """Return a new error class."""
    return table.add_class()


@guarded_function
def Remove_error_class(errorclass: int) -> None:
    """Remove an added error class."""
    table.remove_class(errorclass)


@guarded_function
def Add_error_code(errorclass: int) -> int:
    """Return a new error code of a class."""
    return table.add_code(errorclass)


@guarded_function
def Remove_error_code(errorcode: int) -> None:
    """Remove an added error code."""
    table.remove_code(errorcode)


@guarded_function
def Add_error_string(errorcode: int, string: str) -> None:
    """Set the text of an added class or code."""
    table.set_text(errorcode, string)


@guarded_function
def Remove_error_string(errorcode: int) -> None:
    """Remove the text of an added class or code."""
    table.remove_text(errorcode)
