"""Which cells a run consists of, and why the others are left out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from impi.base.errors import UsageError, nearest
from impi.base.manifests import machine_of, manifest, names
from impi.lab.cases import CASES, Case
from impi.lab.cases.ends.network_faults import OFTEN, ONLY_WIDE
from impi.lab.nodes import ON_LOOPBACK, Backend, Topology, core_vendors, is_remote, parse_topology
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, ON_SWARM
from impi.lab.plan.cell import Cell, check_selector, is_literal, matches, parse_cell, picks
from impi.lab.plan.listed_cells import fault_cells, needs_network, soak_cells
from impi.lab.plan.native_cells import beyond_natives
from impi.lab.plan.tier_parts import PAIR, parts_of
from impi.lab.plan.variant import join

TIERS: Final = ("smoke", "core", "pairs", "versions", "natives", "net", "faults", "abi", "soak", "full")
"""``smoke``: two mixed pairs, few cases; ``core``: the default, in a few minutes; ``pairs``: all
cases on every ordered pair, with those for several nodes; ``versions``: every further version of a
vendor beside the vendors of core; ``natives``: MPIs that speak IMPI themselves, beside the vendors
of core and each other; ``net``: bad networks; ``faults``: the fault matrix; ``abi``: programs in C,
compiled for each ABI; ``soak``: many messages for long; ``full``: all cases on all.
"""
DEFAULT_TIER: Final = "core"
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Excluded:
    """A cell that was asked for and is not run, with the reason."""

    cell: Cell
    reason: str
    # ``unsupported``: the backend cannot run it, an outcome; ``tier``, ``-x``: not in this run.
    kind: str = "unsupported"


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of a run."""

    cells: tuple[Cell, ...]
    excluded: tuple[Excluded, ...]

    @property
    def unsupported(self) -> list[Excluded]:
        return [e for e in self.excluded if e.kind == "unsupported"]


class NothingSelected(UsageError):
    """A selector picks nothing that a run could consist of."""


def cells_of(
    tier: str, topologies: Sequence[Topology] = (), parties: Sequence[tuple[str, ...]] = (), *, guest: str = ""
) -> list[Cell]:
    """The cells of a tier; with ``topologies`` or ``parties``, every case on exactly these instead.

    ``guest``: a vendor that joins those of the tier; then only its cells.

    Raises:
        UsageError: the number of parties is not the topology's number of clients.
    """
    if topologies or parties:
        return list(_chosen(topologies, parties, _cases_without("soak")))
    every = _cases_without("soak", "fault")
    cells = [
        cell
        for part in parts_of(tier, guest)
        for cell in _cells(list(filter(part.cases.has, every)), part.parties, part.topology, part.variant)
        if "network" not in cell.case.tags or _is_due(cell, tier)
    ]
    return [cell for cell in (*cells, *fault_cells(tier), *soak_cells(tier)) if not guest or guest in cell.vendors]


def _cases_without(*tags: str) -> list[Case]:
    """The cases that have none of the tags, whose cells are listed one by one."""
    return [case for case in CASES.values() if not set(tags).intersection(case.tags)]


def _is_due(cell: Cell, tier: str) -> bool:
    """Whether a tier has this cell of networks: there are many, and they take long."""
    wide = max(shape.nodes for shape in cell.topology.clients) > 1
    if cell.variant in ONLY_WIDE:
        return wide and tier in ("net", "abi", "full")
    if tier in ("net", "abi", "full"):
        return tier == "full" or not wide
    pairs: list[tuple[str, ...]] = list(itertools.combinations(core_vendors(), 2))
    return not cell.variant or (cell.variant in OFTEN and cell.vendors in pairs)


def cells_of_case(
    case: Case,
    topologies: Sequence[Topology] = (),
    parties: Sequence[tuple[str, ...]] = (),
    more: Mapping[str, str] = _NOTHING,
) -> list[Cell]:
    """The cells of one case; by default on every ordered pair of core's vendors.

    ``more``: settings of the variant of each.

    Raises:
        UsageError: the number of parties is not the topology's number of clients.
    """
    return _extended(list(_chosen(topologies or ([] if parties else [PAIR]), parties, [case])), more)


def _chosen(
    topologies: Sequence[Topology], parties: Sequence[tuple[str, ...]], cases: Sequence[Case]
) -> Iterator[Cell]:
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
            fitting = _parties_of(n)
        yield from _cells(cases, fitting, topology)


def _parties_of(count: int) -> list[tuple[str, ...]]:
    """Return every ordered pair; of more clients, tuples that together have every vendor."""
    core = core_vendors()
    if count <= 2:
        return list(itertools.product(core, repeat=count))
    needed = -(-len(core) // count) * count
    flat = list(itertools.islice(itertools.cycle(core), needed))
    return [tuple(flat[start : start + count]) for start in range(0, needed, count)]


def _cells(
    cases: Sequence[Case], parties: Sequence[tuple[str, ...]], topology: Topology, more: str = ""
) -> Iterator[Cell]:
    for chosen in parties:
        for case in cases:
            for variant in case.variants:
                yield Cell(case, chosen, topology, ",".join(filter(None, (variant, more))))


def declared(cell: Cell) -> str:
    """Return why a vendor of the cell declares it unsupported; empty where none does."""
    for vendor in cell.vendors:
        known = manifest(vendor)
        if known.kind == "native" and cell.case.twin:
            continue  # its program in C was written for what the vendor can do
        for row in known.unsupported:
            if matches(cell, row.cells):
                return f"{vendor} declares: {row.reason}"
    return ""


def make_plan(cells: Sequence[Cell], backend: Backend, *, prove: bool = False) -> Plan:
    """Part the cells that backend and vendors can run from those that they cannot.

    ``prove``: the cells to run are those that a vendor declares unsupported.
    """
    if prove:
        cells = [cell for cell in cells if declared(cell)]
    shapes = {(c.topology, c.vendors): backend.supports(c.topology, c.vendors) for c in cells}
    no_network = backend.no_network() if any(_needs_network(c, backend) for c in cells) else ""

    machines = {v: _no_machine(v, backend) for v in {v for c in cells for v in c.vendors}}

    def reason_of(cell: Cell) -> str:
        network = no_network if _needs_network(cell, backend) else ""
        beyond = _beyond(cell) or beyond_natives(cell, backend.name)
        beyond = beyond or _beyond_one(cell, backend)
        beyond = beyond or next(filter(None, map(machines.get, cell.vendors)), "")
        return shapes[cell.topology, cell.vendors] or network or beyond or ("" if prove else declared(cell))

    reasons = [(cell, reason_of(cell)) for cell in cells]
    return Plan(
        tuple(cell for cell, reason in reasons if not reason),
        tuple(Excluded(cell, reason) for cell, reason in reasons if reason),
    )


def _beyond(cell: Cell) -> str:
    """Why no implementation of IMPI can run this cell; empty: one can."""
    if (abi := cell.settings.get("abi")) is not None:
        if not cell.case.twin:
            return f"{cell.case.name} has no program in C"
        if abi != "standard" and abi not in {vendor.partition("@")[0] for vendor in cell.vendors}:
            return f"abi={abi} takes the mpi.h of a vendor of the cell, and none is {abi}"
    if "behind" in cell.settings and "abi" not in cell.settings:
        return "behind=script is for compiled programs: Python finds impi by its own variables"
    if (kind := cell.settings.get("hosts")) is not None and "connect" in cell.settings:
        return f"hosts={kind} has few channels, and makes them at the start: connect=lazy is for procs"
    return _beyond_reach(cell, cell.settings.get("reach", ""))


def _beyond_one(cell: Cell, backend: Backend) -> str:
    """Why one command cannot start this cell here; empty: it can, or need not."""
    settings, reason = cell.settings, ""
    if settings.get("start") != "one":
        return reason
    fault = settings.get("fault", "")
    if backend.name == "docker" or backend.name.startswith((ON_HOSTS, ON_SWARM, ON_KUBERNETES)):
        reason = "start=one is for clients on the machine of the server: it needs --backend local"
    elif fault.startswith(("kill-server", "freeze-server")):
        reason = "one command starts all clients, and nobody is left who could tell of its end"
    elif fault.endswith("@early"):
        reason = "one command starts all clients, and this fault comes before the last one"
    elif settings.get("auth") in ("wrong", "apart"):
        reason = "one command has one secret for all clients"
    elif any(map(is_remote, cell.vendors)):
        reason = "one command starts all clients, and one party is remote"
    return reason


def _beyond_reach(cell: Cell, reach: str) -> str:
    """Why no job can run where nodes reach each other so; empty: one can."""
    match reach:
        case "routed" | "nat" if cell.six:
            return "the lab's gateways route IPv4"
        case "relay" if cell.settings.get("auth") != "challenge":
            return (
                "a relay is for those who know a secret, and hosts behind it do not come from the address that they"
                " advertise: auth=challenge proves both"
            )
        case "port" if cell.settings.get("hosts") is None:
            return "each proc listens for other clients, and one port is open: hosts=client makes one listener of them"
        case "heads" if cell.settings.get("hosts") != "client":
            return (
                "IMPI wants a channel between every two hosts (2.3.8), and only the first node of a client reaches"
                " others: hosts=client makes it the only host"
            )
    return ""


def _no_machine(vendor: str, backend: Backend) -> str:
    machine = machine_of(vendor)
    return backend.no_machine(machine) if machine else ""


def _needs_network(cell: Cell, backend: Backend) -> bool:
    fault = cell.settings.get("fault")
    if "source" in cell.settings and backend.name != ON_LOOPBACK:
        return True
    return not cell.settings.keys().isdisjoint(("ip", "reach", "net")) or (fault is not None and needs_network(fault))


def choose(
    backend: Backend,
    *,
    tier: str = DEFAULT_TIER,
    topologies: Sequence[Topology] = (),
    parties: Sequence[tuple[str, ...]] = (),
    guest: str = "",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    prove: bool = False,
    more: Mapping[str, str] = _NOTHING,
) -> Plan:
    """Choose the cells of the tier that the selectors pick, with the reason for each exclusion.

    A cell that a selector names by its id or hash need not belong to the tier. ``guest``: see
    :func:`cells_of`. ``prove``: run only cells that a vendor declares unsupported. ``more``:
    settings that every cell's variant gets.

    Raises:
        NothingSelected: a selector of ``include`` picks no cell, or only cells beyond the tier.
        UsageError: a selector is malformed.
    """
    for selector in (*include, *exclude):
        check_selector(selector)
    mine = _extended(cells_of(tier, topologies, parties, guest=guest), more)
    full = _extended(cells_of("full", topologies, parties, guest=guest), more)
    every = dict.fromkeys([*mine, *_named(include), *full])
    beyond = set(every) - set(mine)
    for selector in include:
        _check_found(selector, [c for c in every if picks(c, selector)], beyond, tier)
    beyond -= {cell for cell in beyond if _matches_any(cell, [s for s in include if is_literal(s)])}
    cells, excluded = [], []
    for cell in (c for c in every if not include or _matches_any(c, include)):
        reason = _reason(cell, exclude, f"not in tier {tier}" if cell in beyond else "")
        if reason is None:
            cells.append(cell)
        else:
            excluded.append(reason)
    plan = make_plan(cells, backend, prove=prove)
    return Plan(plan.cells, (*plan.excluded, *excluded))


def _extended(cells: Sequence[Cell], more: Mapping[str, str]) -> list[Cell]:
    """The cells with further settings; a fault is only for cases that have its phases."""
    if not more:
        return list(cells)
    kept = [cell for cell in cells if cell.settings.keys().isdisjoint(more)]
    if "fault" in more:
        kept = [cell for cell in kept if "network" in cell.case.tags]
    return [replace(cell, variant=join(cell.variant, more)) for cell in kept]


def _reason(cell: Cell, exclude: Sequence[str], beyond: str) -> Excluded | None:
    """Return why this run leaves the cell out, or None; ``beyond``: a reason by its tier."""
    unwanted = next((s for s in exclude if matches(cell, s)), None)
    if unwanted is not None:
        return Excluded(cell, f"-x {unwanted}", "-x")
    return Excluded(cell, beyond, "tier") if beyond else None


def _meant(selector: str) -> str:
    """Return the end of the sentence: the selector with names that there are, if any are near."""
    case, *rest = selector.split("/")
    parts = [[case], *([part.partition("@")[0] for part in parties.split("+")] for parties in rest[:1])]
    meant = selector
    for words, known in zip(parts, (CASES, names()), strict=False):
        for word in words:
            if word not in known and not set("*?[@") & set(word):
                meant = meant.replace(word, nearest(word, known) or word)
    return f"; did you mean {meant!r}?" if meant != selector else ""


def _check_found(selector: str, found: Sequence[Cell], beyond: set[Cell], tier: str) -> None:
    """NothingSelected: the selector picks no cell, or only cells beyond the tier by a glob."""
    if not found:
        shown = f"no cell is {selector!r}; 'impilab plan' shows what there is{_meant(selector)}"
        raise NothingSelected(f"nothing to run: {shown}")
    if beyond.issuperset(found) and not is_literal(selector):
        raise NothingSelected(f"nothing to run: {selector!r} is not in tier {tier}; write --tier full")


def _matches_any(cell: Cell, selectors: Sequence[str]) -> bool:
    return any(picks(cell, selector) for selector in selectors)


def _named(selectors: Sequence[str]) -> Iterator[Cell]:
    """The cells whose ids are among the selectors, in whatever tier or none."""
    for selector in selectors:
        with contextlib.suppress(UsageError):
            yield parse_cell(selector)
