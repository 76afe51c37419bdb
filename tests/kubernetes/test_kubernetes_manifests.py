"""The manifests of clusters/kubernetes, held against Kubernetes' schemas and run on a stand-in."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cluster_stand_in import NAMESPACE, VERSION
from cluster_workers import docker_cluster
from kubernetes import config, utils

from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.kubernetes.backend import _RIGHTS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clusters/kubernetes"
DEADLINE_S = 120.0


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@pytest.mark.parametrize("name", ["job.yaml", "role.yaml"])
def test_manifests_are_what_the_schemas_ask(name: str) -> None:
    found = objects(name)
    assert len(found) > 1
    for each in found:
        kubernetes_validate.validate(each, VERSION, strict=True)
        each["metadata"]["labelz"] = {}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(each, VERSION, strict=True)


def test_the_role_has_the_rights_that_the_backend_takes_and_no_others() -> None:
    rules = objects("role.yaml")[0]["rules"]
    assert {
        kind: tuple(rule["verbs"]) for rule in rules for kind in rule["resources"]
    } == _RIGHTS


@pytest.fixture
def images() -> Iterator[dict[str, str]]:
    """Images of clusters/kubernetes/Dockerfile, by the names that the manifests have for them."""
    engine = connect()
    made: dict[str, str] = {}
    try:
        for vendor, image in Images(engine).ensure(["mpich", "openmpi"]).items():
            if vendor in ("mpich", "openmpi"):
                name, base = (
                    f"impi-{vendor}:proof-{os.getpid()}",
                    engine.images.get(image).tags[0],
                )
                make = "tar c --exclude=__pycache__ impi images examples clusters | docker build -q"
                make += f" -f clusters/kubernetes/Dockerfile --build-arg BASE={base} -t {name} -"
                shell = ["bash", "-o", "pipefail", "-c", make]
                subprocess.run(
                    shell, cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE_S
                )
                made[f"impi-{vendor}:1"] = name
        yield made
    finally:
        for name in made.values():
            engine.images.remove(name, force=True)
        engine.close()


@pytest.mark.docker
def test_the_manifests_run_a_job_across_two_vendors(
    images: dict[str, str], tmp_path: Path
) -> None:
    text = (FOLDER / "job.yaml").read_text()
    for name, ours in images.items():
        assert name in text
        text = text.replace(name, ours)
    with docker_cluster() as (cluster, workers):
        client = config.new_client_from_config(str(cluster.config(tmp_path)))
        utils.create_from_yaml(
            client, yaml_objects=yaml.safe_load_all(text), namespace=NAMESPACE
        )
        end = time.monotonic() + DEADLINE_S
        while not all(
            over := [job["status"].get("conditions") for job in cluster.of("jobs")]
        ):
            assert time.monotonic() < end, over
            time.sleep(0.1)
        job_of = "batch.kubernetes.io/job-name"
        logs = {
            pod["metadata"]["labels"][job_of]: _log(workers, pod)
            for pod in cluster.of("pods")
        }
    assert [conditions[0]["type"] for conditions in over] == ["Complete"] * 3, logs
    assert "pi = 3.14159265" in logs["impi-client-0"], logs


def _log(workers: Any, pod: dict[str, Any]) -> str:
    return workers.log(pod["metadata"]["name"]).decode()
