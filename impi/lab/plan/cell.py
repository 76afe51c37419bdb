"""Cells, their names, and selectors that pick among them."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from impi.base.errors import UsageError, did_you_mean
from impi.lab.cases import CASES, TAGS, Case
from impi.lab.cases.ends.soak import WHOLE, Amount, parse_amount
from impi.lab.nodes import Roster, Topology, parse_parties, parse_topology
from impi.lab.plan.variant import options_of, parse_variant

_HASH = re.compile(r"/?([0-9a-f]{7})")


@dataclass(frozen=True, slots=True)
class Cell:
    """One case, with vendors in client order, a topology, and perhaps a variant."""

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
        """The cell's name: ``p2p.ring/mpich+openmpi/1x2+1x2``, with the variant if there is one."""
        return "/".join(
            filter(
                None, (self.case.name, self.parties, str(self.topology), self.variant)
            )
        )

    @property
    def hash(self) -> str:
        """Seven characters that stand for the id."""
        # Short enough for a folder and a command line, and the same in every run.
        return hash_of(self.id)

    @property
    def lab(self) -> tuple[tuple[str, ...], str]:
        """The parties and topology: cells with equal ``lab`` can use the same running nodes."""
        return (
            # Nodes by IPv6, and nodes for compiled programs, are other labs of
            # the same shape.
            self.vendors,
            f"{self.topology}{' by IPv6' * self.six}{' of C' * self.compiled}",
        )

    @property
    def compiled(self) -> bool:
        return "abi" in self.settings or self.case.mute

    @property
    def breaks_lab(self) -> bool:
        # Such a fault takes a container away, so no other cell can follow in that lab.
        return self.settings.get("fault", "").startswith("kill-node@")

    @property
    def six(self) -> bool:
        """Whether its nodes know each other by IPv6 addresses only."""
        return self.settings.get("ip") == "6"

    @property
    def settings(self) -> dict[str, str]:
        return parse_variant(self.variant)

    @property
    def options(self) -> tuple[str, ...]:
        return options_of(self.settings, self.case.launch.options)

    @property
    def amount(self) -> Amount | None:
        """How much a soak does; None: the cell is not a soak."""
        if "soak" not in self.case.tags:
            return None

        given = self.settings.get("amount")

        return WHOLE if given is None else parse_amount(given)

    @property
    def roster(self) -> Roster:
        return Roster.of(self.topology, self.vendors)


def hash_of(identifier: str) -> str:
    """Return the hash of the cell with this id."""
    return hashlib.sha256(identifier.encode()).hexdigest()[:7]


def parse_cell(text: str, own: Case | None = None) -> Cell:
    """The cell with this id; ``own``: the case of the user's program, beside those that there are.

    Raises:
        UsageError: it is not an id of a cell.
    """

    name, parties, topology, variant = [*text.split("/"), "", "", ""][:4]

    case = own if own is not None and own.name == name else CASES.get(name)
    if case is None:
        near = did_you_mean(name, CASES)
        raise UsageError(
            f"cell {text!r}: there is no case {name!r}; 'impilab ls cases' shows them{near}"
        )

    cell = Cell(case, parse_parties(parties), parse_topology(topology), variant)

    # An id must be written in one way, or one cell would have two hashes.
    settings = set(cell.settings.items())
    if cell.id != text or not any(
        parse_variant(own).items() <= settings for own in cell.case.variants
    ):
        raise UsageError(
            f"cell {text!r}: write CASE/PARTIES/TOPOLOGY, and the variant of a case that has one"
        )

    if len(cell.vendors) != len(cell.topology.clients):
        raise UsageError(
            f"cell {text!r}: {cell.parties} and {topology} have different numbers of clients"
        )

    return cell


def select(
    cells: Iterable[Cell], include: Sequence[str], exclude: Sequence[str] = ()
) -> list[Cell]:
    """Return cells that match a selector of ``include`` (all, if empty) and none of ``exclude``.

    Raises:
        UsageError: a selector is malformed.
    """
    for selector in (*include, *exclude):
        check_selector(selector)

    # Including is by what a run has by default; excluding is by
    # everything that matches.
    found = [c for c in cells if not include or any(picks(c, s) for s in include)]

    return [c for c in found if not any(matches(c, s) for s in exclude)]


def check_selector(selector: str) -> None:
    """Raise UsageError: the selector is empty, has too many components or an unknown tag."""
    if not selector.strip("/") or selector.count("/") > 3:
        raise UsageError(
            f"selector {selector!r}: write CASE/PARTIES/TOPOLOGY/VARIANT with globs, or a cell's hash"
        )

    tag = selector.partition("/")[0].removeprefix("@")
    if selector.startswith("@") and not fnmatch.filter(TAGS, tag):
        near = did_you_mean(tag, TAGS)
        raise UsageError(
            f"selector {selector!r}: no case has the tag {tag!r}; there are {', '.join(TAGS)}{near}"
        )


def is_literal(selector: str) -> bool:
    """Whether it names single cells: by hash, or case, parties and topology without globs."""
    # Without globs and with a topology at least, it names one cell, or
    # one for each variant.
    spelled_out = (
        selector.count("/") >= 2
        and not selector.startswith("@")
        and not set("*?[") & set(selector)
    )
    return spelled_out or bool(_HASH.fullmatch(selector))


def picks(cell: Cell, selector: str) -> bool:
    """Whether a run with this selector has the cell: without a variant, as its case is by default.

    To leave out or to expect ``p2p.ring`` means all its variants; to ask for it, only its own.
    """
    if not matches(cell, selector):
        return False

    # A selector that spells out a variant, or a hash, means that one.
    named = selector.strip("/").count("/") > 2 or _HASH.fullmatch(selector) is not None

    return named or cell.variant in cell.case.variants


def matches(cell: Cell, selector: str) -> bool:
    """Whether the selector picks the cell.

    A selector is a cell's hash or a glob on the id by components: ``p2p.*``, ``*/mpich+*``,
    ``*/*/2x2+2x2``; missing components match anything. ``@TAG`` as the case means all with the tag.
    """

    digits, name, patterns = _parts(selector)
    # Seven hexadecimal digits may also be the name of a case, so go on
    # if no hash is equal.
    if digits and digits == cell.hash:
        return True

    # Most cells of a tier belong to other cases: ids are made for the rest only.
    if name.startswith("@"):
        if not fnmatch.filter(cell.case.labels, name[1:]):
            return False
    elif not fnmatch.fnmatchcase(cell.case.name, name):
        return False

    parts = [cell.parties, str(cell.topology), cell.variant]

    # Components that are missing match anything, so stop at the shorter list.
    return all(
        fnmatch.fnmatchcase(part, pattern)
        for part, pattern in zip(parts, patterns, strict=False)
    )


@lru_cache
def _parts(selector: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the selector's hash, if it is one, the glob on the case, and the globs on the rest."""
    match = _HASH.fullmatch(selector)
    # Two stars alone stand for all that is left, and need no pattern.
    name, *patterns = [p for p in selector.split("/") if p not in ("", "**")] or ["*"]

    return match[1] if match else "", name, tuple(patterns)
