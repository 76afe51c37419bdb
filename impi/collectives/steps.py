"""What an algorithm of chapter 4 may ask for: the vocabulary of its generator.

An algorithm yields a *list* of steps; they run concurrently, and the value of the ``yield`` is the list of what
the receives among them brought, in their order. It knows no buffer, datatype, socket or library: a
value is whatever the caller gave (octets for data movement, an array for reductions), and passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Algorithm", "Recv", "Send", "Step"]


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``value`` to rank ``dest`` of the communicator."""

    dest: int
    value: Any


@dataclass(frozen=True, slots=True)
class Recv:
    """Receive one value from rank ``source`` of the communicator."""

    source: int


Step: TypeAlias = Send | Recv
Algorithm: TypeAlias = Generator[list[Step], list[Any], Any]
