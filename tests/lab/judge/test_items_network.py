"""The item of links: as bad as the variant says, or the lab is at fault."""

from __future__ import annotations

import threading

import pytest
from forge import FakeBackend, Job
from judged import LIMITS, run

from impi.lab.cases import CASES
from impi.lab.judge import items_network
from impi.lab.nodes.links import NetworkSeen, RouteSeen
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

WIDE = "net=delay:20ms+jitter:5ms+loss:1%+reorder:1%"


@pytest.mark.parametrize(
    ("link", "variant", "reason"),
    [
        ({"arrived": 0}, "net=wan", "nothing came over them"),
        ({"shortest": 0.001}, "net=wan", "a packet was held for 1.00 ms only"),
        ({"mean": 0.001}, WIDE, "packets were held for 1.00 ms only"),
        ({"matched": 500}, WIDE, "of 500 packets 100 came to the queue"),
        ({"lost": 0}, WIDE, "none of 600 packets was lost"),
        ({"overtook": 0}, WIDE, "none of 600 packets overtook another"),
    ],
)
def test_links_that_were_not_as_asked_are_an_error_of_the_lab(link, variant, reason):
    verdict = run(lambda job: job.link.update(link), variant=variant)
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert reason in verdict.reason
    assert run(variant=variant).outcome == "pass"


def test_a_fault_of_the_job_counts_more_than_a_link():
    def spoiled(job: Job) -> None:
        job.link.update(lost=0)
        job.dropped.update(c0n0=3)
        job.leftovers.append("c0n0: process 7 sleep")

    assert (run(spoiled, variant=WIDE).outcome, run(spoiled, variant=WIDE).phase) == (
        "fail",
        "down",
    )


def test_without_a_network_to_change_there_is_no_pass():
    verdict = run(captures=False, variant="net=wan")
    assert (verdict.outcome, verdict.reason) == (
        "error",
        "the network of this lab cannot be changed",
    )


def test_ways_that_were_not_closed_are_an_error_of_the_lab():
    backend = FakeBackend()
    backend.refused = 0
    it = Cell(
        CASES["p2p.ring"],
        ("mpich", "openmpi"),
        parse_topology("1x2+1x2"),
        "reach=outward",
    )
    for refused, outcome in ((0, "error"), (1, "pass")):
        backend.refused = refused
        lab = backend.open(it.vendors, it.topology, run="r")
        verdict = judge_cell(
            it, run_cell(prepare(lab, "r"), it, LIMITS, threading.Event())
        )
        assert verdict.outcome == outcome
        assert (
            refused
            or "c0n0 reached c1n0" in verdict.reason
            or "server reached c1n0" in verdict.reason
        )


def test_behind_nat_connections_come_by_the_gateways_address():
    def said(translated: int) -> str:
        route = RouteSeen(
            node="c1n1", gateway="c1n0", out=5, back=5, translated=translated
        )
        return items_network._unrouted("nat", NetworkSeen(routes=(route,)))

    assert said(4) == ""
    assert said(0) == "c1n1 by c1n0: 5 packets out, 5 back"
