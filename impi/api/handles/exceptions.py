"""MPI.Exception and the functions on error classes and codes."""

from __future__ import annotations

from impi.api.handles.failing import guarded_function
from impi.semantics.errors import MPIException, error, table

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
"""An MPI call failed; see :class:`impi.semantics.errors.MPIException`."""


@guarded_function
def Get_error_class(errorcode: int) -> int:
    """The error class of an error code."""
    return table.class_of(errorcode)


@guarded_function
def Get_error_string(errorcode: int) -> str:
    """What an error class or code means."""
    return table.text_of(errorcode)


@guarded_function
def Add_error_class() -> int:
    """A new error class."""
    return table.add_class()


@guarded_function
def Remove_error_class(errorclass: int) -> None:
    """Forget an added error class."""
    table.remove_class(errorclass)


@guarded_function
def Add_error_code(errorclass: int) -> int:
    """A new error code of a class."""
    return table.add_code(errorclass)


@guarded_function
def Remove_error_code(errorcode: int) -> None:
    """Forget an added error code."""
    table.remove_code(errorcode)


@guarded_function
def Add_error_string(errorcode: int, string: str) -> None:
    """Give an added class or code its string."""
    table.set_text(errorcode, string)


@guarded_function
def Remove_error_string(errorcode: int) -> None:
    """Take the string of an added class or code away."""
    table.remove_text(errorcode)
