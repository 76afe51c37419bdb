"""Cells with programs in C on real processes, compiled there, and judged by what they map."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from container_engine import engine_installed

from impi.cabi.library import cache
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES
from impi.lab.judge.verdict import judge
from impi.lab.nodes.compiled_programs import folder
from impi.lab.nodes.interface import Lab, Terms, run_on
from impi.lab.nodes.job_commands import twin_path
from impi.lab.nodes.topology import Topology, parse_topology
from impi.lab.plan.cell import parse_cell
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

LIMITS = Limits(server=30, start=90, cell=60, grace=5)


def opened(vendors: tuple[str, ...], topology: Topology) -> Lab:
    """A lab whose nodes share our compiled library with all tests of this checkout."""
    backend = choose_backend("local")
    backend.prepare(vendors)
    lab = backend.open(vendors, topology, run="compiled")
    for environment in lab.access.environment.values():
        assert isinstance(environment, dict)
        environment["IMPI_CACHE"] = cache.folder(os.environ)
    return lab


def run(text: str) -> Seen:
    cell = parse_cell(text)
    lab = opened(cell.vendors, cell.topology)
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
    own = seen.evidence.nodes.own_libraries
    assert [path.endswith("libimpi_front.so") for path in own.values()] == [
        False,
        abi == "mpich",
    ]
    assert all(
        own[rank.node] in (rank.process.libraries or {}) for rank in seen.evidence.ranks
    )

    def without_own(rank):
        return {
            path: sha
            for path, sha in (rank.process.libraries or {}).items()
            if path != own[rank.node]
        }

    # The same ranks under the vendor's libmpi alone: as if the program had run as a job of its own.
    ranks = tuple(
        replace(rank, process=replace(rank.process, libraries=without_own(rank)))
        for rank in seen.evidence.ranks
    )
    without = judge(replace(seen.facts(cell), seen=replace(seen.evidence, ranks=ranks)))
    assert without.outcome == "fail"
    assert without.culprit is not None and without.culprit.name == "identity.library"
    assert "is not mapped" in without.culprit.actual


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_programs_that_an_image_has_are_not_compiled_again():
    """A node whose home has compiled programs, as one of an image of compiled programs has."""
    lab = opened(("pure", "mpich"), parse_topology("1x1+1x1"))
    try:
        twins = prepare(lab, "compiled").twins
        twins.make(("mpich", False), "p2p_ring.py")
        assert twins.compiled == [("mpich", "p2p_ring")]
        home = lab.access.environment["c1n0"]["HOME"]
        shutil.copytree(
            f"{home}/impilab-compiled/programs/mpich", f"{home}/{folder()}/mpich"
        )

        again = prepare(lab, "again").twins
        again.make(("mpich", False), "p2p_ring.py")
        assert again.compiled == []
        programs = [
            Path(
                lab.access.environment[node]["HOME"],
                twin_path("impilab-again/programs", "mpich", "p2p_ring"),
            )
            for node in ("c0n0", "c1n0")
        ]
        assert programs[0].read_bytes() == programs[1].read_bytes()
        assert all(os.access(program, os.X_OK) for program in programs)
        again.make(("mpich", False), "coll_bcast.py")
        assert again.compiled == [("mpich", "coll_bcast")]
    finally:
        lab.close()


@pytest.mark.proof
@pytest.mark.docker
def test_a_node_of_an_image_compiles_nothing():
    if not engine_installed():
        pytest.skip(
            "no container engine is installed: this test needs one that answers"
        )
    backend = choose_backend("docker")
    lab = backend.open(
        ["pure", "mpich"],
        parse_topology("1x1+1x1"),
        run="compiled",
        terms=Terms(compiled=True),
    )
    nodes = [node for client in lab.clients for node in client]

    def libraries() -> list[bytes]:
        return [
            run_on(
                node, ["sh", "-c", "cd .cache/impi && ls -d *-* | grep -v lock"]
            ).stdout
            for node in nodes
        ]

    try:
        before = libraries()
        twins = prepare(lab, "compiled").twins
        for abi in ("standard", "mpich"):
            for case in CASES.values():
                if case.twin:
                    twins.make((abi, False), case.program)
        assert twins.compiled == []
        assert libraries() == before
        assert b"mpich-front-" in before[1] and b"standard-" in before[0]
    finally:
        lab.close()
