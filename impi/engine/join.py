"""The invitation of a process to a job; claimed by the first import of MPI.

impirun gives every proc one variable, ``IMPI_JOIN`` (JSON; DESIGN.md, "Start-up"). The claim
removes it, so that programs started by the proc do not join by accident.
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
    """Return the invitation of this process; None outside a job and at the second call.

    Raises:
        UsageError: the variable is set but not by impirun.
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
    """Return the octets from which blocks are not packed: IMPI_ZERO_COPY, or a measured default.

    Raises:
        UsageError: the variable is not a number.
    """
    text = os.environ.get("IMPI_ZERO_COPY", "")
    if not text:
        return SHORTEST
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise UsageError(f"IMPI_ZERO_COPY={text[:_SHOWN]} is not a number of octets, such as {SHORTEST}")
    return int(text)
