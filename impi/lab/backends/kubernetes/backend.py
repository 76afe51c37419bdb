"""The backend ``kubernetes[:NAMESPACE]``: labs of Jobs in an existing cluster.

A cluster places nodes and gives them addresses (:mod:`.cluster_jobs`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final

from impi.base.errors import LabError
from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster
from impi.lab.backends.kubernetes.cluster_inventory import ClusterInventory
from impi.lab.backends.kubernetes.cluster_jobs import Jobs
from impi.lab.backends.placed.backend import PlacedBackend
from impi.lab.backends.placed.lab import Login, Placing
from impi.lab.nodes.interface import ON_KUBERNETES, Finding

_OURS: Final = "impilab/"
_RIGHTS: Final = {
    "jobs": ("create", "list", "delete"),
    "services": ("create", "list", "delete"),
    "secrets": ("create", "list", "delete"),
    "pods": ("list", "delete"),
    "events": ("list",),
}


class KubernetesBackend(PlacedBackend):
    """A :class:`~impi.lab.nodes.interface.Backend` of a namespace of a cluster.

    Raises:
        LabError: no cluster is named.
    """

    def __init__(self, namespace: str = "") -> None:
        self._cluster = KubernetesCluster(namespace)
        self._registry = os.environ.get("IMPILAB_REGISTRY", "").rstrip("/")
        name = f"{ON_KUBERNETES}:{self._cluster.namespace}"
        super().__init__(name, "a Kubernetes cluster", ClusterInventory(self._cluster))

    def doctor(self) -> list[Finding]:
        cluster = self._cluster
        try:
            version = cluster.ask(
                "the cluster cannot be used", cluster.version.get_code
            ).git_version
            refused = [
                f"{verb} {kind}"
                for kind, verbs in _RIGHTS.items()
                for verb in verbs
                if not self._may(verb, kind)
            ]
        except LabError as error:
            return [Finding(subject="cluster", ok=False, detail=error.message)]

        rights = (
            f"you may not {', '.join(refused)}"
            if refused
            else "you may do there what a lab needs"
        )
        cure = (
            "let an administrator apply clusters/kubernetes/role.yaml"
            if refused
            else ""
        )

        return [
            Finding(subject="cluster", ok=True, detail=f"Kubernetes {version}"),
            Finding(
                subject=f"namespace {cluster.namespace}",
                ok=not refused,
                detail=rights,
                cure=cure,
            ),
        ]

    def images(self, vendors: Collection[str]) -> dict[str, str]:
        """Return the names of images; the cluster's workers must have them, or their registry."""

        from impi.lab.backends.docker.engine import connect
        from impi.lab.backends.docker.images.node_images import Images

        engine = connect()

        found = {}
        for vendor, image in Images(engine).ensure(vendors).items():
            tag = next(
                tag for tag in engine.images.get(image).tags if tag.startswith(_OURS)
            )
            found[vendor] = (
                f"{self._registry}/{tag.removeprefix(_OURS)}" if self._registry else tag
            )

        return found

    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        # Without a registry of yours, nothing is pulled: a stranger's image might have that name.
        return Jobs(
            self._cluster,
            lab,
            labels,
            login,
            "IfNotPresent" if self._registry else "Never",
        )

    def _may(self, verb: str, kind: str) -> bool:
        cluster, group = self._cluster, "batch" if kind == "jobs" else ""
        wish = {
            "namespace": cluster.namespace,
            "verb": verb,
            "group": group,
            "resource": kind,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wish},
        }
        asked = cluster.rights.create_self_subject_access_review

        return bool(
            cluster.ask("your rights cannot be seen", asked, review).status.allowed
        )
