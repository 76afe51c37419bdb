"""The objects of a lab in a cluster: for each node a Job of one pod and a Service, and one Secret.

A Job ends with the lab's lifetime and is removed soon after it; all else belongs to a Job, and goes
with it. So nothing stays for long, even if opener and reaper are both killed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from impi.lab.backends.kubernetes.cluster_api import Object
from impi.lab.backends.lifecycle.lab_labels import LABEL, full
from impi.lab.nodes.container_node import HOME, SSH_PORT, UID

LAB: Final = f"{LABEL}lab"
NODE: Final = f"{LABEL}node"
_REMOVED_AFTER_S: Final = 60
_SHM: Final = "256Mi"
_READABLE: Final = 0o440
# "impilab-", this, "-client15", and what a Job adds are 63 characters
_LONGEST: Final = 44


def key_of(lab: str) -> str:
    """Return a lab's name in the form that labels and names of objects allow."""
    return re.sub(r"[^a-z0-9]+", "-", lab.lower())[-_LONGEST:].strip("-")


class Objects:
    """The objects of one lab.

    Args:
        labels: all of the lab's; most have values that only annotations take.
        pull: when a worker pulls an image.
    """

    def __init__(self, lab: str, labels: Mapping[str, str], pull: str) -> None:
        self._key, self._labels, self._pull = key_of(lab), labels, pull
        self.selector = f"{LAB}={self._key}"

    def job(self, node: str, image: str) -> Object:
        ends_s = float(self._labels["expires"]) - float(self._labels["created"])
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self._metadata(node),
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": max(1, round(ends_s)),
                "ttlSecondsAfterFinished": _REMOVED_AFTER_S,
                "template": {
                    "metadata": {"labels": self._own(node)},
                    "spec": self._pod(node, image),
                },
            },
        }

    def service(self, node: str, owner: Object) -> Object:
        """Return a Service that publishes a node's sshd at a port of each worker."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**self._metadata(node), "ownerReferences": [owner]},
            "spec": {
                "type": "NodePort",
                "selector": self._own(node),
                "ports": [{"port": SSH_PORT, "targetPort": SSH_PORT}],
            },
        }

    def secret(self, files: Mapping[str, str], owner: Object) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**self._metadata("keys"), "ownerReferences": [owner]},
            "immutable": True,
            "stringData": dict(files),
        }

    def _own(self, node: str) -> dict[str, str]:
        return {LAB: self._key, NODE: node}

    def _metadata(self, node: str) -> Object:
        name = f"impilab-{self._key}-{node}"
        return {
            "name": name,
            "labels": self._own(node),
            "annotations": full(self._labels),
        }

    def _pod(self, node: str, image: str) -> Object:
        files = ("authorized_keys", "host_key")
        # One by one: a volume's folder is writable for others, and sshd
        # refuses keys in such a folder.
        keys = [
            {"name": "keys", "mountPath": f"{HOME}/.ssh/{file}", "subPath": file}
            for file in files
        ]
        return {
            "restartPolicy": "Never",
            "hostname": node,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": UID,
                "runAsGroup": UID,
                "fsGroup": UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            # On different workers, if there are several.
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {LAB: self._key}},
                }
            ],
            "containers": [
                {
                    "name": "node",
                    "image": image,
                    "imagePullPolicy": self._pull,
                    "ports": [{"containerPort": SSH_PORT}],
                    "resources": {"requests": {"cpu": "100m", "memory": _SHM}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, *keys],
                }
            ],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _SHM}},
                {
                    "name": "keys",
                    "secret": {
                        "secretName": f"impilab-{self._key}-keys",
                        "defaultMode": _READABLE,
                    },
                },
            ],
        }
