"""Nodes as Jobs of a cluster: placed, awaited, and what became of them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from cluster_labs import IMAGES, NODES, jobs
from cluster_stand_in import StandIn

from impi.base.errors import LabError
from impi.lab.backends.kubernetes import cluster_jobs


def test_nodes_are_placed_and_reached_by_the_ports_of_services(
    cluster: StandIn, tmp_path: Path
) -> None:
    hosts = jobs(tmp_path).start(NODES, IMAGES)
    ports = {each["spec"]["ports"][0]["nodePort"] for each in cluster.of("services")}
    assert [host.name for host in hosts] == ["server", "client0", "client1"]
    assert {host.port for host in hosts} == ports
    assert [dict(host.vendors) for host in hosts] == [
        {"pure": ""},
        {"mpich": "/opt/mpi/mpich"},
        {"openmpi": "/opt/mpi/openmpi"},
    ]
    assert [
        each["spec"]["containers"][0]["image"] for each in cluster.of("pods")
    ] == list(IMAGES.values())
    assert {each["spec"]["nodeName"] for each in cluster.of("pods")} == {
        "worker-1",
        "worker-2",
    }


def test_what_nobody_removes_goes_by_itself(cluster: StandIn, tmp_path: Path) -> None:
    jobs(tmp_path, ttl_s=500.0).start(NODES, IMAGES)
    cluster.advance(499.0)
    assert [
        len(cluster.of(kind)) for kind in ("jobs", "pods", "services", "secrets")
    ] == [3, 3, 3, 1]
    cluster.advance(2.0)
    assert [
        len(cluster.of(kind)) for kind in ("jobs", "pods", "services", "secrets")
    ] == [3, 0, 3, 1]
    cluster.advance(60.0)
    assert cluster.left() == []


def test_no_room_is_told_once_patience_ends(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_jobs, "_PATIENCE_S", 0.0)
    cluster.unschedulable = "0/2 nodes are available: 2 Insufficient memory."
    why = "Unschedulable: 0/2 nodes are available: 2 Insufficient memory.; make room, or let a worker take pods"
    with pytest.raises(
        LabError, match=f"^pod impilab-.* does not run: {re.escape(why)}"
    ):
        jobs(tmp_path).start(NODES, IMAGES)


def test_a_quota_is_told_once_patience_ends(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_jobs, "_PATIENCE_S", 0.0)
    cluster.quota = (
        "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"
    )
    with pytest.raises(
        LabError,
        match=r"^a pod of impilab-.*-server does not run: FailedCreate: .*quota: small.*; raise",
    ):
        jobs(tmp_path).start(NODES, IMAGES)


def test_patience_waits_for_room(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.quota = "exceeded quota: small"

    def room(_: float) -> None:
        cluster.quota = ""
        for job in cluster.of("jobs"):
            if not any(
                job["metadata"]["name"] in pod["metadata"]["name"]
                for pod in cluster.of("pods")
            ):
                cluster._make_pod(job)

    monkeypatch.setattr(time, "sleep", room)
    assert len(jobs(tmp_path).start(NODES, IMAGES)) == 3


def test_a_right_that_lacks_is_told_with_its_cure(
    cluster: StandIn, tmp_path: Path
) -> None:
    cluster.forbidden.add(("create", "jobs"))
    said = (
        'User "tester" cannot create resource "jobs" in API group "batch" '
        'in the namespace "lab"; clusters/kubernetes/'
    )
    with pytest.raises(LabError, match=re.escape(said)):
        jobs(tmp_path).start(NODES, IMAGES)


def test_an_api_that_is_gone_is_told(cluster: StandIn, tmp_path: Path) -> None:
    cluster.close()
    with pytest.raises(
        LabError,
        match=r"^lab .* cannot be placed in the cluster: .* not answer: .*refused",
    ):
        jobs(tmp_path).start(NODES, IMAGES)
