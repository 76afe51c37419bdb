"""How a process learns that it belongs to a job: the first import of MPI claims the invitation.

impirun gives every proc one variable, ``IMPI_JOIN`` (JSON; DESIGN.md, "Start-up"). It is removed when claimed, so
that a program that the proc starts later does not join by accident.
"""

from __future__ import annotations

import json
import os
from typing import Any

from impi.errors import UsageError

__all__ = ["VARIABLE", "claim"]

VARIABLE = "IMPI_JOIN"


def claim() -> dict[str, Any] | None:
    """The invitation of this process, or None outside a job; the second call always brings None.

    Raises:
        UsageError: the variable is there but not one of impirun's.
    """
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or "vendor" not in value:
        raise UsageError(f"{VARIABLE} is not what impirun sets; start the program with 'impirun -client ...'")
    return value
