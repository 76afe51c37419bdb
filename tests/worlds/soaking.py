"""Soaks of real jobs on loopback, whose programs may be forged."""

from __future__ import annotations

import threading
from dataclasses import replace

from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Mutation
from impi.lab.run.schedule import judge_cell

LONG = 3000
"""Octets of the longest message or operation: a forged one is found soon."""
_LIMITS = Limits(server=20, start=60, cell=60, grace=8)


def patched(old: str, new: str, client: int = 1) -> Mutation:
    """The program of a client with a part of its text replaced."""
    code = (
        "import sys, os\n"
        "path = sys.argv.pop(1)\n"
        "sys.path.insert(0, os.path.dirname(path))\n"
        "text = open(path).read()\n"
        f"assert {old!r} in text\n"
        f"exec(compile(text.replace({old!r}, {new!r}), path, 'exec'))\n"
    )
    return lambda who, argv, env: (
        [*argv[:-1], "-c", code, argv[-1]] if who == client else argv,
        env,
    )


def soaked(
    backend: Backend,
    case: str,
    mutation: Mutation | None = None,
    vendors: tuple[str, ...] = ("pure", "pure"),
    topology: str = "1x2+1x1",
    variant: str = "amount=1000",
    **params: int,
) -> Verdict:
    """Run a soak by a fixed seed; its calls are not logged."""
    known = CASES[case]
    own = replace(known, params={**known.params, "seed": 5, "long": LONG, **params})
    cell = Cell(own, vendors, parse_topology(topology), variant)
    lab = backend.open(cell.vendors, cell.topology, run="soak")
    try:
        seen = run_cell(
            prepare(lab, "soak"), cell, _LIMITS, threading.Event(), mutation
        )
    finally:
        lab.close()
    assert not any(rank.calls for rank in seen.evidence.ranks)
    return judge_cell(cell, seen)
