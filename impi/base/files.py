"""Files that users name or edit: each fault of one is a sentence that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError

_SHOWN: Final = 200  # characters of a reason, which may quote the file

MALFORMED: Final = (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What arises where a value of a file is another one than is expected: of another kind, missing,
out of range, or nested without end.
"""


@contextmanager
def reading(name: object, fault: str, cure: str = "") -> Iterator[None]:
    """Turn what arises while a file is read and taken apart into a UsageError.

    Args:
        name: of the file.
        fault: what it is then, such as "is no report of impi conform --json".
        cure: what to do, as a half sentence.
    """
    end = f"; {cure}" if cure else ""
    try:
        yield
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}{end}") from None
    except MALFORMED as error:
        why = str(error)[:_SHOWN] if isinstance(error, ValueError) else type(error).__name__
        if isinstance(error, RecursionError):
            why = "it is nested too deeply"
        elif isinstance(error, KeyError) and error.args:
            why = f"{str(error.args[0])[:_SHOWN]!r} is missing"
        raise UsageError(f"{name} {fault}: {why}{end}") from None


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """Return the tables of a file; ``what`` it is, for the message.

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    import tomllib  # only impirun and the lab read such files, no proc

    with reading(f"{what} {path}".strip(), "is not TOML"):
        return tomllib.loads(path.read_text("utf-8"))
