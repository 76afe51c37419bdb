"""Which objects does the program hold, and what happens when a call on one fails?

Handles and their MPI objects, error handlers, MPI's exceptions, Info, attribute keys, and the
guard around every public method.

May import ``impi.rank.api.constants`` and ``impi.rank.api.runtime``; must not import another folder
of ``impi.rank.api``.
"""

from __future__ import annotations

from impi.rank.api.handles.attributes import KEYVALS, PREDEFINED
from impi.rank.api.handles.errhandler import (
    ERRORS_RETURN,
    Errhandler,
    HasErrhandler,
    initial,
)
from impi.rank.api.handles.failing import (
    guarded,
    guarded_collective,
    guarded_function,
    lacking,
    unsupported,
    wrapped,
)
from impi.rank.api.handles.handle import Handle, HasName, State
from impi.rank.api.handles.info import INFO_NULL, HasInfo, Info
from impi.rank.api.handles.integers import LONG_MAX, fitting, integer, row
from impi.rank.api.handles.keyvals import HasAttributes, Keyvals

__all__ = [
    "ERRORS_RETURN",
    "Errhandler",
    "Handle",
    "HasAttributes",
    "HasErrhandler",
    "HasInfo",
    "HasName",
    "INFO_NULL",
    "Info",
    "KEYVALS",
    "Keyvals",
    "LONG_MAX",
    "PREDEFINED",
    "State",
    "fitting",
    "guarded",
    "guarded_collective",
    "guarded_function",
    "initial",
    "integer",
    "lacking",
    "row",
    "unsupported",
    "wrapped",
]
