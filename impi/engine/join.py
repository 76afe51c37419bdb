"""How a process learns that it belongs to a job: the first import of MPI claims the invitation.

impirun gives every proc one variable, ``IMPI_JOIN`` (JSON; DESIGN.md, "Start-up"). It is removed when claimed, so
that a program that the proc starts later does not join by accident.
"""

from __future__ import annotations

import json
import os
from typing import Any

from impi.errors import UsageError
from impi.semantics.blocks import SHORTEST

__all__ = ["VARIABLE", "claim", "shortest_block"]

VARIABLE = "IMPI_JOIN"
_DIGITS = 18
_SHOWN = 80


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


def shortest_block() -> int:
    """Octets from which blocks of derived datatypes are not packed: IMPI_ZERO_COPY, or what was measured.

    Raises:
        UsageError: the variable is no number.
    """
    text = os.environ.get("IMPI_ZERO_COPY", "")
    if not text:
        return SHORTEST
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise UsageError(f"IMPI_ZERO_COPY={text[:_SHOWN]} is not a number of octets, such as {SHORTEST}")
    return int(text)
