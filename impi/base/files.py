"""Read files that users name or edit: each fault becomes a sentence that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError, unread

_SHOWN: Final = 200  # characters of a reason, which may quote the file

MALFORMED: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions from code that takes a malformed file apart: its values have other types, are missing,
are out of range, or are nested too deeply.
"""


@contextmanager
def reading(name: object, fault: str, cure: str = "") -> Iterator[None]:
    """Turn exceptions while a file is read and taken apart into a UsageError.

    Args:
        name: name of the file.
        fault: predicate of the sentence, such as "is not a report of impi conform --json".
        cure: end of the sentence with the cure.
    """
    end = f"; {cure}" if cure else ""
    try:
        yield
    except UsageError:
        raise
    except OSError as error:
        raise unread(name, error, cure) from None
    except MALFORMED as error:
        # A ValueError says what is wrong with the text; the others speak of Python's objects, which
        # the user has not written.
        why = (
            str(error)[:_SHOWN]
            if isinstance(error, ValueError)
            else type(error).__name__
        )
        if isinstance(error, RecursionError):
            why = "it is nested too deeply"
        elif isinstance(error, KeyError) and error.args:
            why = f"{str(error.args[0])[:_SHOWN]!r} is missing"

        raise UsageError(f"{name} {fault}: {why}{end}") from None


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """Return the tables of a file.

    Args:
        path: the file.
        what: kind of the file, for the message.

    Raises:
        UsageError: it cannot be read, or is not TOML.
    """
    import tomllib  # no proc reads such files

    with reading(f"{what} {path}".strip(), "is not TOML"):
        return tomllib.loads(path.read_text("utf-8"))
