"""Clients of several nodes behind agents, in containers: the same job, fewer hosts."""

from __future__ import annotations

import threading

import pytest

from impi.base.errors import LabError
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES
from impi.lab.nodes.interface import Backend
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def docker() -> Backend:
    try:
        found = choose_backend("docker")
        sick = [f for f in found.doctor() if f.fatal and not f.ok]
    except LabError as error:
        pytest.skip(f"several nodes need a container engine that answers: {error}")
    if sick:
        pytest.skip(f"the engine lacks {sick[0].subject}: {sick[0].detail}")
    found.prepare(["pure", "mpich", "openmpi"])
    return found


@pytest.mark.parametrize(
    ("case", "parties", "hosts", "table"),
    [
        ("p2p.sizes", "mpich+openmpi", ("node", "node"), [2, 2, 2, 2]),
        ("coll.all", "openmpi+pure", ("client", "node"), [4, 2, 2]),
    ],
)
def test_two_nodes_a_client(
    case: str, parties: str, hosts: tuple[str, str], table: list[int], docker: Backend
) -> None:
    cell = Cell(CASES[case], tuple(parties.split("+")), parse_topology("2x2+2x2"))

    def wired(
        client: int, argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        at = argv.index("--vendor")
        return [*argv[:at], "--hosts", hosts[client], *argv[at:]], env

    lab = docker.open(cell.vendors, cell.topology, run="hosts")
    try:
        limits = Limits(server=20, start=90, cell=90, grace=2)
        seen = run_cell(prepare(lab, "hosts"), cell, limits, threading.Event(), wired)
    finally:
        lab.close()
    verdict = judge_cell(cell, seen)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert seen.evidence.wire is not None
    [told] = [
        line
        for line in seen.evidence.wire.timeline
        if "server -> client 0" in line and "H_NPROCS" in line
    ]
    assert told.endswith(str(table))
