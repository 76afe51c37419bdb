"""Parties: which vendor each client of a lab runs, in client order (``mpich+openmpi``)."""

from __future__ import annotations

from collections.abc import Sequence

from impi.errors import UsageError

VENDORS = ("pure", "mpich", "openmpi")
"""The vendors of the matrix; every one of them supports every case."""


def parse_parties(text: str, *, known: Sequence[str] = VENDORS) -> tuple[str, ...]:
    """``mpich+openmpi`` as a tuple; UsageError for a vendor that does not exist."""
    vendors = tuple(text.split("+"))
    for vendor in vendors:
        if vendor not in known:
            raise UsageError(f"{text!r}: there is no vendor {vendor!r}; there are {', '.join(known)}")
    return vendors
