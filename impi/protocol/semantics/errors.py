"""MPI's error classes and codes, and the exception that carries one.

How it works: each number, class or code, has a row in one table of the process: its class and its
text. A class is its own class. Programs add rows above the predefined ones (MPI 4.1, 9.5), and a
number is never used twice: a program may still hold a code that it has removed.

The exception is a :class:`RuntimeError` that compares as an integer, because programs written for
mpi4py catch it so. The tree of :mod:`impi.base.errors` is about the job, not about an MPI call.
"""

from __future__ import annotations

from typing import Final

from impi.protocol.semantics.constants import ERROR_CLASSES, SUCCESS

LAST_PREDEFINED: Final = 0x3FFF
"""MPI_ERR_LASTCODE: classes and codes that programs add lie above."""
MAX_ERROR_STRING: Final = 512

_UNKNOWN: Final = ERROR_CLASSES["ERR_UNKNOWN"][0]
_ARG: Final = ERROR_CLASSES["ERR_ARG"][0]
_OTHER: Final = ERROR_CLASSES["ERR_OTHER"][0]


class ErrorTable:
    """The known error classes and codes; programs may add more (MPI 4.1, 9.5).

    Methods that take a code raise :class:`MPIException` of class ``ERR_ARG`` for an unknown one.
    """

    def __init__(self) -> None:
        self._class_of: dict[int, int] = {SUCCESS: SUCCESS, LAST_PREDEFINED: _UNKNOWN}

        self._text: dict[int, str] = {
            SUCCESS: "MPI_SUCCESS: no error",
            LAST_PREDEFINED: "MPI_ERR_LASTCODE: last code",
        }
        for name, (number, text) in ERROR_CLASSES.items():
            self._class_of[number] = number
            self._text[number] = f"MPI_{name}: {text}"

        # Never given again, since a program may still hold a code that it has removed.
        self._next = LAST_PREDEFINED + 1

    def __contains__(self, code: int) -> bool:
        return code in self._class_of

    @property
    def last_used(self) -> int:
        """The attribute MPI_LASTUSEDCODE: the largest class or code in use."""
        return max(self._class_of)

    def class_of(self, code: int) -> int:
        """The error class of a code; a class is its own."""
        self._check(code)
        return self._class_of[code]

    def text_of(self, code: int) -> str:
        self._check(code)
        return self._text.get(code, "")

    def add_class(self) -> int:
        return self._add(None)

    def add_code(self, errorclass: int) -> int:
        self._check(errorclass)
        if self._class_of[errorclass] != errorclass:
            raise error("ERR_ARG", f"{errorclass} is an error code, not an error class")

        return self._add(errorclass)

    def set_text(self, code: int, text: str) -> None:
        self._check_added(code)
        if len(text.encode()) > MAX_ERROR_STRING:
            raise error(
                "ERR_ARG", f"the error string is longer than {MAX_ERROR_STRING} octets"
            )

        self._text[code] = text

    def remove_text(self, code: int) -> None:
        self._check_added(code)
        if code not in self._text:
            raise error("ERR_ARG", f"error code {code} has no string")

        del self._text[code]

    def remove_class(self, errorclass: int) -> None:
        """Forget an added class; its codes and its string must have been removed before."""

        self._check_added(errorclass)
        if self._class_of[errorclass] != errorclass:
            raise error("ERR_ARG", f"{errorclass} is an error code, not an error class")

        # Its own row is one of them.
        if sum(c == errorclass for c in self._class_of.values()) > 1:
            raise error(
                "ERR_OTHER",
                f"error class {errorclass} still has codes: remove them first",
            )

        self._forget(errorclass)

    def remove_code(self, code: int) -> None:
        """Forget an added code; its string must have been removed before."""
        self._check_added(code)
        if self._class_of[code] == code:
            raise error("ERR_ARG", f"{code} is an error class, not an error code")

        self._forget(code)

    def _add(self, errorclass: int | None) -> int:
        code, self._next = self._next, self._next + 1
        self._class_of[code] = code if errorclass is None else errorclass
        return code

    def _forget(self, code: int) -> None:
        if code in self._text:
            raise error(
                "ERR_OTHER", f"error code {code} still has a string: remove it first"
            )

        del self._class_of[code]

    def _check(self, code: int) -> None:
        if code not in self._class_of:
            raise error(
                "ERR_ARG", f"{code} is neither an error class nor an error code"
            )

    def _check_added(self, code: int) -> None:
        self._check(code)
        if code <= LAST_PREDEFINED:
            raise error(
                "ERR_ARG", f"error code {code} is predefined and cannot be changed"
            )


table: Final = ErrorTable()
"""The table of this process."""


class LackingError(NotImplementedError):
    """A call that impi does not have, or not for these arguments.

    If a thread ends by it, the job ends, too: the others would wait for that thread for ever.
    """


class MPIException(RuntimeError):
    """An MPI call failed; compares and hashes as its error code.

    Args:
        ierr: the error code; a negative one counts as ``ERR_UNKNOWN``.

    Attributes:
        detail: the fault of this call, in one sentence; may be empty.
        call: the method that failed, such as ``"Bcast"``; may be empty.
        handled: whether an error handler has had it; one failure calls one handler once.
        told: whether another proc made the mistake and told this one of it.
    """

    detail: str = ""
    call: str = ""
    handled: bool = False
    told: bool = False

    def __init__(self, ierr: int = SUCCESS, /) -> None:
        if not isinstance(ierr, int):
            raise TypeError(
                f"an error code must be an integer, not {type(ierr).__name__}"
            )

        # As mpi4py does, so that programs which compare codes see the same one.
        super().__init__(_UNKNOWN if ierr < SUCCESS else int(ierr))

    def __int__(self) -> int:
        code: int = self.args[0]
        return code

    def __bool__(self) -> bool:
        return int(self) != SUCCESS

    def __hash__(self) -> int:
        # It equals its code, so it must hash like it.
        return hash(int(self))

    def __eq__(self, other: object, /) -> bool:
        return int(self) == (int(other) if isinstance(other, MPIException) else other)

    def __ne__(self, other: object, /) -> bool:
        return not self == other

    def __lt__(self, other: int | MPIException, /) -> bool:
        return int(self) < int(other)

    def __le__(self, other: int | MPIException, /) -> bool:
        return int(self) <= int(other)

    def __gt__(self, other: int | MPIException, /) -> bool:
        return int(self) > int(other)

    def __ge__(self, other: int | MPIException, /) -> bool:
        return int(self) >= int(other)

    def __repr__(self) -> str:
        return f"MPI.Exception({int(self)})"

    def __str__(self) -> str:
        text = self.Get_error_string()
        return f"{text}: {self.detail}" if self.detail else text

    def Get_error_code(self) -> int:
        return int(self)

    def Get_error_class(self) -> int:
        return table.class_of(int(self))

    def Get_error_string(self) -> str:
        return table.text_of(int(self))

    @property
    def error_code(self) -> int:
        return self.Get_error_code()

    @property
    def error_class(self) -> int:
        return self.Get_error_class()

    @property
    def error_string(self) -> str:
        return self.Get_error_string()


def error(code: int | str, detail: str = "") -> MPIException:
    """Return the exception to raise, by name or value of the code: ``raise error("ERR_TAG",
    "...")``."""
    exc = MPIException(ERROR_CLASSES[code][0] if isinstance(code, str) else code)
    exc.detail = detail

    return exc


def again(failure: MPIException) -> MPIException:
    """Return an equal exception, to be raised and handled by itself."""
    return error(int(failure), failure.detail)
