"""The parts of the tiers: which cases run on which parties and topology, as one table of data."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.base.manifests import vendors
from impi.lab.cases.case import Case, TierGroup
from impi.lab.nodes import Topology, core_vendors, parse_topology
from impi.lab.nodes.compiled_programs import ABIS
from impi.lab.nodes.ways import WAYS

PAIR: Final = parse_topology("1x2+1x2")
_COUPLE: Final = parse_topology("1x1+1x1")
_WIDE: Final = parse_topology("2x2+2x2")
_TRIO: Final = parse_topology("1x2+1x2+1x2")
_LINE: Final = parse_topology("1x1+1x1+1x1+1x1+1x1+1x1")
_FIVE: Final = parse_topology("1x2+1x2+1x2+1x2+1x2")

_Parties = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A selection of cases, by group, tag or name; with none of these all cases."""

    groups: tuple[TierGroup, ...] = ()
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    also: TierGroup | None = None  # a group to which each case must belong, too
    but: TierGroup | None = None  # a group to which no case may belong
    compiled: bool = False  # only cases with a program in C beside the one in Python

    def has(self, case: Case) -> bool:
        if (
            (self.also and self.also not in case.groups)
            or self.but in case.groups
            or (self.compiled and (not case.twin or _is_in_c_alone(case)))
        ):
            return False

        wanted = (*self.groups, *self.tags, *self.names)
        return not wanted or not {*case.groups, *case.tags, case.name}.isdisjoint(
            wanted
        )


def _is_in_c_alone(case: Case) -> bool:
    """Whether a case chooses the ABI of its cells itself, so that no tier can."""
    return all(variant.startswith("abi=") for variant in case.variants)


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of a tier that belong together: each case with each tuple of parties."""

    cases: Pick
    parties: _Parties
    topology: Topology
    variant: str = ""  # settings of each cell, beside the variants of its case


_ALL: Final = Pick()
_FOR_WIDE: Final = Pick(groups=("wide",))
_FOR_TRIO: Final = Pick(groups=("wide", "trio"))
_FEW: Final = Pick(groups=("wide",), also="smoke")
_NETWORKS: Final = Pick(tags=("network",))
_COMPILED: Final = Pick(compiled=True)
# Cases for the native form, which is impirun's default: data of every kind, by every way.
_DATA: Final = ("p2p.ring", "p2p.types", "coll.all", "coll.sizes")
# Cases for procs that are alone in their client: their receives stand, and their collectives
# run without the engine.
_ALONE: Final = Pick(names=("p2p.sizes", "coll.all", "coll.sizes"))
# the case for who may connect: each rank sends to each other rank
_HELLO: Final = Pick(names=("startup.hello",))
# The case for collectives on which our clients agree; all others ask for those of chapter 4.
_EXCHANGED: Final = Pick(names=("coll.exchanges",))
# Cases for the program that starts a library's procs: each has the other one by default.
_LAUNCHED: Final = {
    "auto": Pick(names=("startup.hello",)),
    "mpiexec": Pick(names=("coll.all",)),
}
# The case for --tls: captures show only that all is in TLS.
_SEALED: Final = Pick(names=("p2p.ring",))
# Cases for --hosts and --lazy: other channels than those of the dance.
_ROUTED: Final = Pick(names=("p2p.ring", "p2p.sizes", "coll.all", "comm.split"))


@functools.cache
def parts_of(tier: str, guest: str = "") -> tuple[Part, ...]:
    """Return the parts of a tier, in the order in which their cells are planned.

    Args:
        tier: one of :data:`.matrix.TIERS`.
        guest: a vendor that joins those of the tier.
    """

    # A guest joins the vendors of each part, but not those of variants.
    guests = (guest,) if guest else ()
    core = tuple(dict.fromkeys((*core_vendors(), *guests)))
    every = tuple(dict.fromkeys((*(each.name for each in vendors("pairs")), *guests)))

    return _table(core, every, core_vendors()).get(tier, ())


def _table(
    core: Sequence[str], every: Sequence[str], usual: Sequence[str]
) -> Mapping[str, tuple[Part, ...]]:
    """Return the parts of all tiers.

    Args:
        core: the vendors of the default tier, and a guest.
        every: those of tier pairs, and a guest.
        usual: those of the default tier alone. Only they run in variants.
    """

    # One vendor with itself and each unordered pair: enough where the
    # network is the matter.
    pairs, several = _ordered(every), (tuple(core[:1]) * 2, *_unordered(core))
    # One pair, for what need not be seen of every vendor.
    last = tuple(itertools.pairwise(core))[-1:]
    variants = _variants(usual)

    return {
        "smoke": (
            # Neighbours in the list of vendors: each vendor is in a pair, and
            # no pair comes twice.
            Part(Pick(groups=("smoke",)), tuple(itertools.pairwise(core)), PAIR),
        ),
        "core": (
            # Cases for every pair run in both orders, others once for each unordered pair.
            Part(_FOR_WIDE, _ordered(core), PAIR),
            Part(Pick(groups=("core",), but="wide"), _unordered(core), PAIR),
            Part(Pick(groups=("once",)), last, PAIR),
            Part(_FOR_WIDE, last, _WIDE),
            Part(_FEW, ((core[-1], core[0]),), _WIDE),
            Part(_FOR_TRIO, _unordered(core, 3), _TRIO),
            Part(Pick(names=_DATA), _unordered(usual), PAIR, "form=native"),
            Part(_ALONE, _unordered(usual)[:1], _COUPLE, "form=native"),
            Part(_EXCHANGED, _unordered(usual)[:1], _COUPLE, "form=native"),
            Part(_ROUTED, tuple(itertools.pairwise(usual))[-1:], _WIDE, "hosts=node"),
            Part(_ROUTED, _unordered(usual)[:1], _WIDE, "hosts=client"),
            Part(_ROUTED, _unordered(usual), PAIR, "connect=lazy"),
            # Hosts come from another address than they advertise; a proof stands for the address.
            Part(_HELLO, _unordered(usual), PAIR, "source=second"),
            Part(
                _HELLO,
                tuple(itertools.pairwise(usual))[-1:],
                PAIR,
                "auth=challenge,source=second",
            ),
            *_launched(usual),
            Part(_SEALED, tuple(itertools.pairwise(usual))[-1:], PAIR, "auth=tls"),
        ),
        "pairs": (
            Part(_ALL, pairs, PAIR),
            Part(Pick(groups=("nodes", "wide")), pairs, _WIDE),
            Part(_FOR_TRIO, _unordered(every, 3), _TRIO),
            *variants,
        ),
        "versions": (
            Part(_FOR_WIDE, _versions(core), PAIR),
            Part(_FEW, _versions(core[-1:]), _WIDE),
        ),
        "natives": _natives(core),
        "net": (Part(_NETWORKS, several, PAIR), Part(_NETWORKS, several, _WIDE)),
        "abi": tuple(
            Part(_COMPILED, _with_header(abi, parties), topology, f"abi={abi}")
            for abi in ABIS
            for parties, topology in (
                (_ordered(usual), PAIR),
                (_unordered(usual, 3), _TRIO),
            )
        )
        + tuple(
            Part(
                _HELLO,
                _with_header(abi, _unordered(usual, 3)),
                _TRIO,
                f"abi={abi},behind={way}",
            )
            for abi in ABIS
            for way in WAYS
        ),
        "full": (
            Part(_ALL, pairs, PAIR),
            Part(_ALL, pairs, _WIDE),
            Part(_ALL, tuple(itertools.permutations(every, 3)), _TRIO),
            *variants,
        ),
    }


def _variants(usual: Sequence[str]) -> tuple[Part, ...]:
    """Return parts in the form that users run, with --hosts, and of many clients."""
    six = (tuple(itertools.islice(itertools.cycle(usual), 6)),)
    return (
        Part(
            Pick(groups=("wide",), names=_DATA), _unordered(usual), PAIR, "form=native"
        ),
        Part(_ALONE, _ordered(usual), _COUPLE, "form=native"),
        Part(_EXCHANGED, _ordered(usual), _COUPLE, "form=native"),
        Part(_ROUTED, _unordered(usual), _WIDE, "hosts=node"),
        Part(_ROUTED, _unordered(usual), _WIDE, "hosts=client"),
        Part(_ROUTED, _ordered(usual), PAIR, "connect=lazy"),
        Part(_ROUTED, _unordered(usual), _WIDE, "connect=lazy"),
        Part(_HELLO, _unordered(usual), PAIR, "source=second"),
        Part(_HELLO, _unordered(usual), PAIR, "auth=challenge,source=second"),
        *_launched(usual),
        Part(_SEALED, _unordered(usual), PAIR, "auth=tls"),
        # Beyond four clients collectives are trees (IMPI 4.10 to 4.16).
        Part(Pick(groups=("wide",), tags=("collective",)), six, _LINE),
        *_ways(usual),
    )


def _launched(usual: Sequence[str]) -> tuple[Part, ...]:
    pairs = tuple(itertools.pairwise(usual))
    return tuple(
        Part(cases, pairs, PAIR, f"launcher={name}")
        for name, cases in _LAUNCHED.items()
    )


def _ways(usual: Sequence[str]) -> tuple[Part, ...]:
    """Return each way to start a compiled program: over pure, and between two libraries."""
    pairs = (_unordered(usual)[0], _unordered(usual)[-1])
    return tuple(
        Part(_HELLO, (pair,), PAIR, f"abi={pair[-1]},behind={way}")
        for pair in pairs
        if pair[-1] in ABIS
        for way in WAYS
    )


def _natives(core: Sequence[str]) -> tuple[Part, ...]:
    """Return each MPI that speaks IMPI itself, with each vendor of core and with each other."""
    natives = [each.name for each in vendors() if each.kind == "native"]
    with_one = [
        pair
        for native in natives
        for other in core
        for pair in ((native, other), (other, native))
    ]

    return (
        # In both orders, for who is client 0 decides who is root and who connects.
        Part(_ALL, (*with_one, *itertools.product(natives, repeat=2)), PAIR),
        Part(_FOR_WIDE, tuple((native, core[0]) for native in natives), _WIDE),
        Part(
            Pick(groups=("wide",), tags=("reduction",)),
            tuple((native, *core[:2]) for native in natives),
            _TRIO,
        ),
        # Two clients test neither a root in the last client nor a tree, which takes five clients.
        Part(
            Pick(tags=("reduction",)),
            tuple((*core[:2], native) for native in natives),
            _TRIO,
        ),
        Part(
            Pick(names=("coll.barrier",)),
            # Five clients are the fewest that make a tree; the native one is
            # once its root and once a node.
            tuple(_five_clients(n, i, core[0]) for n in natives for i in (0, 1)),
            _FIVE,
        ),
    )


def _ordered(names: Sequence[str]) -> _Parties:
    """Return every ordered pair, also a vendor with itself."""
    return tuple(itertools.product(names, repeat=2))


def _unordered(names: Sequence[str], count: int = 2) -> _Parties:
    """Return every set of ``count`` different vendors once."""
    return tuple(itertools.combinations(names, count))


def _with_header(abi: str, parties: _Parties) -> _Parties:
    """Return the parties that have the header of an ABI."""
    return (
        # ABIs other than the standard one take the header of a vendor,
        # which must be a party.
        parties if abi == "standard" else tuple(each for each in parties if abi in each)
    )


def _five_clients(native: str, place: int, other: str) -> tuple[str, ...]:
    """Return five clients; a native one in first place is the root of trees, in second a node."""
    return tuple(native if client == place else other for client in range(5))


def _versions(beside: Sequence[str]) -> _Parties:
    """Return every further version of a vendor with each vendor of ``beside``, in both orders."""
    further = [f"{each.name}@{name}" for each in vendors() for name in each.versions]
    return tuple(
        pair
        for version in further
        for other in beside
        for pair in ((version, other), (other, version))
    )
