"""Text for each terminal: no encoding of a user's locale, and no octet of a name, is an error.

Signs have a letter of ASCII in their place; other characters are written as Python writes them.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Final

_HANDLER: Final = "impi.any"
_PLAIN: Final = {
    "✓": "+",
    "✗": "F",
    "⧖": "T",
    "·": ".",
    "≈": "%",
    "–": "-",
    "×": "x",
    "→": "->",
    "…": "...",
}
_ESCAPED: Final = range(0xDC80, 0xDD00)


def take_any_text() -> None:
    """Let standard output and error take what their encoding does not have."""
    codecs.register_error(_HANDLER, _in_place)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def open_closed_streams() -> None:
    """Put the null device where a shell has closed a standard stream (``>&-``).

    Python has None there, which no print() of a table takes, and the next file that is opened would
    get the number of standard output: children would write into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            file = io.FileIO(descriptor, mode, closefd=False)
            setattr(sys, name, io.TextIOWrapper(file, write_through=True))


def _in_place(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error

    first = error.object[error.start]
    # An octet of a file's name or an argument, which was no text
    if ord(first) in _ESCAPED:
        return bytes([ord(first) - 0xDC00]), error.start + 1

    plain = _PLAIN.get(first) or first.encode("ascii", "backslashreplace").decode(
        "ascii"
    )

    return plain, error.start + 1
