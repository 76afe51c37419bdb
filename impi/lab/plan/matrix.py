"""The cells of a run, and the reasons for leaving out the others.

:func:`choose` lists the cells of the tier (:mod:`.tier_parts`, :mod:`.listed_cells`) and those of
tier ``full``, and applies the selectors. :func:`make_plan` then asks backend and vendors. No cell
disappears: each of tier ``full`` is either run or excluded with one sentence, so that a shorter
matrix never looks like a better one.
"""

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
from impi.lab.nodes import (
    ON_LOOPBACK,
    Backend,
    Topology,
    core_vendors,
    is_remote,
    parse_topology,
)
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, ON_SWARM
from impi.lab.nodes.ways import CASE as WITH_WAYS
from impi.lab.nodes.ways import WAYS
from impi.lab.plan.cell import (
    Cell,
    check_selector,
    is_literal,
    matches,
    parse_cell,
    picks,
)
from impi.lab.plan.listed_cells import fault_cells, needs_network, soak_cells
from impi.lab.plan.native_cells import beyond_natives
from impi.lab.plan.tier_parts import PAIR, parts_of
from impi.lab.plan.variant import join

TIERS: Final = (
    "smoke",
    "core",
    "pairs",
    "versions",
    "natives",
    "net",
    "faults",
    "abi",
    "soak",
    "full",
)
"""``smoke``: two mixed pairs, few cases; ``core``: the default, in a few minutes; ``pairs``: all
cases on every ordered pair, with those for several nodes; ``versions``: every further version of a
vendor beside the vendors of core; ``natives``: MPIs that speak IMPI themselves, beside the vendors
of core and each other; ``net``: bad networks; ``faults``: the fault matrix; ``abi``: programs in C,
compiled for each ABI; ``soak``: many messages or accesses for long; ``full``: all cases on all.
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
    # ``2/3``: it is the second of three parts, of a plan with the cells ``whole``
    shard: str = ""
    whole: tuple[str, ...] = ()

    @property
    def unsupported(self) -> list[Excluded]:
        return [e for e in self.excluded if e.kind == "unsupported"]


class NothingSelected(UsageError):
    """A selector picks nothing that a run could consist of."""


def cells_of(
    tier: str,
    topologies: Sequence[Topology] = (),
    parties: Sequence[tuple[str, ...]] = (),
    *,
    guest: str = "",
) -> list[Cell]:
    """Return the cells of a tier; with ``topologies`` or ``parties``, every case on these instead.

    ``guest``: a vendor that joins those of the tier; then only its cells.

    Raises:
        UsageError: the number of parties is not the topology's number of clients.
    """

    # Soaks take long: they come by their tier or their id only.
    if topologies or parties:
        # With topologies or parties of the user's, the tier does not
        # choose: all cases run on them.
        return list(_chosen(topologies, parties, _cases_without("soak")))

    # Cells with faults and soaks are listed one by one, and come behind the others.
    every = _cases_without("soak", "fault")
    cells = [
        cell
        for part in parts_of(tier, guest)
        for cell in _cells(
            list(filter(part.cases.has, every)),
            part.parties,
            part.topology,
            part.variant,
        )
        # Cases about networks have a cell for each bad network: most tiers
        # take a few of them.
        if "network" not in cell.case.tags or _is_due(cell, tier)
    ]

    return [
        cell
        for cell in (*cells, *fault_cells(tier), *soak_cells(tier))
        if not guest or guest in cell.vendors
    ]


def _cases_without(*tags: str) -> list[Case]:
    """Return the cases with none of these tags; cells of tagged cases are listed one by one."""
    return [case for case in CASES.values() if not set(tags).intersection(case.tags)]


def _is_due(cell: Cell, tier: str) -> bool:
    """Whether a tier has this cell on a bad network: there are many, and each takes long."""

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
    """Return the cells of one case; by default on every ordered pair of core's vendors.

    ``more``: settings of the variant of each.

    Raises:
        UsageError: the number of parties is not the topology's number of clients.
    """
    return _extended(
        list(_chosen(topologies or ([] if parties else [PAIR]), parties, [case])), more
    )


def _chosen(
    topologies: Sequence[Topology],
    parties: Sequence[tuple[str, ...]],
    cases: Sequence[Case],
) -> Iterator[Cell]:
    if not topologies:
        # Two procs a client, the least with which its library's own transport is used.
        topologies = [
            parse_topology("+".join(["1x2"] * n))
            for n in sorted({len(p) for p in parties})
        ]

    # Topologies and parties need not fit each other: each topology
    # takes those of its size.
    for topology in topologies:
        n = len(topology.clients)

        fitting = [p for p in parties if len(p) == n]
        # Else default parties would run in place of those that were asked for.
        if parties and not fitting:
            raise UsageError(
                f"topology {topology} has {n} clients; name as many parties, such as {'+'.join(['pure'] * n)}"
            )

        if not fitting:
            fitting = _parties_of(n)

        yield from _cells(cases, fitting, topology)


def _parties_of(count: int) -> list[tuple[str, ...]]:
    """Return every ordered pair; of more clients, tuples that together have every vendor.

    All tuples would be too many labs: three clients of n vendors have n cubed.
    """

    core = core_vendors()
    if count <= 2:
        return list(itertools.product(core, repeat=count))

    # Rounded up to whole tuples, so the last one is filled from the
    # beginning of the list.
    needed = -(-len(core) // count) * count
    flat = list(itertools.islice(itertools.cycle(core), needed))

    return [tuple(flat[start : start + count]) for start in range(0, needed, count)]


def _cells(
    cases: Sequence[Case],
    parties: Sequence[tuple[str, ...]],
    topology: Topology,
    more: str = "",
) -> Iterator[Cell]:
    for chosen in parties:
        for case in cases:
            for variant in case.variants:
                yield Cell(
                    case, chosen, topology, ",".join(filter(None, (variant, more)))
                )


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

    # Once for each kind of lab: thousands of cells share a few.
    shapes = {
        (c.topology, c.vendors): backend.supports(c.topology, c.vendors) for c in cells
    }
    # To try a network takes a container, so only if some cell needs one.
    no_network = (
        backend.no_network() if any(_needs_network(c, backend) for c in cells) else ""
    )

    machines = {
        v: _no_machine(v, backend) for v in {v for c in cells for v in c.vendors}
    }

    def reason_of(cell: Cell) -> str:
        network = no_network if _needs_network(cell, backend) else ""
        beyond = _why_no_implementation(cell) or beyond_natives(cell, backend.name)
        beyond = beyond or _beyond_one(cell, backend)
        beyond = beyond or next(filter(None, map(machines.get, cell.vendors)), "")

        # The first reason that applies is told: what no setting can cure comes first.
        return (
            shapes[cell.topology, cell.vendors]
            or network
            or beyond
            or ("" if prove else declared(cell))
        )

    reasons = [(cell, reason_of(cell)) for cell in cells]

    return Plan(
        tuple(cell for cell, reason in reasons if not reason),
        tuple(Excluded(cell, reason) for cell, reason in reasons if reason),
    )


def _why_no_implementation(cell: Cell) -> str:
    """Return why no implementation of IMPI can run this cell; empty: one can."""

    if (abi := cell.settings.get("abi")) is not None:
        if not cell.case.twin:
            return f"{cell.case.name} has no program in C"

        if abi != "standard" and abi not in {
            vendor.partition("@")[0] for vendor in cell.vendors
        }:
            return (
                f"abi={abi} takes the mpi.h of a vendor of the cell, and none is {abi}"
            )

    if (way := cell.settings.get("behind")) is not None:
        if "abi" not in cell.settings:
            return f"behind={way} is for compiled programs: Python finds impi by its own variables"

        if WAYS[way].files and cell.case.name != WITH_WAYS:
            return f"behind={way} has a program for {WITH_WAYS} alone"

    if (kind := cell.settings.get("hosts")) is not None and "connect" in cell.settings:
        return f"hosts={kind} has few channels, and makes them at the start: connect=lazy is for procs"

    return _beyond_reach(cell, cell.settings.get("reach", ""))


def _beyond_one(cell: Cell, backend: Backend) -> str:
    """Return why one command cannot start this cell here; empty: it can, or need not."""

    settings, reason = cell.settings, ""
    if settings.get("start") != "one":
        return reason

    fault = settings.get("fault", "")
    if backend.name == "docker" or backend.name.startswith(
        (ON_HOSTS, ON_SWARM, ON_KUBERNETES)
    ):
        reason = "start=one needs --backend local, as all clients run on the machine of the server"
    elif fault.startswith(("kill-server", "freeze-server")):
        reason = "one command starts all clients, so no process would be left to report its end"
    elif fault.endswith("@early"):
        reason = "one command starts all clients, and this fault comes before the last client starts"
    elif settings.get("auth") in ("wrong", "apart"):
        reason = "one command has one secret for all clients"
    elif any(map(is_remote, cell.vendors)):
        reason = "one command starts all clients, and one party is remote"

    return reason


def _beyond_reach(cell: Cell, reach: str) -> str:
    """Return why no job can run where nodes reach each other so; empty: one can."""
    match reach:
        case "routed" | "nat" if cell.six:
            return "the lab's gateways route IPv4"
        case "relay" if cell.settings.get("auth") != "challenge":
            return (
                "a relay needs a secret, and hosts behind it do not connect from the address that they"
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
    # On loopback all nodes have the second address anyway.
    if "source" in cell.settings and backend.name != ON_LOOPBACK:
        return True

    return not cell.settings.keys().isdisjoint(("ip", "reach", "net")) or (
        fault is not None and needs_network(fault)
    )


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

    # The cells of ``full`` are listed, too: a selector beyond the tier is then told so.
    mine = _extended(cells_of(tier, topologies, parties, guest=guest), more)
    full = _extended(cells_of("full", topologies, parties, guest=guest), more)
    # The cells of the tier come first, so that they keep its order.
    every = dict.fromkeys([*mine, *_named(include), *full])

    # Beyond: cells of tier full, or named by id, that this tier lacks.
    beyond = set(every) - set(mine)
    for selector in include:
        _check_found(selector, [c for c in every if picks(c, selector)], beyond, tier)

    # A cell that is written out by id or hash is wanted, in whatever tier.
    beyond -= {
        cell
        for cell in beyond
        if _matches_any(cell, [s for s in include if is_literal(s)])
    }

    cells, excluded = [], []
    # Without a selector everything is meant, also what is then excluded by its tier.
    for cell in (c for c in every if not include or _matches_any(c, include)):
        reason = _reason(cell, exclude, f"not in tier {tier}" if cell in beyond else "")
        if reason is None:
            cells.append(cell)
        else:
            excluded.append(reason)

    # Only chosen cells are put before backend and vendors. The others
    # have their reason already.
    plan = make_plan(cells, backend, prove=prove)

    return Plan(plan.cells, (*plan.excluded, *excluded))


def _extended(cells: Sequence[Cell], more: Mapping[str, str]) -> list[Cell]:
    """Return the cells with further settings; a fault is only for cases that have its phases."""

    if not more:
        return list(cells)

    # A cell with a value of its own for a setting is left out: its case is about that value.
    kept = [cell for cell in cells if cell.settings.keys().isdisjoint(more)]
    if "fault" in more:
        kept = [cell for cell in kept if "network" in cell.case.tags]

    return [replace(cell, variant=join(cell.variant, more)) for cell in kept]


def _reason(cell: Cell, exclude: Sequence[str], beyond: str) -> Excluded | None:
    """Return the exclusion of a cell from this run, or None; ``beyond``: a reason by its tier."""
    # The user's own exclusion is told before the tier's.
    unwanted = next((s for s in exclude if matches(cell, s)), None)
    if unwanted is not None:
        return Excluded(cell, f"-x {unwanted}", "-x")

    return Excluded(cell, beyond, "tier") if beyond else None


def _nearest_names(selector: str) -> str:
    """Return a hint with the nearest existing names, to end a sentence; empty: none is near."""

    case, *rest = selector.split("/")
    parts = [
        [case],
        *(
            [part.partition("@")[0] for part in parties.split("+")]
            for parties in rest[:1]
        ),
    ]

    meant = selector
    # Only the first two components have known names; topologies and variants are built.
    for words, known in zip(parts, (CASES, names()), strict=False):
        for word in words:
            if word not in known and not set("*?[@") & set(word):
                meant = meant.replace(word, nearest(word, known) or word)

    return f"; did you mean {meant!r}?" if meant != selector else ""


def _check_found(
    selector: str, found: Sequence[Cell], beyond: set[Cell], tier: str
) -> None:
    """Raise NothingSelected: the selector picks no cell, or only cells beyond the tier."""
    # Nothing at all: most often a typing error, so look for near names.
    if not found:
        shown = f"no cell is {selector!r}; 'impilab plan' shows what there is{_nearest_names(selector)}"
        raise NothingSelected(f"nothing to run: {shown}")

    # Cells exist, but not in this tier. Naming one by id is wish enough.
    if beyond.issuperset(found) and not is_literal(selector):
        raise NothingSelected(
            f"nothing to run: {selector!r} is not in tier {tier}; write --tier full"
        )


def _matches_any(cell: Cell, selectors: Sequence[str]) -> bool:
    return any(picks(cell, selector) for selector in selectors)


def _named(selectors: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells whose ids are among the selectors, of any tier or of none."""
    for selector in selectors:
        # A selector with globs is not an id, and is applied elsewhere.
        with contextlib.suppress(UsageError):
            yield parse_cell(selector)
