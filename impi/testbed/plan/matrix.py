"""Which cells a run consists of, and why the others are left out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.errors import UsageError
from impi.testbed.cases import CASES, Case
from impi.testbed.lab.interface import Backend
from impi.testbed.lab.lab_topology import Topology, parse_topology
from impi.testbed.lab.parties import VENDORS
from impi.testbed.plan.cell import Cell, check_selector, is_literal, matches, parse_cell

TIERS: Final = ("smoke", "core", "pairs", "full")
"""``smoke``: two mixed pairs, few cases; ``core``: the default, in a few minutes; ``pairs``: all
cases on every ordered pair, with those for several nodes; ``full``: all cases on all.
"""
DEFAULT_TIER: Final = "core"

_PAIR: Final = parse_topology("1x2+1x2")
_WIDE: Final = parse_topology("2x2+2x2")
_TRIO: Final = parse_topology("1x2+1x2+1x2")
_WIDE_PARTIES: Final = (("mpich", "openmpi"),)
_WIDE_SHORT_PARTIES: Final = (("openmpi", "pure"),)
_TRIO_PARTIES: Final = tuple(itertools.combinations(VENDORS, 3))
_SMOKE_PARTIES: Final = (("pure", "mpich"), ("mpich", "openmpi"))
_PAIRS: Final = tuple(itertools.product(VENDORS, repeat=2))
_UNORDERED: Final = tuple(itertools.combinations(VENDORS, 2))
_TRIOS: Final = tuple(itertools.permutations(VENDORS, 3))
_Part = tuple[Callable[[Case], bool], Sequence[tuple[str, ...]], Topology]
_TIERS: Final[Mapping[str, Sequence[_Part]]] = {
    "smoke": ((lambda case: case.smoke, _SMOKE_PARTIES, _PAIR),),
    "core": (
        # Cases for every pair run in both orders, the rest once for each unordered pair.
        (lambda case: case.wide, _PAIRS, _PAIR),
        (lambda case: case.core and not case.wide, _UNORDERED, _PAIR),
        (lambda case: case.wide, _WIDE_PARTIES, _WIDE),
        (lambda case: case.wide and case.smoke, _WIDE_SHORT_PARTIES, _WIDE),
        (lambda case: case.wide, _TRIO_PARTIES, _TRIO),
    ),
    "pairs": (
        (lambda _case: True, _PAIRS, _PAIR),
        (lambda case: case.nodes or case.wide, _PAIRS, _WIDE),
        (lambda case: case.wide, _TRIO_PARTIES, _TRIO),
    ),
    "full": tuple((lambda _case: True, *part) for part in ((_PAIRS, _PAIR), (_PAIRS, _WIDE), (_TRIOS, _TRIO))),
}
"""By tier: the cases, the vendors and the topology of each part."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A cell that was asked for and is not run, with the reason."""

    cell: Cell
    reason: str
    kind: str = "unsupported"
    """``unsupported``: the backend cannot run it, an outcome; ``tier``, ``-x``: not in this run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of a run."""

    cells: tuple[Cell, ...]
    excluded: tuple[Excluded, ...]

    @property
    def unsupported(self) -> list[Excluded]:
        """Cells that the backend cannot run."""
        return [e for e in self.excluded if e.kind == "unsupported"]


class NothingSelected(UsageError):
    """A selector picks nothing that a run could consist of."""


def cells_of(tier: str, topologies: Sequence[Topology] = (), parties: Sequence[tuple[str, ...]] = ()) -> list[Cell]:
    """The cells of a tier; with ``topologies`` or ``parties``, every case on exactly these instead.

    Raises:
        UsageError: the number of parties is not the topology's number of clients.
    """
    if topologies or parties:
        return list(_chosen(topologies, parties))
    return [
        cell
        for belongs, vendors, topology in _TIERS[tier]
        for cell in _cells([case for case in CASES.values() if belongs(case)], vendors, topology)
    ]


def _chosen(topologies: Sequence[Topology], parties: Sequence[tuple[str, ...]]) -> Iterator[Cell]:
    cases = list(CASES.values())
    if not topologies:
        topologies = [parse_topology("+".join(["1x2"] * n)) for n in sorted({len(p) for p in parties})]
    for topology in topologies:
        n = len(topology.clients)
        fitting = [p for p in parties if len(p) == n]
        if parties and not fitting:
            raise UsageError(
                f"topology {topology} has {n} clients; name as many parties, such as {'+'.join(['pure'] * n)}"
            )
        if not fitting:
            # A large topology has thousands of ordered tuples: take one with every vendor.
            fitting = (
                list(itertools.product(VENDORS, repeat=n))
                if n <= 2
                else [tuple(itertools.islice(itertools.cycle(VENDORS), n))]
            )
        yield from _cells(cases, fitting, topology)


def _cells(cases: Sequence[Case], parties: Sequence[tuple[str, ...]], topology: Topology) -> Iterator[Cell]:
    for vendors in parties:
        for case in cases:
            for variant in case.variants:
                yield Cell(case, vendors, topology, variant)


def make_plan(cells: Sequence[Cell], backend: Backend) -> Plan:
    """Part the cells that the backend can run from those that it cannot."""
    reasons = {str(c.topology): backend.supports(c.topology) for c in cells}
    return Plan(
        tuple(c for c in cells if not reasons[str(c.topology)]),
        tuple(Excluded(c, reasons[str(c.topology)]) for c in cells if reasons[str(c.topology)]),
    )


def choose(
    backend: Backend,
    *,
    tier: str = DEFAULT_TIER,
    topologies: Sequence[Topology] = (),
    parties: Sequence[tuple[str, ...]] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Plan:
    """Choose the cells of the tier that the selectors pick, with the reason for each exclusion.

    A cell that a selector names by its id or hash need not belong to the tier.

    Raises:
        NothingSelected: a selector of ``include`` picks no cell, or only cells beyond the tier.
        UsageError: a selector is malformed.
    """
    for selector in (*include, *exclude):
        check_selector(selector)
    mine = cells_of(tier, topologies, parties)
    every = dict.fromkeys([*mine, *_named(include), *cells_of("full", topologies, parties)])
    beyond = set(every) - set(mine)
    for selector in include:
        _check_found(selector, [c for c in every if matches(c, selector)], beyond, tier)
    beyond -= {cell for cell in beyond if _matches_any(cell, [s for s in include if is_literal(s)])}
    cells, excluded = [], []
    for cell in (c for c in every if not include or _matches_any(c, include)):
        reason = _reason(cell, exclude, f"not in tier {tier}" if cell in beyond else "")
        if reason is None:
            cells.append(cell)
        else:
            excluded.append(reason)
    plan = make_plan(cells, backend)
    return Plan(plan.cells, (*plan.excluded, *excluded))


def _reason(cell: Cell, exclude: Sequence[str], beyond: str) -> Excluded | None:
    """Return why this run leaves the cell out, or None; ``beyond``: a reason by its tier."""
    unwanted = next((s for s in exclude if matches(cell, s)), None)
    if unwanted is not None:
        return Excluded(cell, f"-x {unwanted}", "-x")
    return Excluded(cell, beyond, "tier") if beyond else None


def _check_found(selector: str, found: Sequence[Cell], beyond: set[Cell], tier: str) -> None:
    """NothingSelected: the selector picks no cell, or only cells beyond the tier by a glob."""
    if not found:
        raise NothingSelected(f"nothing to run: no cell is {selector!r}; 'impilab plan' shows what there is")
    if beyond.issuperset(found) and not is_literal(selector):
        raise NothingSelected(f"nothing to run: {selector!r} is not in tier {tier}; write --tier full")


def _matches_any(cell: Cell, selectors: Sequence[str]) -> bool:
    return any(matches(cell, selector) for selector in selectors)


def _named(selectors: Sequence[str]) -> Iterator[Cell]:
    """The cells whose ids are among the selectors, in whatever tier or none."""
    for selector in selectors:
        with contextlib.suppress(UsageError):
            yield parse_cell(selector)
