"""Launchers, shared segments, addresses and the key: what a client cannot say of itself."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from forge import FakeBackend, Job

from impi.lab.cases import CASES
from impi.lab.evidence.gathered import Evidence, HostTold, Nodes, StartUp, Wire
from impi.lab.judge import items_identity
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def run(
    tweak=lambda job: None, *, case="p2p.ring", topology="1x2+1x2", variant=""
) -> Verdict:
    backend = FakeBackend(tweak=tweak)
    vendors = ("mpich", "openmpi")
    cell = Cell(CASES[case], vendors, parse_topology(topology), variant)
    lab = backend.open(vendors, cell.topology, run="r")
    return judge_cell(
        cell, run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event())
    )


def no_launcher(job: Job) -> None:
    job.identity[2]["ancestors"] = ["/usr/bin/python3", "/usr/bin/bash"]


def another_vendors_launcher(job: Job) -> None:
    job.identity[2]["ancestors"] = ["/opt/mpich/bin/mpiexec"]


def python_of_the_prefix(job: Job) -> None:
    job.identity[2]["ancestors"] = ["/opt/openmpi/bin/python3"]


def shares_nothing(job: Job) -> None:
    for rank in (2, 3):
        job.identity[rank]["shared"] = []


def each_its_own_segment(job: Job) -> None:
    for rank in (2, 3):
        job.identity[rank]["shared"] = [f"00:1/{rank} /dev/shm/x{rank}"]


def another_h_ipv6(job: Job) -> None:
    was = job.address
    job.address = lambda rank: "10.9.7.7" if rank == 3 else was(rank)  # type: ignore[method-assign]


def listens_everywhere(job: Job) -> None:
    job.identity[1]["listens"] = ["0.0.0.0:5001"]


def listened_everywhere(job: Job) -> None:
    job.listeners = ["0.0.0.0:2222", "0.0.0.0:5001"]


def test_a_listener_at_the_right_address_is_no_fault():
    def listened(job: Job) -> None:
        job.listeners = ["0.0.0.0:2222", f"{job.address(1)}:5001", "127.0.0.1:5001"]

    assert run(listened).outcome == "pass"


@pytest.mark.parametrize("other", ["127.0.0.11", "127.0.0.1"])
def test_a_port_of_loopback_is_none_of_a_host(other):
    """Docker's DNS, or a process that got the same number by chance once the host's was closed."""

    def listened(job: Job) -> None:
        job.listeners = ["0.0.0.0:2222", f"{other}:5001"]

    assert run(listened).outcome == "pass"


@pytest.mark.parametrize(
    ("fault", "item", "blame"),
    [
        (no_launcher, "identity.launcher", "client 1 (openmpi) rank 2"),
        (another_vendors_launcher, "identity.launcher", "client 1 (openmpi) rank 2"),
        (python_of_the_prefix, "identity.launcher", "client 1 (openmpi) rank 2"),
        (shares_nothing, "identity.transport", "client 1 (openmpi) rank 2"),
        (each_its_own_segment, "identity.transport", "client 1 (openmpi) rank 2"),
        (another_h_ipv6, "start.address", "client 1 (openmpi)"),
        (listens_everywhere, "start.address", "client 0 (mpich)"),
        (listened_everywhere, "start.address", "client 0 (mpich)"),
    ],
)
def test_a_fault_is_caught_by_its_item(fault, item, blame):
    assert run().outcome == "pass"
    verdict = run(fault)
    assert verdict.outcome == "fail"
    assert verdict.culprit is not None
    assert verdict.culprit.name == item
    assert verdict.blame.startswith(blame)


@pytest.mark.parametrize(
    ("address", "came_from", "found"),
    [
        ("10.9.0.1", "10.9.1.1", ""),
        ("10.9.1.1", "10.9.1.1", "H_IPV6 is 10.9.1.1"),
        (
            "10.9.0.1",
            "10.9.0.1",
            "it connects from 10.9.0.1, while its H_IPV6 is 10.9.0.1",
        ),
    ],
)
def test_hosts_of_a_relay_are_at_the_servers_node_and_come_from_their_own(
    address, came_from, found
):
    cell = Cell(
        CASES["p2p.ring"],
        ("pure", "pure"),
        parse_topology("1x1+1x1"),
        "auth=challenge,reach=relay",
    )
    told = HostTold(
        client=1, address=address, port=4001, ranks=(1,), came_from=(came_from,)
    )
    where = {"c0n0": "10.9.1.0", "c1n0": "10.9.1.1"}
    wire = Wire(startup=StartUp(hosts=(told,)))
    seen = Evidence(
        captures=True, hostport="10.9.0.1:4000", nodes=Nodes(addresses=where), wire=wire
    )
    facts = Facts(
        case=cell.case, roster=cell.roster, nonce="", variant=cell.variant, seen=seen
    )
    assert [item.actual for item in items_identity.address(facts)] == (
        [found] if found else []
    )


def under_nothing(job: Job) -> None:
    for rank in (0, 1):
        job.identity[rank]["ancestors"] = ["/usr/bin/python3", "/usr/bin/bash"]


def under_its_own(job: Job) -> None:
    for rank in (0, 1):
        job.identity[rank]["ancestors"] = ["/usr/bin/python3", "/opt/mpich/bin/mpiexec"]


def test_with_impirun_as_the_manager_of_mpich_no_mpiexec_is_above_its_ranks():
    # By default impirun chooses; a cell may also ask for either one.
    for variant in ("", "launcher=auto"):
        assert run(under_nothing, variant=variant).outcome == "pass"

    assert run(under_its_own, variant="launcher=mpiexec").outcome == "pass"
    for topology, variant, tweak, blame in (
        ("1x2+1x2", "", under_its_own, "client 0 (mpich) rank 0"),
        ("1x2+1x2", "launcher=mpiexec", under_nothing, "client 0 (mpich) rank 0"),
        # Hydra manages several nodes
        ("2x1+1x2", "", under_nothing, "client 0 (mpich) rank 0"),
    ):
        verdict = run(tweak, topology=topology, variant=variant)
        assert (
            verdict.culprit is not None and verdict.culprit.name == "identity.launcher"
        )
        assert verdict.blame.startswith(blame)


def test_one_rank_on_a_node_shares_with_nobody():
    def nothing(job: Job) -> None:
        for rank in job.identity:
            job.identity[rank]["shared"] = []

    assert run(nothing, topology="2x1+1x1").outcome == "pass"


def test_pure_has_neither_launcher_nor_segment():
    assert not items_identity._is_backed("pure")
    assert items_identity._is_backed("mpich")


def test_who_prints_the_key_is_to_blame(monkeypatch):
    monkeypatch.setattr("impi.lab.run.recipe.random_key", lambda: 7654321)

    def tells(job: Job) -> None:
        job.clients[1] = replace(
            job.clients[1], stderr=b"impirun: the key is 7654321\n"
        )

    key = {"case": "startup.key", "variant": "auth=key"}
    assert run(**key).outcome == "pass"
    verdict = run(tells, **key)
    assert (verdict.outcome, verdict.phase, verdict.blame) == (
        "fail",
        "auth",
        "client 1 (openmpi)",
    )
    assert "7654321" not in verdict.reason
