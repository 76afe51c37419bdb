"""Which cells a run consists of, and why the others are left out."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from impi.errors import UsageError
from impi.manifests import machine_of, manifest, vendors
from impi.testbed.cases import CASES, Case
from impi.testbed.cases.network_faults import OFTEN, ONLY_WIDE
from impi.testbed.lab.compiled_programs import ABIS
from impi.testbed.lab.interface import Backend
from impi.testbed.lab.lab_topology import Topology, parse_topology
from impi.testbed.lab.parties import core_vendors
from impi.testbed.plan.cell import Cell, check_selector, is_literal, matches, parse_cell, picks
from impi.testbed.plan.fault_cells import fault_cells, needs_network
from impi.testbed.plan.native_cells import beyond_natives
from impi.testbed.plan.soak_cells import soak_cells
from impi.testbed.plan.variant import join

TIERS: Final = ("smoke", "core", "pairs", "versions", "natives", "net", "faults", "abi", "soak", "full")
"""``smoke``: two mixed pairs, few cases; ``core``: the default, in a few minutes; ``pairs``: all
cases on every ordered pair, with those for several nodes; ``versions``: every further version of a
vendor beside the vendors of core; ``natives``: MPIs that speak IMPI themselves, beside the vendors
of core and each other; ``net``: bad networks; ``faults``: the fault matrix; ``abi``: programs in C,
compiled for each ABI; ``soak``: many messages for long; ``full``: all cases on all.
"""
DEFAULT_TIER: Final = "core"
_NOTHING: Final[Mapping[str, str]] = {}

_PAIR: Final = parse_topology("1x2+1x2")
_WIDE: Final = parse_topology("2x2+2x2")
_TRIO: Final = parse_topology("1x2+1x2+1x2")
_LINE: Final = parse_topology("1x1+1x1+1x1+1x1+1x1+1x1")
_FIVE: Final = parse_topology("1x2+1x2+1x2+1x2+1x2")
_Part = tuple[Callable[[Case], bool], Sequence[tuple[str, ...]], Topology]


@functools.cache
def _parts(tier: str, guest: str = "") -> Sequence[_Part]:
    """The cases, the vendors and the topology of each part of a tier, a guest among its vendors."""
    guests = (guest,) if guest else ()
    core = tuple(dict.fromkeys((*core_vendors(), *guests)))
    every = tuple(dict.fromkeys((*(each.name for each in vendors("pairs")), *guests)))
    pairs, trios = tuple(itertools.product(every, repeat=2)), tuple(itertools.permutations(every, 3))
    neighbours = tuple(itertools.pairwise(core))
    match tier:
        case "smoke":
            return ((lambda case: case.smoke, neighbours, _PAIR),)
        case "core":
            return (
                # Cases for every pair run in both orders, the rest once for each unordered pair.
                (lambda case: case.wide, tuple(itertools.product(core, repeat=2)), _PAIR),
                (lambda case: case.core and not case.wide, tuple(itertools.combinations(core, 2)), _PAIR),
                (lambda case: case.once, neighbours[-1:], _PAIR),
                (lambda case: case.wide, neighbours[-1:], _WIDE),
                (lambda case: case.wide and case.smoke, ((core[-1], core[0]),), _WIDE),
                (lambda case: case.wide or case.trio, tuple(itertools.combinations(core, 3)), _TRIO),
            )
        case "pairs":
            return (
                (lambda _case: True, pairs, _PAIR),
                (lambda case: case.nodes or case.wide, pairs, _WIDE),
                (lambda case: case.wide or case.trio, tuple(itertools.combinations(every, 3)), _TRIO),
            )
        case "versions":
            return (
                (lambda case: case.wide, _versions(core), _PAIR),
                (lambda case: case.wide and case.smoke, _versions(core[-1:]), _WIDE),
            )
        case "net" | "natives" | "abi" | "faults" | "soak":
            several = (core[:1] * 2, *itertools.combinations(core, 2))
            of_networks = ((_of_networks, several, _PAIR), (_of_networks, several, _WIDE))
            return {"net": of_networks, "natives": _natives(core)}.get(tier, ())
        case _:
            return tuple((lambda _case: True, *part) for part in ((pairs, _PAIR), (pairs, _WIDE), (trios, _TRIO)))


def _is_compiled(case: Case) -> bool:
    return bool(case.twin)


def _with(abi: str, parties: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """Return the parties that have the header of an ABI."""
    return parties if abi == "standard" else tuple(each for each in parties if abi in each)


def _of_networks(case: Case) -> bool:
    return "network" in case.tags


def _natives(core: Sequence[str]) -> Sequence[_Part]:
    """Every MPI that speaks IMPI itself with each vendor of the default tier, and each other."""
    natives = [each.name for each in vendors() if each.kind == "native"]
    with_one = [pair for native in natives for other in core for pair in ((native, other), (other, native))]
    with_two: list[tuple[str, ...]] = [(native, *core[:2]) for native in natives]
    last: list[tuple[str, ...]] = [(*core[:2], native) for native in natives]
    return (
        (lambda _case: True, (*with_one, *itertools.product(natives, repeat=2)), _PAIR),
        (lambda case: case.wide, tuple((native, core[0]) for native in natives), _WIDE),
        (lambda case: case.wide or "reduction" in case.tags, with_two, _TRIO),
        # What is right for few clients need not be for a root in last place, or in trees.
        (lambda case: "reduction" in case.tags, last, _TRIO),
        (lambda case: case.name == "coll.barrier", [_at(n, i, core[0]) for n in natives for i in (0, 1)], _FIVE),
    )


def _at(native: str, place: int, other: str) -> tuple[str, ...]:
    """Five clients; a native one in the first place is the root of trees, in the second a node."""
    return tuple(native if client == place else other for client in range(5))


def _versions(beside: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Every further version of a vendor with each vendor of ``beside``, in both orders."""
    further = [f"{each.name}@{name}" for each in vendors() for name in each.versions]
    return tuple(pair for version in further for other in beside for pair in ((version, other), (other, version)))


_Varied = tuple[Callable[[Case], bool], Sequence[tuple[str, ...]], Topology, str]


@functools.cache
def _varied(tier: str) -> Sequence[_Varied]:
    """Further parts of a tier: in the form that users run, with --hosts, of many clients."""
    core = core_vendors()
    unordered, one = tuple(itertools.combinations(core, 2)), tuple(itertools.pairwise(core))[-1:]
    six = (tuple(itertools.islice(itertools.cycle(core), 6)),)
    match tier:
        case "core":
            return (
                (_moves_data, unordered, _PAIR, "form=native"),
                (_is_routed, one, _WIDE, "hosts=node"),
                (_is_routed, unordered[:1], _WIDE, "hosts=client"),
                (_is_routed, unordered, _PAIR, "connect=lazy"),
            )
        case "abi":
            pairs, trio = tuple(itertools.product(core, repeat=2)), tuple(itertools.combinations(core, 3))
            return tuple(
                part
                for abi in ABIS
                for part in (
                    (_is_compiled, _with(abi, pairs), _PAIR, f"abi={abi}"),
                    (_is_compiled, _with(abi, trio), _TRIO, f"abi={abi}"),
                )
            )
        case "pairs" | "full":
            return (
                (lambda case: case.wide or _moves_data(case), unordered, _PAIR, "form=native"),
                (_is_routed, unordered, _WIDE, "hosts=node"),
                (_is_routed, unordered, _WIDE, "hosts=client"),
                (_is_routed, tuple(itertools.product(core, repeat=2)), _PAIR, "connect=lazy"),
                (_is_routed, unordered, _WIDE, "connect=lazy"),
                # Beyond four clients collectives are trees (IMPI 4.10 to 4.16).
                (lambda case: case.wide or "collective" in case.tags, six, _LINE, ""),
            )
        case _:
            return ()


def _all_parts(tier: str, guest: str) -> Iterator[_Varied]:
    """Both kinds of parts."""
    yield from ((*part, "") for part in _parts(tier, guest))
    yield from _varied(tier)


def _moves_data(case: Case) -> bool:
    """Cases for the native form, which is impirun's default: data of every kind, by every way."""
    return case.name in ("p2p.ring", "p2p.types", "coll.all", "coll.sizes")


def _is_routed(case: Case) -> bool:
    """Cases for --hosts and --lazy: other channels than those of the dance."""
    return case.name in ("p2p.ring", "p2p.sizes", "coll.all", "comm.split")


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
        for belongs, parties_of_part, topology, variant in _all_parts(tier, guest)
        for cell in _cells([case for case in every if belongs(case)], parties_of_part, topology, variant)
        if not _of_networks(cell.case) or _is_due(cell, tier)
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
    return _extended(list(_chosen(topologies or ([] if parties else [_PAIR]), parties, [case])), more)


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
    no_network = backend.no_network() if any(_needs_network(c) for c in cells) else ""

    machines = {v: _no_machine(v, backend) for v in {v for c in cells for v in c.vendors}}

    def reason_of(cell: Cell) -> str:
        network = no_network if _needs_network(cell) else ""
        beyond = _beyond(cell) or beyond_natives(cell, backend.name)
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
    if (kind := cell.settings.get("hosts")) is not None and "connect" in cell.settings:
        return f"hosts={kind} has few channels, and makes them at the start: connect=lazy is for procs"
    return _beyond_reach(cell, cell.settings.get("reach", ""))


def _beyond_reach(cell: Cell, reach: str) -> str:
    """Why no job can run where nodes reach each other so; empty: one can."""
    match reach:
        case "routed" | "nat" if cell.six:
            return "the lab's gateways route IPv4"
        case "nat" if cell.settings.get("auth") != "challenge":
            return (
                "IMPI 0.0 knows a host by the address that it comes from (2.3.8), and behind NAT that is another one:"
                " auth=challenge proves it"
            )
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


def _needs_network(cell: Cell) -> bool:
    fault = cell.settings.get("fault")
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
    kept = [c for c in cells if c.settings.keys().isdisjoint(more) and ("fault" not in more or _of_networks(c.case))]
    return [replace(cell, variant=join(cell.variant, more)) for cell in kept]


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
    return any(picks(cell, selector) for selector in selectors)


def _named(selectors: Sequence[str]) -> Iterator[Cell]:
    """The cells whose ids are among the selectors, in whatever tier or none."""
    for selector in selectors:
        with contextlib.suppress(UsageError):
            yield parse_cell(selector)
