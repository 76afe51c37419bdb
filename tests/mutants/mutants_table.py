"""The table of mutants: faults of impi, the clause that each breaks, the cell that must see it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError
from impi.lab.judge.verdict import PHASES
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.plan.matrix import cells_of

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
EVERYWHERE: Final = "everywhere"
SERVER: Final = "server"
ANYBODY: Final = "anybody"
"""As blame: the fault is in no single party, as with an option that all were given."""
_CLIENT: Final = re.compile(r"client (\d+)")
_NAMED: Final = re.compile(r"client (\d+)|\bc(\d+)n\d+")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a file of impi."""

    file: str
    old: str
    """Stands in the file exactly once."""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault, and how it must show."""

    name: str
    clause: str
    edits: tuple[Edit, ...]
    cell: Cell
    culprit: str
    """``client 1``, ``server`` or ``everywhere``: the nodes that have it."""
    phase: str
    blame: str
    """``client 1``, ``server`` or ``anybody``; by default the culprit."""
    within: float = 0.0
    """Seconds that the cell may take, where the usual ones are not enough."""
    tier: str = ""

    def nodes(self) -> frozenset[str]:
        """The nodes that run impi with the fault."""
        planned = {
            rank.node: f"client {rank.client}" for rank in self.cell.roster.ranks
        } | {"server": SERVER}
        return frozenset(
            node
            for node, party in planned.items()
            if self.culprit in (party, EVERYWHERE)
        )

    def broken(self, package: Path = ROOT) -> dict[str, bytes]:
        """The changed files by their path in the checkout.

        Raises:
            ValueError: an edit does not fit.
        """
        found: dict[str, bytes] = {}
        for edit in self.edits:
            text = (
                found[edit.file].decode()
                if edit.file in found
                else (package / edit.file).read_text("utf-8")
            )
            times = text.count(edit.old)
            if times != 1:
                raise ValueError(
                    f"mutant {self.name!r}: {edit.file} has {edit.old!r} {times} times, not once"
                )
            changed = text.replace(edit.old, edit.new).encode()
            if edit.file.endswith(".py"):
                compile(changed, edit.file, "exec")
            found[edit.file] = changed
        return found


@dataclass(frozen=True, slots=True)
class Tables:
    """All of it."""

    mutants: tuple[Mutant, ...]
    without: Mapping[str, str] = field(default_factory=dict)
    """Clauses without a mutant, and why nobody on the wire can miss them."""


def read_tables(folder: Path = HERE) -> Tables:
    """Read all tables; ValueError names a row that is wrong."""
    tiers = {tier: {cell.id for cell in cells_of(tier)} for tier in ("core", "pairs")}
    mutants: list[Mutant] = []
    without: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        without |= table.get("without", {})
        mutants += [_mutant(row, tiers, path.name) for row in table.get("mutant", [])]
    names = [mutant.name for mutant in mutants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"mutants: {twice[0]!r} is in the tables twice")
    return Tables(tuple(mutants), without)


def _mutant(row: dict[str, Any], tiers: Mapping[str, set[str]], where: str) -> Mutant:
    name = row.get("name", "")
    try:
        cell = parse_cell(row["cell"])
        tier = next((tier for tier in ("core", "pairs") if cell.id in tiers[tier]), "")
        if not tier:
            raise ValueError(f"{cell.id} is in neither core nor pairs")
        culprit = row.get("culprit", f"client {len(cell.vendors) - 1}")
        blame = row.get("blame", ANYBODY if culprit == EVERYWHERE else culprit)
        _check_party(culprit, cell, EVERYWHERE)
        _check_party(blame, cell, ANYBODY)
        if row["phase"] not in PHASES:
            raise ValueError(
                f"there is no phase {row['phase']!r}; there are {', '.join(PHASES)}"
            )
        edits = [
            Edit(row["file"], row["old"], row["new"]),
            *(Edit(**each) for each in row.get("also", ())),
        ]
        return Mutant(
            name=name,
            clause=row["clause"],
            edits=tuple(edits),
            cell=cell,
            culprit=culprit,
            phase=row["phase"],
            blame=blame,
            within=float(row.get("within", 0)),
            tier=tier,
        )
    except KeyError as error:
        raise ValueError(f"{where}: mutant {name!r} lacks {error}") from error
    except (UsageError, ValueError) as error:
        raise ValueError(f"{where}: mutant {name!r}: {error}") from error


def _check_party(party: str, cell: Cell, other: str) -> None:
    match = _CLIENT.fullmatch(party)
    if party not in (SERVER, other) and (
        match is None or int(match[1]) >= len(cell.vendors)
    ):
        raise ValueError(
            f"there is no party {party!r} in {cell.id}; write client N, {SERVER} or {other}"
        )


def blames(blame: str, wanted: str) -> bool:
    """Whether the verdict's blame is the wanted party, and no other."""
    named = {f"client {one or other}" for one, other in _NAMED.findall(blame)}
    if wanted == ANYBODY:
        return True
    if wanted == SERVER:
        return SERVER in blame and not named
    return named == {wanted}


def clauses_of(mutants: Iterable[Mutant]) -> dict[str, int]:
    """By clause the number of mutants."""
    found: dict[str, int] = {}
    for mutant in mutants:
        found[mutant.clause] = found.get(mutant.clause, 0) + 1
    return found
