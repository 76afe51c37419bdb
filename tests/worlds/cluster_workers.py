"""The workers of the stand-in: containers of this machine's engine, on a network of their own."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import docker
from cluster_stand_in import StandIn, stand_in
from docker.errors import APIError, ImageNotFound, NotFound

from impi.lab.backends.docker.engine import connect

Object: TypeAlias = dict[str, Any]
_NETWORK: Final = f"impilab-pods-{os.getpid()}"
HOST: Final = "127.0.0.1"


class DockerWorkers:
    """Runs pods, as far as the objects of labs and manifests ask."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client
        self._lost: set[str] = set()
        self._network = client.networks.create(_NETWORK, driver="bridge")

    def has(self, image: str) -> bool:
        try:
            return bool(self._client.images.get(image))
        except ImageNotFound:
            return False

    def run(
        self, pod: Object, secrets: Mapping[str, Object], services: list[Object]
    ) -> tuple[str, str]:
        spec, name = pod["spec"], pod["metadata"]["name"]
        (container,) = spec["containers"]
        security = spec.get("securityContext", {})
        published = {
            f"{port['targetPort']}/tcp": (HOST, port["nodePort"])
            for service in services
            for port in service["spec"].get("ports", ())
            if "nodePort" in port
        }
        # The names of headless Services.
        names = [
            each["metadata"]["name"]
            for each in services
            if each["spec"].get("clusterIP") == "None"
        ]
        attached = self._client.api.create_endpoint_config(aliases=names)
        made = self._client.containers.create(
            container["image"],
            name=name,
            entrypoint=container.get("command"),
            command=container.get("args"),
            environment=_environment(container, secrets),
            user=f"{security.get('runAsUser', '')}:{security.get('runAsGroup', '')}".strip(
                ":"
            ),
            hostname=spec.get("hostname", name),
            working_dir=container.get("workingDir"),
            cap_drop=container.get("securityContext", {})
            .get("capabilities", {})
            .get("drop", []),
            security_opt=["no-new-privileges"],
            shm_size=256 << 20,
            ports=published,
            network=_NETWORK,
            networking_config={_NETWORK: attached},
        )
        for volume in spec.get("volumes", ()):
            if "secret" in volume:
                files = secrets[volume["secret"]["secretName"]]["data"]
                mode, group = (
                    volume["secret"].get("defaultMode", 0o644),
                    security.get("fsGroup", 0),
                )
                for mount in container["volumeMounts"]:
                    if mount["name"] == volume["name"]:
                        octets = base64.b64decode(files[mount["subPath"]])
                        made.put_archive(
                            "/", _file(mount["mountPath"], octets, mode, group)
                        )
        made.start()
        made.reload()
        return str(
            made.attrs["NetworkSettings"]["Networks"][_NETWORK]["IPAddress"]
        ), HOST

    def wait(self, pod: str) -> int:
        try:
            return int(self._client.containers.get(pod).wait(timeout=600)["StatusCode"])
        except (NotFound, APIError):
            return 137

    def end(self, pod: str, *, force: bool = False) -> bool:
        if pod in self._lost and not force:
            return False
        with contextlib.suppress(NotFound, APIError):
            self._client.containers.get(pod).kill()
        return True

    def log(self, pod: str) -> bytes:
        return bytes(self._client.containers.get(pod).logs())

    def lose(self, pod: str) -> None:
        """The worker of a pod is cut off: nothing that it sends arrives, and nobody is told."""
        self._network.disconnect(pod, force=True)
        self._lost.add(pod)

    def running(self) -> list[str]:
        return [
            str(each.name)
            for each in self._client.containers.list(filters={"network": _NETWORK})
        ]

    def close(self) -> None:
        self._network.reload()
        for name in {*self._lost, *(str(each.name) for each in self._mine())}:
            with contextlib.suppress(NotFound):
                self._client.containers.get(name).remove(force=True)
        self._network.remove()

    def _mine(self) -> list[Any]:
        return list(
            self._client.containers.list(all=True, filters={"network": _NETWORK})
        )


def _environment(container: Object, secrets: Mapping[str, Object]) -> dict[str, str]:
    found = {}
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            wanted = variable["valueFrom"]["secretKeyRef"]
            found[variable["name"]] = base64.b64decode(
                secrets[wanted["name"]]["data"][wanted["key"]]
            ).decode()
        else:
            found[variable["name"]] = variable["value"]
    return found


def _file(path: str, octets: bytes, mode: int, group: int) -> bytes:
    """A file of root's, as a volume of a Secret has it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode, entry.gid = len(octets), mode, group
        tar.addfile(entry, io.BytesIO(octets))
    return buffer.getvalue()


@contextmanager
def docker_cluster() -> Iterator[tuple[StandIn, DockerWorkers]]:
    """A stand-in whose pods are containers."""
    client = connect()
    workers = DockerWorkers(client)
    try:
        with stand_in(workers) as cluster:
            yield cluster, workers
    finally:
        workers.close()
        client.close()
