"""The invitation of a process to a job; claimed by the first import of MPI.

impirun gives every proc one variable, ``IMPI_JOIN`` (JSON; docs/how-it-works/start-up.md). The
claim removes it, so that programs started by the proc do not join by accident. A Python that the
proc starts itself is a job of one proc, as multiprocessing needs where it imports the program anew:
under the library of the proc it would hang or end.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, cast

from impi.base.errors import UsageError

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation

VARIABLE = "IMPI_JOIN"
PARENT = "IMPI_PARENT"
"""Process id of the Python whose children are jobs of their own; the hook compares it."""


def claim() -> Invitation | None:
    """Return the invitation of this process; None outside a job and at the second call.

    Raises:
        UsageError: the variable is set but not by impirun.
    """
    invitation = invited()
    if os.environ.pop(VARIABLE, None) is not None:
        os.environ[PARENT] = str(os.getpid())
    return invitation


def invited() -> Invitation | None:
    """Return what :func:`claim` will, and leave it there.

    Raises:
        UsageError: see :func:`claim`.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or "vendor" not in value:
        raise UsageError(f"{VARIABLE} is not what impirun sets; start the program with 'impirun -client ...'")
    return cast("Invitation", value)
