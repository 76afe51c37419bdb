"""Cells with programs in C on real processes, compiled there, and judged by what they map."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from impi.testbed.backends import choose_backend
from impi.testbed.judge.verdict import judge
from impi.testbed.plan.cell import parse_cell
from impi.testbed.run.execute import Limits, Seen, prepare, run_cell
from impi.testbed.run.schedule import judge_cell

LIMITS = Limits(server=30, start=90, cell=60, grace=5)


def run(text: str) -> Seen:
    cell = parse_cell(text)
    backend = choose_backend("local")
    backend.prepare(cell.vendors)
    lab = backend.open(cell.vendors, cell.topology, run="compiled")
    try:
        return run_cell(prepare(lab, "compiled"), cell, LIMITS, threading.Event())
    finally:
        lab.close()


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("abi", ["standard", "mpich"])
def test_a_program_in_c_passes_only_with_our_library(abi):
    text = f"p2p.ring/pure+mpich/1x2+1x2/abi={abi}"
    seen, cell = run(text), parse_cell(text)
    verdict = judge_cell(cell, seen)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    own = seen.evidence.own_libraries
    assert [path.endswith("libimpi_front.so") for path in own.values()] == [False, abi == "mpich"]
    assert all(own[rank.node] in (rank.libraries or {}) for rank in seen.evidence.ranks)
    # The same ranks under the vendor's libmpi alone: as if the program had run as a job of its own.
    ranks = tuple(
        replace(rank, libraries={p: sha for p, sha in (rank.libraries or {}).items() if p != own[rank.node]})
        for rank in seen.evidence.ranks
    )
    without = judge(replace(seen.facts(cell), seen=replace(seen.evidence, ranks=ranks)))
    assert without.outcome == "fail"
    assert without.culprit is not None and without.culprit.name == "identity.library"
    assert "is not mapped" in without.culprit.actual
