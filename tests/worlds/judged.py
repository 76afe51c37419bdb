"""Forged cells, run and judged."""

from __future__ import annotations

import threading
from dataclasses import replace

from forge import FakeBackend

from impi.lab.cases import CASES
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

PAIR = ("p2p.ring", ("mpich", "openmpi"), "1x2+1x2")
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def run(
    tweak=lambda job: None, *, cell=PAIR, captures=True, variant="", clocks=(0.0, 0.0)
):
    backend = FakeBackend(captures=captures, tweak=tweak)
    backend.clocks = clocks
    case, vendors, topology = cell
    it = Cell(CASES[case], vendors, parse_topology(topology), variant)
    lab = backend.open(vendors, it.topology, run="r")
    seen = run_cell(prepare(lab, "r"), it, LIMITS, threading.Event())
    return judge_cell(it, seen)


def failed(verdict):
    return {item.name for item in verdict.items if not item.ok}


def lacking(case, *, topology="1x2+1x2"):
    """Return the items that fail if the first message that the case demands did not cross."""

    def lose(job):
        first = job.meetings or job.messages
        del first[0]

    vendors = ("mpich", "openmpi", "pure")[: topology.count("+") + 1]
    # A made-up lab compiles nothing.
    variant = "" if "abi=" in case.variants[0] else case.variants[0]
    return failed(run(lose, cell=(case.name, vendors, topology), variant=variant))


def spoiled(case, *, topology="1x2+1x2"):
    """Return the items that fail if the first message whose octets are known has others."""

    def spoil(job):
        at = next(i for i, m in enumerate(job.messages) if m.payload and not m.access)
        data = job.messages[at].payload
        job.messages[at] = replace(
            job.messages[at], payload=data[:-1] + bytes([data[-1] ^ 1])
        )

    vendors = ("mpich", "openmpi", "pure")[: topology.count("+") + 1]
    return failed(
        run(spoil, cell=(case.name, vendors, topology), variant=case.variants[0])
    )
