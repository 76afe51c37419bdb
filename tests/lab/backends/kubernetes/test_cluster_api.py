"""The choice of a cluster, and sentences for refusals by it or its client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cluster_stand_in import NAMESPACE

from impi.base.errors import LabError
from impi.lab.backends import choose_backend
from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster


def test_what_the_client_does_not_take_is_told() -> None:
    made = KubernetesCluster()
    with pytest.raises(
        LabError,
        match=r"^refused: the client of the API does not accept it: .*Field required",
    ):
        made.ask(
            "refused",
            made.batch.create_namespaced_job,
            NAMESPACE,
            {"spec": {"template": {"spec": {}}}},
        )


def test_the_namespace_is_that_of_the_context_or_the_named_one() -> None:
    assert choose_backend("kubernetes").name == f"kubernetes:{NAMESPACE}"
    assert choose_backend("kubernetes:other").name == "kubernetes:other"


def test_a_relative_file_is_found_from_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "kubeconfig")
    choose_backend("kubernetes")
    assert os.environ["KUBECONFIG"] == str(tmp_path / "kubeconfig")


def test_without_a_cluster_the_cure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(
        LabError, match=r"no Kubernetes cluster is named .* or set KUBECONFIG"
    ):
        choose_backend("kubernetes")


def test_without_its_client_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    for name in [
        name for name in sys.modules if name.startswith("impi.lab.backends.kubernetes.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        LabError,
        match=r"needs the package kubernetes: pip install 'impilab\[kubernetes\]'",
    ):
        choose_backend("kubernetes")
