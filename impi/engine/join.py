"""How a process learns that it belongs to a job: the first import of MPI claims the invitation.

impirun gives every proc one variable, ``IMPI_JOIN`` (JSON; DESIGN.md, "Start-up"). It is removed when claimed, so
that a program that the proc starts later does not join by accident.
"""

from __future__ import annotations

import json
import os
from typing import Any

from impi.engine.slots import LARGEST
from impi.errors import UsageError
from impi.semantics.blocks import SHORTEST

__all__ = ["VARIABLE", "claim", "largest_slot", "shortest_block"]

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
    return _octets("IMPI_ZERO_COPY", SHORTEST)


def largest_slot() -> int:
    """Octets up to which collectives inside a client go through memory that its procs share (:mod:`impi.engine.slots`):
    IMPI_SLOT, or what was measured; 0: none.

    Raises:
        UsageError: the variable is no number.
    """
    return _octets("IMPI_SLOT", LARGEST)


def _octets(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise UsageError(f"{variable}={text[:_SHOWN]} is not a number of octets, such as {default}")
    return int(text)
