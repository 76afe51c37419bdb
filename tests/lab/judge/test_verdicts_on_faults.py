"""Faults of networks: proved to have happened, and jobs that end as they must."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from forge import FakeBackend

from impi.lab.cases.ends.network_faults import FAULT_VALUES, NETWORK_FAULTS
from impi.lab.evidence.gathered import FaultSeen, LabTold
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.verdict import judge
from impi.lab.plan.cell import parse_cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare

LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


@pytest.fixture(scope="module")
def good() -> Facts:
    """A job to which nothing was done."""
    cell = parse_cell("network.steady/mpich+openmpi/1x2+1x2")
    lab = FakeBackend().open(cell.vendors, cell.topology, run="r")
    return run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event()).facts(cell)


def after(
    good: Facts, value: str, codes=(0, 0), server: int = 0, said: str = "", **fault: Any
) -> Facts:
    """That job, but with a fault and such ends; ``fault``: what the lab saw of it."""
    kind, _, phase = value.partition("@")
    seen = good.seen
    assert seen.server is not None
    evidence = replace(
        seen,
        clients=tuple(
            replace(c, code=code) for c, code in zip(seen.clients, codes, strict=True)
        ),
        server=replace(seen.server, code=server, stderr=said),
        fault=replace(FaultSeen(kind=kind, phase=phase, began=True), **fault),
    )
    return replace(good, variant=f"fault={value}", seen=evidence)


NAMED = "Error: client 1 (10.9.2.1:1): its connection ended without FINI\n"
PROVED: dict[str, dict[str, Any]] = {
    "partition": {"refused": 3, "lasted_s": 2.0},
    "cuts": {"refused": 3, "lasted_s": 2.0},
    "pause": {"frozen": True, "lasted_s": 2.1},
    "reset": {"refused": 1, "codes": (1, 1), "server": 1, "said": NAMED},
}


def test_every_fault_is_proved_in_this_table():
    assert PROVED.keys() == NETWORK_FAULTS.keys()


@pytest.mark.parametrize("value", FAULT_VALUES)
def test_a_fault_that_happened_and_ended_as_it_must_passes(good, value):
    verdict = judge(after(good, value, **PROVED[value.partition("@")[0]]))
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.parametrize(
    ("value", "changed", "said"),
    [
        ("partition@case", {"refused": 0}, "no packet was refused"),
        ("reset@case", {"refused": 0}, "no packet was refused"),
        ("pause@init", {"frozen": False}, "the node was not frozen long enough"),
        ("pause@init", {"lasted_s": 1.0}, "the node was not frozen long enough"),
        ("reset@case", {"began": False}, "not all ranks reached that phase"),
    ],
)
def test_a_fault_that_did_not_happen_is_an_error_of_the_lab(good, value, changed, said):
    verdict = judge(
        after(good, value, **{**PROVED[value.partition("@")[0]], **changed})
    )
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert said in verdict.reason


@pytest.mark.parametrize(
    ("value", "changed", "said"),
    [
        ("partition@case", {"codes": (0, 1)}, "impirun of client 1 ends with 0"),
        ("reset@case", {"codes": (None, 1)}, "it did not end by itself"),
        ("reset@case", {"codes": (0, 1)}, "impirun of client 0 ends with an error"),
        ("reset@case", {"said": "Error: lost\n"}, "the server names a client"),
    ],
)
def test_a_job_that_ends_otherwise_fails(good, value, changed, said):
    verdict = judge(
        after(good, value, **{**PROVED[value.partition("@")[0]], **changed})
    )
    assert verdict.outcome == "fail"
    assert said in verdict.reason


def test_leftovers_count_after_a_fault(good):
    facts = after(good, "reset@case", **PROVED["reset"])
    verdict = judge(
        replace(
            facts,
            seen=replace(
                facts.seen, lab=LabTold(leftovers=("c1n0: process 7 python",))
            ),
        )
    )
    assert (verdict.outcome, verdict.phase) == ("fail", "down")
