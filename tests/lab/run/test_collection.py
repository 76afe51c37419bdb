"""The collection of a cell: all of it as values, and the lab's first fault."""

from __future__ import annotations

import threading

from forge import FakeBackend, FakeLab

from impi.base.errors import LabError
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.run.cell_commands import Commands
from impi.lab.run.collection import Collection
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Recipe

RING = parse_cell("p2p.ring/mpich+openmpi/1x2+1x2")


def collection(
    backend: FakeBackend, hurry: threading.Event | None = None
) -> Collection:
    lab: FakeLab = backend.open(RING.vendors, RING.topology, run="r")
    prepared = prepare(lab, "r")
    cell: Cell = RING
    recipe = Recipe(prepared, cell, None)
    return Collection(
        prepared, cell, recipe, Commands(recipe.key), hurry or threading.Event()
    )


def refuses() -> None:
    raise LabError("the first")


def refuses_again() -> None:
    raise LabError("the second")


def test_the_first_fault_of_the_lab_is_the_one_that_is_told() -> None:
    found = collection(FakeBackend())
    found.guard(refuses)
    found.guard(refuses_again)
    assert found.seen(timed_out=False, limit_s=1.0).evidence.lab.trouble == "the first"


def test_in_a_hurry_nothing_more_is_collected() -> None:
    hurry, backend = threading.Event(), FakeBackend()
    found = collection(backend, hurry)
    hurry.set()
    for step in (found.begin_capture, refuses):
        found.guard(step)
    assert (backend.log, found.trouble) == (["open"], "")


def test_files_that_a_cell_left_are_not_the_next_ones() -> None:
    found = collection(FakeBackend())
    lab = found._prepared.lab
    left = ["c0n0: file /tmp/x", "c0n0: process 7 sleep"]
    lab.residue = lambda known=(): [line for line in left if line not in known]  # type: ignore[method-assign]
    found.sweep()
    assert found._prepared.files == {"c0n0: file /tmp/x"}
    assert lab.residue(found._prepared.files) == ["c0n0: process 7 sleep"]


def test_what_nobody_started_is_not_in_the_evidence() -> None:
    seen = collection(FakeBackend()).seen(timed_out=True, limit_s=2.5)
    evidence = seen.evidence
    assert (evidence.server, evidence.clients, evidence.wire) == (None, (), None)
    assert (evidence.times.timed_out, evidence.times.limit_s) == (True, 2.5)
    assert evidence.nodes.addresses == {"c0n0": "10.9.1.1", "c1n0": "10.9.2.1"}
    assert "it did not come to a start" in seen.script
