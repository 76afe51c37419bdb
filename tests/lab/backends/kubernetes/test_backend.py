"""The backend of a Kubernetes cluster on a stand-in of its API, whose pods are said to run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from cluster_labs import IMAGES, SHAPE
from cluster_stand_in import NAMESPACE, TOKEN, Object, StandIn

from impi.base.errors import LabError, UsageError
from impi.lab.backends import choose_backend
from impi.lab.backends.kubernetes.backend import KubernetesBackend

DEADLINE_S = 60.0
OPENER = """
from impi.lab.backends.kubernetes.backend import KubernetesBackend
from impi.lab.nodes.topology import parse_topology
backend = KubernetesBackend()
backend.images = lambda vendors: {vendor: f"impilab/{vendor}:1" for vendor in vendors}
backend.open(["mpich", "openmpi"], parse_topology("1x2+1x2"), run="killed")
"""


def await_that(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


# -- placing


def test_the_reaper_removes_the_lab_of_an_opener_that_is_killed(
    cluster: StandIn, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", OPENER], cwd=tmp_path) as opener:
        await_that(lambda: len(cluster.left()) == 10, cluster.left)
        opener.kill()
    await_that(lambda: not cluster.left(), cluster.left)


# -- pods that do not start


# -- pods that end


# -- the lab's end


def test_a_lab_that_does_not_start_is_removed(
    cluster: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.states["impilab/openmpi:1"] = ("ErrImageNeverPull", "it is not there")
    monkeypatch.setattr(KubernetesBackend, "images", lambda self, vendors: IMAGES)
    with pytest.raises(LabError, match="ErrImageNeverPull"):
        KubernetesBackend().open(["mpich", "openmpi"], SHAPE, run="fails")
    assert cluster.left() == []


# -- the API refuses


@pytest.mark.parametrize(
    ("where", "wrong", "said"),
    [
        ("metadata", {"name": "Upper"}, "Invalid value: 'Upper'"),
        ("metadata", {"name": "a", "labels": {"a": "b+c"}}, "Invalid value: 'b+c'"),
        ("spec", {"backoffLimits": 0}, "('backoffLimits' was unexpected)"),
        ("spec", {"template": {"spec": {}}}, "'containers' is a required property"),
    ],
)
def test_the_stand_in_refuses_what_kubernetes_would(
    where: str, wrong: Object, said: str, cluster: StandIn
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    job["spec"] = {"template": {"spec": pod}}
    job[where] = {**job[where], **wrong}
    url, token = (
        f"{cluster.url}/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
        {"authorization": f"Bearer {TOKEN}"},
    )
    # Not by its client, which refuses some of these itself.
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, json.dumps(job).encode(), token), timeout=DEADLINE_S)
    with refused.value as answer:
        assert said in json.loads(answer.read())["message"]
    assert cluster.left() == []


def test_the_doctor_tells_of_rights(cluster: StandIn) -> None:
    assert [finding.ok for finding in KubernetesBackend().doctor()] == [True, True]
    cluster.forbidden |= {("create", "jobs"), ("list", "events")}
    version, rights = KubernetesBackend().doctor()
    assert version.detail == "Kubernetes v1.37.0-stand-in"
    assert (rights.ok, rights.detail) == (False, "you may not create jobs, list events")
    cluster.close()
    (gone,) = KubernetesBackend().doctor()
    assert not gone.ok
    assert "does not answer" in gone.detail


# -- which cluster


def test_names_that_only_begin_so_are_no_backend() -> None:
    with pytest.raises(
        UsageError, match=r"ssh:FILE, swarm or kubernetes\[:NAMESPACE\]"
    ):
        choose_backend("kubernetes2")
