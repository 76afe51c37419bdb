"""Cells, their names, and selectors that pick among them."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from impi.errors import UsageError
from impi.testbed.cases import Case
from impi.testbed.roster import Roster
from impi.testbed.topology import Topology

__all__ = ["VENDORS", "Cell", "parse_parties", "select"]

VENDORS = ("pure", "mpich", "openmpi")
"""The vendors of the matrix; every one of them supports every case."""

_HASH = re.compile(r"/?([0-9a-f]{7})")


@dataclass(frozen=True, slots=True)
class Cell:
    """One case x vendors in client order x topology [x variant]."""

    case: Case
    vendors: tuple[str, ...]
    topology: Topology
    variant: str = ""

    @property
    def parties(self) -> str:
        """``mpich+openmpi``: client 0 runs the first."""
        return "+".join(self.vendors)

    @property
    def id(self) -> str:
        """``p2p.ring/mpich+openmpi/1x2+1x2``, and the variant if there is one."""
        return "/".join(filter(None, (self.case.name, self.parties, str(self.topology), self.variant)))

    @property
    def hash(self) -> str:
        """Seven characters that stand for the id."""
        return hashlib.sha256(self.id.encode()).hexdigest()[:7]

    @property
    def lab(self) -> tuple[tuple[str, ...], str]:
        """Cells of equal ``lab`` can use the same running nodes."""
        return self.vendors, str(self.topology)

    @property
    def roster(self) -> Roster:
        """Who should run where."""
        return Roster.of(self.topology, self.vendors)


def parse_parties(text: str, *, known: Sequence[str] = VENDORS) -> tuple[str, ...]:
    """``mpich+openmpi`` as a tuple; UsageError for a vendor that does not exist."""
    vendors = tuple(text.split("+"))
    for vendor in vendors:
        if vendor not in known:
            raise UsageError(f"{text!r}: there is no vendor {vendor!r}; there are {', '.join(known)}")
    return vendors


def select(cells: Iterable[Cell], include: Sequence[str], exclude: Sequence[str] = ()) -> list[Cell]:
    """The cells that some selector of ``include`` matches (all, if it is empty) and none of ``exclude``.

    A selector is a glob on the id, component by component (``p2p.*``, ``*/mpich+*``, ``*/*/2x2+2x2``; components left
    out at the end match anything), or a cell's hash.

    Raises:
        UsageError: a selector is empty or has too many components.
    """
    for selector in (*include, *exclude):
        _check(selector)
    found = [c for c in cells if not include or any(_matches(c, s) for s in include)]
    return [c for c in found if not any(_matches(c, s) for s in exclude)]


def _check(selector: str) -> None:
    if not selector.strip("/") or selector.count("/") > 3:
        raise UsageError(f"selector {selector!r}: write CASE/PARTIES/TOPOLOGY/VARIANT with globs, or a cell's hash")


def _matches(cell: Cell, selector: str) -> bool:
    match = _HASH.fullmatch(selector)
    if match is not None and match[1] == cell.hash:
        return True
    patterns = [p for p in selector.split("/") if p not in ("", "**")]
    parts = [cell.case.name, cell.parties, str(cell.topology), cell.variant]
    return all(fnmatch.fnmatchcase(part, pattern) for part, pattern in zip(parts, patterns, strict=False))
