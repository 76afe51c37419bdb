"""The backend of a Kubernetes cluster on a stand-in of its API, whose pods are said to run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from cluster_stand_in import NAMESPACE, TOKEN, Object, StandIn, stand_in

from impi.errors import LabError, UsageError
from impi.testbed.backends import choose_backend
from impi.testbed.backends.kubernetes import cluster_jobs
from impi.testbed.backends.kubernetes.cluster_api import Cluster
from impi.testbed.backends.kubernetes.cluster_inventory import ClusterInventory
from impi.testbed.backends.kubernetes.cluster_jobs import Jobs
from impi.testbed.backends.kubernetes.kubernetes_backend import KubernetesBackend
from impi.testbed.backends.lifecycle import ownership
from impi.testbed.backends.lifecycle.cleanup import Choice, clean, new_labels
from impi.testbed.backends.placed.placed_lab import Login
from impi.testbed.lab.interface import Terms
from impi.testbed.lab.lab_topology import parse_topology

SHAPE = parse_topology("1x2+1x2")
NODES = [("server", "pure"), ("client0", "mpich"), ("client1", "openmpi")]
IMAGES = {name: f"impilab/{name}:1" for name in ("pure", "mpich", "openmpi")}
LAB = "20261126T070000-AB12-c0ffee"
DEADLINE_S = 60.0
OPENER = """
from impi.testbed.backends.kubernetes.kubernetes_backend import KubernetesBackend
from impi.testbed.lab.lab_topology import parse_topology
backend = KubernetesBackend()
backend.images = lambda vendors: {vendor: f"impilab/{vendor}:1" for vendor in vendors}
backend.open(["mpich", "openmpi"], parse_topology("1x2+1x2"), run="killed")
"""


@pytest.fixture
def cluster() -> Iterator[StandIn]:
    with stand_in() as made:
        yield made


@pytest.fixture(autouse=True)
def configured(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.config(tmp_path)))


def jobs(tmp_path: Path, lab: str = LAB, ttl_s: float = 3600.0) -> Jobs:
    labels = new_labels(lab, "a run", ["mpich", "openmpi"], SHAPE, Terms(ttl_s=ttl_s))
    return Jobs(Cluster(), lab, labels, Login.make(tmp_path), "Never")


def await_that(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


# -- placing


def test_nodes_are_placed_and_reached_by_the_ports_of_services(cluster: StandIn, tmp_path: Path) -> None:
    hosts = jobs(tmp_path).start(NODES, IMAGES)
    ports = {each["spec"]["ports"][0]["nodePort"] for each in cluster.of("services")}
    assert [host.name for host in hosts] == ["server", "client0", "client1"]
    assert {host.port for host in hosts} == ports
    assert [dict(host.vendors) for host in hosts] == [
        {"pure": ""},
        {"mpich": "/opt/mpi/mpich"},
        {"openmpi": "/opt/mpi/openmpi"},
    ]
    assert [each["spec"]["containers"][0]["image"] for each in cluster.of("pods")] == list(IMAGES.values())
    assert {each["spec"]["nodeName"] for each in cluster.of("pods")} == {"worker-1", "worker-2"}


def test_what_nobody_removes_goes_by_itself(cluster: StandIn, tmp_path: Path) -> None:
    jobs(tmp_path, ttl_s=500.0).start(NODES, IMAGES)
    cluster.advance(499.0)
    assert [len(cluster.of(kind)) for kind in ("jobs", "pods", "services", "secrets")] == [3, 3, 3, 1]
    cluster.advance(2.0)
    assert [len(cluster.of(kind)) for kind in ("jobs", "pods", "services", "secrets")] == [3, 0, 3, 1]
    cluster.advance(60.0)
    assert cluster.left() == []


def test_the_reaper_removes_the_lab_of_an_opener_that_is_killed(cluster: StandIn, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OPENER], cwd=tmp_path) as opener:
        await_that(lambda: len(cluster.left()) == 10, cluster.left)
        opener.kill()
    await_that(lambda: not cluster.left(), cluster.left)


# -- pods that do not start


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImageNeverPull", 'Container image "impilab/mpich:1" is not present with pull policy of Never'),
        ("ImagePullBackOff", 'Back-off pulling image "impilab/mpich:1"'),
        ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
    ],
)
def test_a_container_that_cannot_start_is_told(reason: str, message: str, cluster: StandIn, tmp_path: Path) -> None:
    cluster.states["impilab/mpich:1"] = (reason, message)
    cure = "(bring the image to each worker|'kubectl describe pod' may tell more)"
    pod = r"pod impilab-20261126t070000-ab12-c0ffee-client0-\w{5}"
    with pytest.raises(LabError, match=f"^{pod} does not run: {reason}: {re.escape(message)}; {cure}"):
        jobs(tmp_path).start(NODES, IMAGES)


def test_no_room_is_told_once_patience_ends(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_jobs, "_PATIENCE_S", 0.0)
    cluster.unschedulable = "0/2 nodes are available: 2 Insufficient memory."
    why = "Unschedulable: 0/2 nodes are available: 2 Insufficient memory.; make room, or let a worker take pods"
    with pytest.raises(LabError, match=f"^pod impilab-.* does not run: {re.escape(why)}"):
        jobs(tmp_path).start(NODES, IMAGES)


def test_a_quota_is_told_once_patience_ends(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_jobs, "_PATIENCE_S", 0.0)
    cluster.quota = "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"
    with pytest.raises(
        LabError, match=r"^a pod of impilab-.*-server does not run: FailedCreate: .*quota: small.*; raise"
    ):
        jobs(tmp_path).start(NODES, IMAGES)


def test_patience_waits_for_room(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.quota = "exceeded quota: small"

    def room(_: float) -> None:
        cluster.quota = ""
        for job in cluster.of("jobs"):
            if not any(job["metadata"]["name"] in pod["metadata"]["name"] for pod in cluster.of("pods")):
                cluster._make_pod(job)

    monkeypatch.setattr(time, "sleep", room)
    assert len(jobs(tmp_path).start(NODES, IMAGES)) == 3


# -- pods that end


def test_the_fate_of_a_pod_is_told(cluster: StandIn, tmp_path: Path) -> None:
    placed = jobs(tmp_path)
    placed.start(NODES, IMAGES)
    evicted, drained = (pod["metadata"]["name"] for pod in cluster.of("pods")[1:])
    cluster.evict(evicted)
    cluster.drain(drained)
    assert re.fullmatch(
        rf"; pod {evicted} on worker worker-\d: Evicted: The node was low on resource: memory.", placed.fate("client0")
    )
    assert re.fullmatch(rf"; pod {drained} on worker worker-\d: it is gone: deleted .* drained", placed.fate("client1"))
    cluster.close()
    assert "the cluster's API does not answer" in placed.fate("server")


# -- the lab's end


def test_a_lab_is_found_with_its_labels_and_removed_alone(cluster: StandIn, tmp_path: Path) -> None:
    jobs(tmp_path).start(NODES, IMAGES)
    jobs(tmp_path, lab="another").start(NODES, IMAGES)
    inventory = ClusterInventory(Cluster())
    (first,) = [seen for seen in inventory.find() if seen.lab == LAB]
    assert (first.state, first.labels["parties"], len(first.parts)) == ("running", "mpich+openmpi", 7)
    assert inventory.remove(first) == list(first.parts)
    assert len(cluster.left()) == 10
    assert all("another" in name for name in cluster.left())
    assert inventory.remove(first) == list(first.parts)  # what is gone is no error
    assert clean(inventory, Choice(everything=True, labels={"lab": "another"}))
    assert cluster.left() == []


def test_a_lab_of_another_machine_runs_until_its_time_is_over(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "myself", lambda: "another-boot/1/2/3")
    jobs(tmp_path, lab="young").start(NODES, IMAGES)
    jobs(tmp_path, lab="old", ttl_s=-1.0).start(NODES, IMAGES)
    inventory = ClusterInventory(Cluster())
    assert {seen.lab: seen.state for seen in inventory.find()} == {"old": "left over", "young": "running"}
    clean(inventory, Choice())
    assert [seen.lab for seen in inventory.find()] == ["young"]


def test_a_lab_that_does_not_start_is_removed(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.states["impilab/openmpi:1"] = ("ErrImageNeverPull", "it is not there")
    monkeypatch.setattr(KubernetesBackend, "images", lambda self, vendors: IMAGES)
    with pytest.raises(LabError, match="ErrImageNeverPull"):
        KubernetesBackend().open(["mpich", "openmpi"], SHAPE, run="fails")
    assert cluster.left() == []


# -- the API refuses


def test_a_right_that_lacks_is_told_with_its_cure(cluster: StandIn, tmp_path: Path) -> None:
    cluster.forbidden.add(("create", "jobs"))
    said = (
        'User "tester" cannot create resource "jobs" in API group "batch" in the namespace "lab"; clusters/kubernetes/'
    )
    with pytest.raises(LabError, match=re.escape(said)):
        jobs(tmp_path).start(NODES, IMAGES)


def test_an_api_that_is_gone_is_told(cluster: StandIn, tmp_path: Path) -> None:
    cluster.close()
    with pytest.raises(LabError, match=r"^lab .* cannot be placed in the cluster: .* not answer: .*refused"):
        jobs(tmp_path).start(NODES, IMAGES)


@pytest.mark.parametrize(
    ("where", "wrong", "said"),
    [
        ("metadata", {"name": "Upper"}, "Invalid value: 'Upper'"),
        ("metadata", {"name": "a", "labels": {"a": "b+c"}}, "Invalid value: 'b+c'"),
        ("spec", {"backoffLimits": 0}, "('backoffLimits' was unexpected)"),
        ("spec", {"template": {"spec": {}}}, "'containers' is a required property"),
    ],
)
def test_the_stand_in_refuses_what_kubernetes_would(where: str, wrong: Object, said: str, cluster: StandIn) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    job["spec"] = {"template": {"spec": pod}}
    job[where] = {**job[where], **wrong}
    url, token = f"{cluster.url}/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"authorization": f"Bearer {TOKEN}"}
    # Not by its client, which refuses some of these itself.
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, json.dumps(job).encode(), token), timeout=DEADLINE_S)
    with refused.value as answer:
        assert said in json.loads(answer.read())["message"]
    assert cluster.left() == []


def test_what_the_client_does_not_take_is_told() -> None:
    made = Cluster()
    with pytest.raises(LabError, match=r"^refused: the client of the API does not take it: .*Field required"):
        made.ask("refused", made.batch.create_namespaced_job, NAMESPACE, {"spec": {"template": {"spec": {}}}})


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


def test_the_namespace_is_that_of_the_context_or_the_named_one() -> None:
    assert choose_backend("kubernetes").name == f"kubernetes:{NAMESPACE}"
    assert choose_backend("kubernetes:other").name == "kubernetes:other"


def test_a_relative_file_is_found_from_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "kubeconfig")
    choose_backend("kubernetes")
    assert os.environ["KUBECONFIG"] == str(tmp_path / "kubeconfig")


def test_without_a_cluster_the_cure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LabError, match=r"no Kubernetes cluster is named .* or set KUBECONFIG"):
        choose_backend("kubernetes")


def test_without_its_client_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    for name in [name for name in sys.modules if name.startswith("impi.testbed.backends.kubernetes.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(LabError, match=r"needs the package kubernetes: pip install 'impilab\[kubernetes\]'"):
        choose_backend("kubernetes")


def test_names_that_only_begin_so_are_no_backend() -> None:
    with pytest.raises(UsageError, match=r"ssh:FILE, swarm or kubernetes\[:NAMESPACE\]"):
        choose_backend("kubernetes2")
