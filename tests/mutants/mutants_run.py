"""Runs mutants: a party of a lab gets impi with a fault, the cell runs, the usual judge judges.

The lab stays open from one mutant to the next. The nodes of the culprit get the changed files, all
others those of the checkout. A rank that has loaded the changed module tells so by its digest,
which the judge is then told to expect: the fault must show by what it does.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mutants_table import Mutant, blames

from impi.base.errors import ImpiError
from impi.lab.backends.nodes import SshNode, in_parallel
from impi.lab.backends.source_sync import source_files, sync
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.container_node import SOURCES
from impi.lab.nodes.interface import Backend, Lab, Node
from impi.lab.plan.cell import Cell
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import Prepared, prepare
from impi.lab.run.schedule import judge_cell

_LIMITS: Final = Limits(server=8.0, start=10.0, cell=6.0, grace=3.0)
_TWIN: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A mutant, or its twin without any fault, and what became of it."""

    cell: Cell
    mutant: Mutant | None
    """None: the twin."""
    verdict: Verdict
    seconds: float
    loaded: bool = False
    """Whether a rank has told that it runs the changed module."""

    @property
    def fault(self) -> str:
        """The reason why this is not as it must be; empty if it is."""
        if self.mutant is None:
            return (
                ""
                if self.verdict.outcome == "pass"
                else f"the twin ends with {self.verdict.outcome}"
            )
        if self.verdict.outcome == "pass":
            return "survives"
        if self.verdict.outcome not in ("fail", "timeout"):
            return f"ends with {self.verdict.outcome}"
        wrong = []
        if self.verdict.phase != self.mutant.phase:
            wrong.append(f"phase {self.verdict.phase}, not {self.mutant.phase}")
        if not blames(self.verdict.blame, self.mutant.blame):
            wrong.append(f"blame {self.verdict.blame}, not {self.mutant.blame}")
        return "; ".join(wrong)

    @property
    def caught(self) -> bool:
        """Whether anything was seen, be phase and blame right or not."""
        return self.verdict.outcome in ("fail", "timeout")


_ATTEMPTS: Final = 3
_DIGEST: Final = re.compile(r"(?<=-)[0-9a-f]{12}(?=/)")
"""In the folder of a compiled library of impi: it changes with each source."""


class Bench:
    """The lab under way, and who runs what on it."""

    def __init__(self, backend: Backend, factor: float = 1.0) -> None:
        self._backend = backend
        self._factor = factor
        self._lab: Lab | None = None
        self._prepared: Prepared | None = None
        self._of: tuple[tuple[str, ...], str] | None = None

    def run(self, cell: Cell, mutant: Mutant | None) -> Ran:
        """Run the cell with the mutant, or as it is; up to three times if the lab itself failed."""
        for _ in range(_ATTEMPTS):
            ran = self._run(cell, mutant)
            if ran.verdict.outcome != "error":
                break
        return ran

    def _run(self, cell: Cell, mutant: Mutant | None) -> Ran:
        began = time.monotonic()
        try:
            prepared = self._ready(cell)
            _plant(prepared.lab, mutant)
            seen = run_cell(prepared, cell, self._limits(mutant), threading.Event())
        except ImpiError as error:
            self.close()
            verdict = Verdict(
                outcome="error", phase="up", blame="lab", reason=str(error)
            )
            return Ran(
                cell=cell,
                mutant=mutant,
                verdict=verdict,
                seconds=time.monotonic() - began,
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            self.close()
            reason = f"the judge itself fails: {type(error).__name__}: {error}"
            verdict = Verdict(outcome="error", phase="down", blame="lab", reason=reason)
            return Ran(
                cell=cell,
                mutant=mutant,
                verdict=verdict,
                seconds=time.monotonic() - began,
            )
        loaded = _expect(seen, mutant) if mutant is not None else False
        verdict = judge_cell(cell, seen)
        if seen.evidence.lab.leftovers or seen.evidence.lab.trouble:
            self.close()
        return Ran(
            cell=cell,
            mutant=mutant,
            verdict=verdict,
            seconds=time.monotonic() - began,
            loaded=loaded,
        )

    def _ready(self, cell: Cell) -> Prepared:
        if self._prepared is None or self._of != cell.lab:
            self.close()
            self._lab = self._backend.open(cell.vendors, cell.topology, run="mutants")
            cool(self._lab)
            self._prepared, self._of = prepare(self._lab, "mutants"), cell.lab
        return self._prepared

    def _limits(self, mutant: Mutant | None) -> Limits:
        if mutant is None:
            return _TWIN.scaled(self._factor)
        limits = replace(_LIMITS, cell=mutant.within) if mutant.within else _LIMITS
        return limits.scaled(self._factor)

    def close(self) -> None:
        """Remove the lab, if there is one."""
        if self._lab is not None:
            self._lab.close()
        self._lab = self._prepared = self._of = None


def cool(lab: Lab) -> None:
    """Make each impirun a fresh Python: a warm one is a fork that has the sources of before."""
    for node in (lab.server, *(node for nodes in lab.clients for node in nodes)):
        if isinstance(node, SshNode):
            node.warm = None


def _plant(lab: Lab, mutant: Mutant | None) -> None:
    """Give every node the sources that it is to run."""
    broken = (
        {f"{SOURCES}/{path}": text for path, text in mutant.broken().items()}
        if mutant is not None
        else {}
    )
    ill = mutant.nodes() if mutant is not None else frozenset()

    def one(node: Node) -> None:
        if not isinstance(node, SshNode):
            raise TypeError(f"node {node.name} is none of the backend docker")
        files = (
            {**source_files(SOURCES), **broken}
            if node.name in ill
            else source_files(SOURCES)
        )
        sync(node.name, node.connection, lab.access.python, SOURCES, files)

    in_parallel(one, [lab.server, *(node for nodes in lab.clients for node in nodes)])


def _expect(seen: Seen, mutant: Mutant) -> bool:
    """Take the planted modules out of those that ranks should not have; whether there were any.

    A library that was compiled from planted sources differs from the expected one by its digest. It
    takes that one's place likewise, and it too tells that the fault is loaded.
    """
    planted = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in mutant.broken()
    }
    ranks, loaded = [], False
    own = dict(seen.evidence.nodes.own_libraries)
    for rank in seen.evidence.ranks:
        others = rank.process.other_sources
        if others and rank.node in mutant.nodes():
            loaded = loaded or bool(planted & set(others))
            left = tuple(module for module in others if module not in planted)
            rank = replace(rank, process=replace(rank.process, other_sources=left))
        ours = own.get(rank.node, "")
        if ours and rank.node in mutant.nodes():
            own[rank.node] = compiled_anew(ours, rank.process.libraries or ())
            loaded = loaded or own[rank.node] != ours
        ranks.append(rank)
    nodes = replace(seen.evidence.nodes, own_libraries=own)
    seen.evidence = replace(seen.evidence, ranks=tuple(ranks), nodes=nodes)
    return loaded


def compiled_anew(ours: str, libraries: Iterable[str]) -> str:
    """Return the mapped library that is ours but for its digest; else ours."""
    plain = _DIGEST.sub("", ours)
    return next((path for path in libraries if _DIGEST.sub("", path) == plain), ours)


def run_all(
    backend: Backend, mutants: Sequence[Mutant], factor: float = 1.0
) -> Iterator[Ran]:
    """Every mutant, and before the first of a cell its twin; lab by lab."""
    order = {mutant.cell.lab: i for i, mutant in reversed(list(enumerate(mutants)))}
    bench = Bench(backend, factor)
    healthy: dict[str, bool] = {}
    try:
        for mutant in sorted(mutants, key=lambda m: order[m.cell.lab]):
            if mutant.cell.id not in healthy:
                twin = bench.run(mutant.cell, None)
                healthy[mutant.cell.id] = twin.verdict.outcome == "pass"
                yield twin
            if healthy[mutant.cell.id]:
                yield bench.run(mutant.cell, mutant)
    finally:
        bench.close()


def vendors_of(mutants: Sequence[Mutant]) -> list[str]:
    """All vendors that their cells need."""
    return sorted({vendor for mutant in mutants for vendor in mutant.cell.vendors})
