"""The labs of a namespace: found by their labels, removed alone, or left."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_labs import IMAGES, LAB, NODES, jobs
from cluster_stand_in import StandIn

from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster
from impi.lab.backends.kubernetes.cluster_inventory import ClusterInventory
from impi.lab.backends.lifecycle import ownership
from impi.lab.backends.lifecycle.cleanup import Choice, clean


def test_a_lab_is_found_with_its_labels_and_removed_alone(
    cluster: StandIn, tmp_path: Path
) -> None:
    jobs(tmp_path).start(NODES, IMAGES)
    jobs(tmp_path, lab="another").start(NODES, IMAGES)
    inventory = ClusterInventory(KubernetesCluster())
    (first,) = [seen for seen in inventory.find() if seen.lab == LAB]
    assert (first.state, first.labels["parties"], len(first.parts)) == (
        "running",
        "mpich+openmpi",
        7,
    )
    assert inventory.remove(first) == list(first.parts)
    assert len(cluster.left()) == 10
    assert all("another" in name for name in cluster.left())
    assert inventory.remove(first) == list(first.parts)  # what is gone is not an error
    assert clean(inventory, Choice(everything=True, labels={"lab": "another"}))
    assert cluster.left() == []


def test_a_lab_of_another_machine_runs_until_its_time_is_over(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "myself", lambda: "another-boot/1/2/3")
    jobs(tmp_path, lab="young").start(NODES, IMAGES)
    jobs(tmp_path, lab="old", ttl_s=-1.0).start(NODES, IMAGES)
    inventory = ClusterInventory(KubernetesCluster())
    assert {seen.lab: seen.state for seen in inventory.find()} == {
        "old": "left over",
        "young": "running",
    }
    clean(inventory, Choice())
    assert [seen.lab for seen in inventory.find()] == ["young"]
