"""The reason for a pod that does not start, and the state of one that ran."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_labs import IMAGES, NODES, jobs
from cluster_stand_in import StandIn

from impi.base.errors import LabError
from impi.lab.backends.kubernetes.pod_states import ending, runs, trouble


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "ErrImageNeverPull",
            'Container image "impilab/mpich:1" is not present with pull policy of Never',
        ),
        ("ImagePullBackOff", 'Back-off pulling image "impilab/mpich:1"'),
        (
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
        ),
    ],
)
def test_a_container_that_cannot_start_is_told(
    reason: str, message: str, cluster: StandIn, tmp_path: Path
) -> None:
    cluster.states["impilab/mpich:1"] = (reason, message)
    cure = "(bring the image to each worker|'kubectl describe pod' may show more)"
    pod = r"pod impilab-20261126t070000-ab12-c0ffee-client0-\w{5}"
    with pytest.raises(
        LabError, match=f"^{pod} does not run: {reason}: {re.escape(message)}; {cure}"
    ):
        jobs(tmp_path).start(NODES, IMAGES)


def test_the_fate_of_a_pod_is_told(cluster: StandIn, tmp_path: Path) -> None:
    placed = jobs(tmp_path)
    placed.start(NODES, IMAGES)
    evicted, drained = (pod["metadata"]["name"] for pod in cluster.of("pods")[1:])
    cluster.evict(evicted)
    cluster.drain(drained)
    assert re.fullmatch(
        rf"; pod {evicted} on worker worker-\d: Evicted: The node was low on resource: memory.",
        placed.fate("client0"),
    )
    assert re.fullmatch(
        rf"; pod {drained} on worker worker-\d: it is gone: deleted .* drained",
        placed.fate("client1"),
    )
    cluster.close()
    assert "the cluster's API does not answer" in placed.fate("server")


def pod(phase: str, deleted: str = "", **status: object) -> Any:
    told = {
        "container_statuses": None,
        "conditions": None,
        "reason": None,
        "message": None,
        **status,
    }
    return SimpleNamespace(
        status=SimpleNamespace(phase=phase, **told),
        metadata=SimpleNamespace(deletion_timestamp=deleted),
    )


def test_a_pod_runs_once_it_has_its_address() -> None:
    assert runs(pod("Running", pod_ip="10.1.0.1", host_ip="192.0.2.1"))
    assert not runs(pod("Running", pod_ip="", host_ip="192.0.2.1"))
    assert not runs(pod("Pending", pod_ip="10.1.0.1", host_ip="192.0.2.1"))
    assert not runs(None)


def test_of_a_pod_that_ends_the_first_reason_is_told() -> None:
    ended = SimpleNamespace(reason="OOMKilled", message="", exit_code=137)
    container = SimpleNamespace(state=SimpleNamespace(waiting=None, terminated=ended))
    assert (
        ending(pod("Failed", container_statuses=[container]))
        == "OOMKilled: exit code 137"
    )
    assert ending(pod("Running", deleted="now")) == "it is being deleted"
    assert ending(pod("Succeeded")) == "it is Succeeded"
    assert trouble(pod("Pending")) is None
    over = trouble(pod("Failed", reason="Evicted", message="no memory"))
    assert over is not None
    assert over.hopeless and "Evicted: no memory" in str(over)
