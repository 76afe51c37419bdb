"""Places the nodes of a lab as Jobs of a cluster.

A node's sshd is published at a port of the cluster's workers. So the lab reaches nodes as it
reaches hosts that exist (:mod:`impi.lab.backends.ssh`). Nodes reach each other as pods do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from impi.base.errors import LabError
from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster, Object, Told
from impi.lab.backends.kubernetes.cluster_objects import NODE, Objects
from impi.lab.backends.kubernetes.pod_states import Trouble, ending, runs, trouble
from impi.lab.backends.placed.lab import Login
from impi.lab.backends.ssh.hosts_file import Host

_RUNS_S: Final = 120.0  # until all pods of a lab run
_PATIENCE_S: Final = 30.0  # until a cluster, or a quota, has room that others may free
_TURN_S: Final = 0.3


class Jobs:
    """The Jobs of one lab; a :class:`~impi.lab.backends.placed.lab.Placing`."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        lab: str,
        labels: Mapping[str, str],
        login: Login,
        pull: str,
    ) -> None:
        self._cluster, self._lab, self._login = cluster, lab, login
        self._objects = Objects(lab, labels, pull)
        self._names: dict[str, str] = {}

    def start(
        self, nodes: Sequence[tuple[str, str]], images: Mapping[str, str]
    ) -> list[Host]:
        cluster, what = (
            self._cluster,
            f"lab {self._lab} cannot be placed in the cluster",
        )

        # Services and the secret belong to Jobs, so the cluster removes
        # them with these.
        owners: dict[str, Object] = {}
        for name, vendor in nodes:
            job = self._objects.job(name, images[vendor])
            made = cluster.ask(
                what, cluster.batch.create_namespaced_job, cluster.namespace, job
            )
            kind = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
            owners[name] = {
                **kind,
                "name": made.metadata.name,
                "uid": made.metadata.uid,
            }

        ports: dict[str, int] = {}
        for name, owner in owners.items():
            service = self._objects.service(name, owner)
            made = cluster.ask(
                what, cluster.core.create_namespaced_service, cluster.namespace, service
            )
            ports[name] = made.spec.ports[0].node_port

        # Last: pods wait for it, and a Job must be there to own it.
        secret = self._objects.secret(self._login.files, next(iter(owners.values())))
        cluster.ask(
            what, cluster.core.create_namespaced_secret, cluster.namespace, secret
        )
        pods = self._running(
            {name: str(owner["name"]) for name, owner in owners.items()}
        )
        self._names = {
            name: f"pod {pod.metadata.name} on worker {pod.spec.node_name}"
            for name, pod in pods.items()
        }

        return [
            self._login.host(
                name,
                vendor,
                address=pods[name].status.pod_ip,
                ssh=pods[name].status.host_ip,
                port=ports[name],
            )
            for name, vendor in nodes
        ]

    def fate(self, node: str) -> str:
        if node not in self._names:
            return ""

        try:
            return f"; {self._names[node]}: {ending(self._pods().get(node))}"
        except LabError as error:
            return f"; {error.message}"

    def _pods(self) -> dict[str, Told]:
        cluster = self._cluster
        listed = cluster.core.list_namespaced_pod
        what = f"the pods of lab {self._lab} cannot be seen"
        found = cluster.ask(
            what, listed, cluster.namespace, label_selector=self._objects.selector
        )

        return {pod.metadata.labels[NODE]: pod for pod in found.items}

    def _running(self, jobs: Mapping[str, str]) -> dict[str, Told]:
        began = time.monotonic()
        while True:
            pods = self._pods()

            # A pod that is not there yet waits, too: its Job may still be making it.
            waiting = [node for node in jobs if not runs(pods.get(node))]
            if not waiting:
                return pods

            waited_s = time.monotonic() - began
            for node in waiting:
                pod = pods.get(node)
                why = self._not_made(jobs[node]) if pod is None else trouble(pod)

                name = (
                    f"a pod of {jobs[node]}"
                    if pod is None
                    else f"pod {pod.metadata.name}"
                )
                # Some troubles end by themselves once others free their room;
                # hopeless ones are told at once.
                if why and (why.hopeless or waited_s > _PATIENCE_S):
                    raise LabError(f"{name} does not run: {why}")

                if waited_s > _RUNS_S:
                    raise LabError(
                        f"{name} does not run after {_RUNS_S:g} s: 'kubectl describe' may show why"
                    )

            time.sleep(_TURN_S)

    def _not_made(self, job: str) -> Trouble | None:
        # Without a pod only the events of its Job say why.
        cluster = self._cluster
        of_job = f"involvedObject.kind=Job,involvedObject.name={job}"
        what = f"the events of {job} cannot be seen"

        found = cluster.ask(
            what,
            cluster.core.list_namespaced_event,
            cluster.namespace,
            field_selector=of_job,
        )
        for event in found.items:
            if event.reason == "FailedCreate":
                return Trouble(
                    reason=event.reason, message=event.message or "", hopeless=False
                )

        return None
