"""The program's choices for MPI: ``mpi4py.rc`` and the MPI4PY_RC_* variables of the environment.

They are read once, by the import of MPI: this module may be loaded long before. A variable goes
before the attribute of ``mpi4py.rc``, and is written there. A value without a meaning causes a
RuntimeWarning. ``fast_reduce``, ``recv_mprobe`` and ``irecv_bufsz`` are checked only: objects
travel in one way here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from impi.base.records import record

LEVELS: Final = ("single", "funneled", "serialized", "multiple")
"""Thread levels by MPI's numbers."""
_SWITCH: Final = ((True, True), (False, False), ("yes", True), ("no", False))
_ERRORS: Final = tuple(
    (name, name) for name in ("exception", "default", "abort", "fatal")
)
# Default of each option, and what its values mean; `irecv_bufsz` is a number.
_MEANINGS: Final[dict[str, tuple[Any, tuple[tuple[Any, Any], ...]]]] = {
    "initialize": (True, _SWITCH),
    "threads": (True, _SWITCH),
    "thread_level": (
        "multiple",
        tuple((name, level) for level, name in enumerate(LEVELS)),
    ),
    "finalize": (None, ((None, None), *_SWITCH)),
    "fast_reduce": (True, _SWITCH),
    "recv_mprobe": (True, _SWITCH),
    "irecv_bufsz": (32768, ()),
    "errors": ("exception", _ERRORS),
}
_TRUE: Final = ("true", "yes", "on", "y", "1")
_FALSE: Final = ("false", "no", "off", "n", "0")


@record
class Choices:
    """The options that have an effect."""

    initialize: bool  # whether the import of MPI initialises it
    finalize: bool  # whether the end of the program finalises it
    thread_level: int  # the thread level that the import asks for
    errors: str  # error handler of new objects: exception, default, abort or fatal


def read(environ: Mapping[str, str], rc: Any) -> Choices:
    """Read all options; ``rc`` is ``mpi4py.rc`` or None."""

    found = {
        name: _meaning(name, environ.get(f"MPI4PY_RC_{name.upper()}"), rc)
        for name in _MEANINGS
    }
    # As in mpi4py: the end of the program finalises what the import has initialised.
    finalize = found["initialize"] if found["finalize"] is None else found["finalize"]
    level = found["thread_level"] if found["threads"] else 0

    return Choices(found["initialize"], finalize, level, found["errors"])


def _meaning(name: str, text: str | None, rc: Any) -> Any:
    default, meanings = _MEANINGS[name]

    value = getattr(rc, name, default)
    if text is not None:
        value = _parsed(text, number=not meanings)
        if rc is not None:
            setattr(rc, name, value)

    if not meanings and type(value) is int and value >= 0:
        return value

    for known, meaning in meanings:
        if value == known:
            return meaning

    import warnings

    warnings.warn(
        f"mpi4py.rc.{name}: unexpected value {value!r}", RuntimeWarning, stacklevel=2
    )

    return next((meaning for known, meaning in meanings if known == default), default)


def _parsed(text: str, *, number: bool) -> object:
    """Return the value of a variable: a number, a switch, or a word in lower case."""

    word = text.lower()
    if number and text.strip().isdecimal():
        return int(text)

    if word in _TRUE or word in _FALSE:
        return word in _TRUE

    return word


@cache
def choices() -> Choices:
    """Return the choices of this process; the first call reads them."""
    return read(
        os.environ,
        getattr(sys.modules.get("mpi4py"), "rc", sys.modules.get("mpi4py.rc")),
    )
