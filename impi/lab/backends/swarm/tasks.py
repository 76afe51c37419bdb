"""The tasks of a lab on a swarm: a service of one task for each node, on one overlay network.

A node's sshd is published at a port of the engine that runs its task. So the lab reaches nodes as
it reaches hosts that exist (:mod:`impi.lab.backends.ssh`), whichever engine they are on. Nodes
reach each other on the overlay network.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import docker
from docker.types import EndpointSpec, Mount, RestartPolicy, SecretReference

from impi.base.errors import LabError
from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.lifecycle.lab_labels import full
from impi.lab.backends.placed.lab import Login
from impi.lab.backends.ssh.hosts_file import Host
from impi.lab.nodes.container_node import HOME, SSH_PORT, UID, USER

_Told: TypeAlias = dict[str, Any]  # an object, in the form that the engine returns
_RUNS_S: Final = 120.0
_TURN_S: Final = 0.2
_SHM: Final = 256 << 20
_ENDED: Final = ("complete", "shutdown", "failed", "rejected", "remove", "orphaned")
_READABLE: Final = 0o400


def engines(client: docker.DockerClient) -> dict[str, str]:
    """Return the addresses of the swarm's engines that take tasks, by id, in one order.

    Raises:
        LabError: this engine is not a manager of a swarm.
    """
    with engine_fault("the swarm's nodes cannot be listed"):
        state = client.info().get("Swarm", {})
        # Only a manager lists the nodes of a swarm, and starts services.
        if not state.get("ControlAvailable"):
            now = state.get("LocalNodeState", "inactive")
            raise LabError(
                f"this engine is not a manager of a swarm (state: {now}): make one with 'docker swarm init', "
                "or name a manager's engine in DOCKER_HOST"
            )

        takes_tasks = ("ready", "active")
        nodes = [(node.attrs, str(node.id)) for node in client.nodes.list()]
        # By address, so that nodes of a lab come to engines in the same
        # order each time.
        found = [
            (_address(told), name)
            for told, name in nodes
            if (told["Status"]["State"], told["Spec"]["Availability"]) == takes_tasks
        ]

        return {name: address for address, name in sorted(found)}


def _address(node: _Told) -> str:
    # A manager may know itself as 0.0.0.0 only.
    reached = (
        str(node.get("ManagerStatus", {}).get("Addr", ""))
        .rpartition(":")[0]
        .strip("[]")
    )
    return reached or str(node["Status"]["Addr"])


class Tasks:
    """The services of one lab. LabError: the manager refuses, or a task does not run.

    Args:
        labels: of all that is made, by which :class:`.inventory.SwarmInventory` finds it.
        login: the keys of its nodes.
    """

    def __init__(
        self,
        client: docker.DockerClient,
        lab: str,
        labels: Mapping[str, str],
        login: Login,
    ) -> None:
        self._client, self._lab, self._login = client, lab, login
        self._labels = full(labels)

    def start(
        self, nodes: Sequence[tuple[str, str]], images: Mapping[str, str]
    ) -> list[Host]:
        places = engines(self._client)
        if not places:
            raise LabError("no node of the swarm takes tasks: see 'docker node ls'")

        with engine_fault(f"lab {self._lab} cannot be placed on the swarm"):
            network = self._client.networks.create(
                f"impilab-{self._lab}",
                driver="overlay",
                attachable=True,
                labels=self._labels,
            )
            secrets = [
                self._secret(file, text) for file, text in self._login.files.items()
            ]
            ids = list(places)
            # the server goes beside the first node
            turns = [ids[max(0, number - 1) % len(ids)] for number in range(len(nodes))]
            services = [
                self._service(name, images[vendor], str(network.name), engine, secrets)
                for (name, vendor), engine in zip(nodes, turns, strict=True)
            ]

        # All services are asked for before the first is awaited, so their
        # tasks start side by side.
        deadline = time.monotonic() + _RUNS_S
        tasks = [self._running(service, deadline) for service in services]

        return [
            self._login.host(
                name,
                vendor,
                address=_overlay_address(task, str(network.id)),
                ssh=places[task["NodeID"]],
                port=int(task["Status"]["PortStatus"]["Ports"][0]["PublishedPort"]),
            )
            for (name, vendor), task in zip(nodes, tasks, strict=True)
        ]

    def fate(self, node: str) -> str:
        """Return nothing: the swarm forgets why a task ended once its engine is gone."""
        return ""

    def _secret(self, file: str, text: str) -> SecretReference:
        name = f"impilab-{self._lab}-{file}"
        made = self._client.secrets.create(
            name=name, data=text.encode(), labels=self._labels
        )
        owner = str(UID)

        return SecretReference(
            str(made.id),
            name,
            filename=f"{HOME}/.ssh/{file}",
            uid=owner,
            gid=owner,
            mode=_READABLE,
        )

    def _service(
        self,
        name: str,
        image: str,
        network: str,
        engine: str,
        secrets: Sequence[SecretReference],
    ) -> str:
        # In mode host the port is that of the task's own engine, so a node
        # is where it runs.
        port: Any = {"Protocol": "tcp", "TargetPort": SSH_PORT, "PublishMode": "host"}
        services: Any = self._client.services
        service = services.create(
            # by its id: the engine that runs the task must have the image, and asks no registry
            image,
            name=f"impilab-{self._lab}-{name}",
            hostname=name,
            labels=self._labels,
            user=USER,
            networks=[network],
            endpoint_spec=EndpointSpec(mode="dnsrr", ports=[port]),
            constraints=[f"node.id=={engine}"],
            # A restarted task would be another container, without the processes
            # of the job.
            restart_policy=RestartPolicy("none"),
            mounts=[Mount("/dev/shm", None, type="tmpfs", tmpfs_size=_SHM)],
            secrets=list(secrets),
            stop_grace_period=0,
        )

        return str(service.id)

    def _running(self, service: str, deadline: float) -> _Told:
        while True:
            with engine_fault(f"the tasks of lab {self._lab} cannot be seen"):
                api: Any = self._client.api
                tasks = api.tasks(filters={"service": service})

            task: _Told = tasks[0] if tasks else {"Status": {"State": "new"}}

            status = task["Status"]
            # Running without a published port means that impilab cannot log in yet.
            if status["State"] == "running" and status.get("PortStatus", {}).get(
                "Ports"
            ):
                return task

            if status["State"] in _ENDED or time.monotonic() > deadline:
                why = status.get("Err") or f"it is {status['State']}"
                if "No such image" in why:
                    why += "; bring this image to each node: 'docker save' it here, and 'docker load' it there"

                node = task.get("NodeID", "unknown")
                raise LabError(
                    f"a task of lab {self._lab} does not run on node {node} of the swarm: {why}"
                )

            time.sleep(_TURN_S)


def _overlay_address(task: _Told, network: str) -> str:
    for attached in task["NetworksAttachments"]:
        if attached["Network"]["ID"] == network:
            return str(attached["Addresses"][0]).partition("/")[0]

    raise LabError(f"a task has no address on the overlay network {network}")
