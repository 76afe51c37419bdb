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
from impi.base.variables import USHER

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation

VARIABLE = "IMPI_JOIN"
PARENT = "IMPI_PARENT"
"""Process id of the Python whose children are jobs of their own; the hook compares it."""


def claim() -> Invitation | None:
    """Return the invitation of this process; None outside a job and at the second call.

    Raises:
        UsageError: the variable is set but not by impirun.
        JobError: its secrets are kept elsewhere on this node, and cannot be had.
    """
    invitation = invited()
    if invitation is not None and (name := invitation.get("kept")):
        from impi.rank.vendors import keeper  # few jobs have one

        invitation = cast("Invitation", {**invitation, **keeper.ask(name)})

    if os.environ.pop(VARIABLE, None) is not None:
        os.environ[PARENT] = str(os.getpid())
        _start_no_procs()

    return invitation


def _start_no_procs() -> None:
    """Take the hook's library out of LD_PRELOAD: what this proc starts is not part of the job."""
    usher = os.environ.pop(USHER, "")

    tools = os.environ.get("LD_PRELOAD", "").split()
    if usher in tools:
        tools.remove(usher)
        if tools:
            os.environ["LD_PRELOAD"] = " ".join(tools)
        else:
            del os.environ["LD_PRELOAD"]


def invited() -> Invitation | None:
    """Return the invitation like :func:`claim`, but leave it in the environment.

    Raises:
        UsageError: see :func:`claim`.
    """

    text = os.environ.get(VARIABLE)
    if text is None:
        return None

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None

    if not isinstance(value, dict) or "vendor" not in value:
        raise UsageError(
            f"{VARIABLE} is not what impirun sets; start the program with 'impirun -client ...'"
        )

    return cast("Invitation", value)
