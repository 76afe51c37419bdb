"""The labs of a namespace of a cluster, and removing them part by part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from impi.base.errors import LabError
from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster, Told
from impi.lab.backends.kubernetes.cluster_objects import LAB, key_of
from impi.lab.backends.lifecycle.lab_labels import labs_of, ours
from impi.lab.backends.lifecycle.ownership import is_of_this_boot
from impi.lab.nodes.interface import LabSeen

# time for workers to end pods; pods of a lost worker are then removed without it
_FREE_S: Final = 20.0
_GONE_S: Final = 30.0
_TURN_S: Final = 0.2


class ClusterInventory:
    """A :class:`~impi.lab.nodes.interface.Inventory`. LabError: the cluster refuses."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def find(self) -> list[LabSeen]:
        """Return all labs, by the labels of their Jobs, Services and Secrets.

        Whether an opener on another machine lives cannot be seen: it does until its time is over.
        """
        return [self._seen(seen) for seen in labs_of(self._parts())]

    def remove(self, seen: LabSeen) -> list[str]:
        cluster, what = self._cluster, f"lab {seen.lab} cannot be removed"

        removes = {
            "job": cluster.batch.delete_namespaced_job,
            "service": cluster.core.delete_namespaced_service,
            "secret": cluster.core.delete_namespaced_secret,
        }
        for kind, remove in removes.items():
            for part in seen.parts:
                if part.startswith(f"{kind} "):
                    options = (
                        {"propagation_policy": "Background"} if kind == "job" else {}
                    )
                    cluster.ask(
                        what,
                        remove,
                        part.partition(" ")[2],
                        cluster.namespace,
                        gone=True,
                        **options,
                    )

        began = time.monotonic()
        while pods := self._pods(seen.lab):
            waited_s = time.monotonic() - began
            if waited_s > _GONE_S:
                raise LabError(f"{what}: pod {pods[0].metadata.name} does not go away")

            if waited_s > _FREE_S:
                for pod in pods:
                    remove = cluster.core.delete_namespaced_pod
                    cluster.ask(
                        what,
                        remove,
                        pod.metadata.name,
                        cluster.namespace,
                        gone=True,
                        grace_period_seconds=0,
                    )

            time.sleep(_TURN_S)

        return list(seen.parts)

    def _seen(self, seen: LabSeen) -> LabSeen:
        elsewhere = not is_of_this_boot(seen.labels.get("owner", ""))
        return replace(seen, state="running") if elsewhere and seen.left_s > 0 else seen

    def _pods(self, lab: str) -> list[Told]:
        cluster = self._cluster
        what = f"the pods of lab {lab} cannot be listed"
        found = cluster.ask(
            what,
            cluster.core.list_namespaced_pod,
            cluster.namespace,
            label_selector=f"{LAB}={key_of(lab)}",
        )

        return list(found.items)

    def _parts(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        cluster, what = self._cluster, "the cluster's labs cannot be listed"
        for kind, listed in (
            ("job", cluster.batch.list_namespaced_job),
            ("service", cluster.core.list_namespaced_service),
            ("secret", cluster.core.list_namespaced_secret),
        ):
            for each in cluster.ask(
                what, listed, cluster.namespace, label_selector=LAB
            ).items:
                yield kind, each.metadata.name, ours(each.metadata.annotations)
