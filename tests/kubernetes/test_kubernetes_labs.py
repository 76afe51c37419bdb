"""Labs in a stand-in of a Kubernetes cluster, whose pods are containers (``make kubernetes``)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_stand_in import StandIn
from cluster_workers import DockerWorkers, docker_cluster
from placed_jobs import WAITS, started

from impi.base.errors import LabError
from impi.lab.backends.kubernetes import cluster_inventory
from impi.lab.backends.kubernetes.backend import KubernetesBackend
from impi.lab.backends.lifecycle.cleanup import remove_lab
from impi.lab.nodes.topology import parse_topology

pytestmark = pytest.mark.docker

ENDS_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[StandIn, DockerWorkers]]:
    with docker_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(made[0].config(tmp_path_factory.mktemp("kube"))))
        yield made


def impilab(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "impi.cli.impilab", *words]
    return subprocess.run(
        argv,
        env={**os.environ, **env},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def results(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        next((folder / "runs").glob("2*/results.json")).read_text()
    )["cells"]
    return found


@pytest.mark.parametrize(
    ("pairs", "count"),
    [("mpich+openmpi", 1), pytest.param("*", 9, marks=pytest.mark.alone)],
    ids=["one", "all"],
)
def test_jobs_of_pairs_of_vendors_cross_pods(
    pairs: str, count: int, cluster: tuple[StandIn, DockerWorkers], tmp_path: Path
) -> None:
    ended = impilab(
        tmp_path,
        "run",
        "--backend",
        "kubernetes",
        f"p2p.ring/{pairs}/1x2+1x2",
        "-x",
        "*intel*",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    cells = results(tmp_path)
    assert {cell["self_reported"] for cell in cells} == {True}
    assert len(cells) == count
    assert cluster[0].left() == []
    assert cluster[1].running() == []


def test_an_image_that_no_worker_has_ends_the_cell_in_one_sentence(
    cluster: tuple[StandIn, DockerWorkers], tmp_path: Path
) -> None:
    words = ("run", "--backend", "kubernetes", "p2p.ring/mpich+pure/1x2+1x2")
    ended = impilab(tmp_path, *words, IMPILAB_REGISTRY="registry.invalid/ours")
    assert ended.returncode != 0
    (cell,) = results(tmp_path)
    told = (
        r"pod impilab-\S+ does not run: ImagePullBackOff: .* "
        r"image \"registry.invalid/ours/\S+; bring the image to .*"
    )
    assert re.fullmatch(told, cell["reason"])
    assert cluster[0].left() == []


@pytest.mark.parametrize(
    "event",
    [
        "evicted",
        *(pytest.param(each, marks=pytest.mark.alone) for each in ("drained", "lost")),
    ],
)
def test_a_pod_that_is_lost_ends_the_job(
    event: str,
    cluster: tuple[StandIn, DockerWorkers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No worker answers for the lost one
    monkeypatch.setattr(cluster_inventory, "_FREE_S", 2.0)
    (tmp_path / "waits.py").write_text(WAITS)
    stand_in, workers = cluster
    lab = KubernetesBackend().open(
        ["mpich", "openmpi"], parse_topology("1x2+1x2"), run="leaves"
    )
    try:
        server, first, second = started(lab, tmp_path / "waits.py")
        (pod,) = [
            name
            for pod in stand_in.of("pods")
            if "client1" in (name := pod["metadata"]["name"])
        ]
        {"evicted": stand_in.evict, "drained": stand_in.drain, "lost": workers.lose}[
            event
        ](pod)
        left = time.monotonic()
        ended = [each.wait(ENDS_WITHIN_S) for each in (server, first)]
        assert time.monotonic() - left < ENDS_WITHIN_S
        if event != "lost":  # of a lost worker, the cluster itself learns late
            why = {
                "evicted": "Evicted: The node was low on",
                "drained": "it is gone: deleted or evicted",
            }[event]
            with pytest.raises(
                LabError, match=rf"c1n0: .*; pod {pod} on worker worker-\d: {why}"
            ):
                second.wait(ENDS_WITHIN_S)
    finally:
        lab.close()
    address = lab.clients[1][0].address
    for each in ended:
        assert each.code not in (0, None), each
        assert f"client 1 ({address}" in each.stderr.decode(), each
    assert stand_in.left() == []
    assert workers.running() == []


def test_a_job_goes_on_without_the_api_and_its_lab_is_removed_later(
    cluster: tuple[StandIn, DockerWorkers], tmp_path: Path
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    stand_in, workers = cluster
    backend = KubernetesBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x2+1x2"), run="alone")
    try:
        stand_in.silent = True
        assert [each.poll() for each in started(lab, tmp_path / "waits.py")] == [
            None
        ] * 3
        with pytest.raises(
            LabError, match=r"cannot be listed: the cluster's API does not answer"
        ):
            lab.close()
    finally:
        stand_in.silent = False
        remove_lab(backend.inventory, lab.access.lab)
    assert stand_in.left() == []
    assert workers.running() == []
