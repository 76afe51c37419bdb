"""The labs on an engine, and removing them part by part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.docker.engine import engine_fault, ignore_missing
from impi.lab.backends.lifecycle.lab_labels import LABEL, labs_of, ours
from impi.lab.backends.nodes import in_parallel
from impi.lab.nodes.interface import LabSeen

_GONE_S: Final = 60.0
_TURN_S: Final = 0.1
_CONFLICT: Final = 409
_BUSY: Final = (403, _CONFLICT)
_FREE_S: Final = 20.0
_PATIENCE_S: Final = 5.0


class DockerInventory:
    """A :class:`~impi.lab.nodes.interface.Inventory`. LabError: the engine refuses."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def find(self) -> list[LabSeen]:
        with engine_fault("the engine's labs cannot be listed"):
            return labs_of(self._parts())

    def remove(self, seen: LabSeen, *, patience_s: float = _PATIENCE_S) -> list[str]:
        """Remove containers first; ``patience_s`` is for the networks and volumes that they use."""
        removed = []
        with engine_fault(f"lab {seen.lab} cannot be removed"):
            names = [
                part.partition(" ")[2]
                for part in seen.parts
                if part.startswith("container ")
            ]

            in_parallel(self._remove_container, names)
            for part in seen.parts:
                kind, _, name = part.partition(" ")
                if kind == "network":
                    self._remove_network(name, patience_s)
                elif kind == "volume":
                    when_free(
                        lambda name=name: self._client.api.remove_volume(  # type: ignore[misc]
                            name, force=True
                        ),
                        patience_s,
                    )

                removed.append(part)

        return removed

    def _remove_network(self, name: str, patience_s: float) -> None:
        try:
            when_free(lambda: self._client.api.remove_network(name), patience_s)
        except APIError as error:
            with ignore_missing():
                if not self._client.networks.get(name).attrs.get("Containers"):
                    raise LabError(
                        f"network {name} cannot be removed: the engine counts containers in it that are gone;"
                        " it is removable once the engine was restarted"
                    ) from error

            raise

    def _parts(self) -> list[tuple[str, str, dict[str, str]]]:
        mine: dict[str, str | list[str] | bool] = {"label": f"{LABEL}lab"}
        found = [
            ("container", str(c.name), ours(c.labels))
            for c in self._client.containers.list(
                all=True, filters=mine, ignore_removed=True
            )
        ]
        networks = self._client.networks.list(filters=mine)
        # Overlay networks are those of backend swarm.
        own = [
            network for network in networks if network.attrs.get("Driver") != "overlay"
        ]
        found += [
            ("network", str(network.name), ours(network.attrs.get("Labels")))
            for network in own
        ]
        volumes = self._client.volumes.list(filters=mine)

        return found + [
            ("volume", str(v.name), ours(v.attrs.get("Labels"))) for v in volumes
        ]

    def _remove_container(self, name: str) -> None:
        with ignore_missing():
            remove_container(self._client.containers.get(name))


def remove_container(container: Container) -> None:
    """End and remove a container; it is gone afterwards, even if others remove it, too.

    Most containers go with their end and are only killed here. An engine that removes one container
    twice at a time may miscount its network's endpoints, and then never removes that network.
    """
    with ignore_missing():
        try:
            container.kill()
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise

            _remove_idle(container)  # it has not run yet, or is being removed

        container.reload()
        if not container.attrs["HostConfig"].get("AutoRemove"):
            _remove_idle(container)

        _wait_gone(container)


def _remove_idle(container: Container) -> None:
    try:
        container.remove(force=True, v=True)
    except APIError as error:
        if error.status_code != _CONFLICT:
            raise


def _wait_gone(container: Container) -> None:
    deadline = time.monotonic() + _GONE_S
    while time.monotonic() < deadline:
        container.reload()  # NotFound, once the container is gone
        time.sleep(_TURN_S)

    raise LabError(f"container {container.name} does not go away")


def when_free(remove: Callable[[], object], patience_s: float = _FREE_S) -> None:
    """Remove a network or volume as soon as the last container has let go of it."""
    patience = Patience(patience_s, 1)
    while True:
        try:
            remove()
        except NotFound:
            pass
        except APIError as error:
            if error.status_code not in _BUSY or patience.ended():
                raise

            time.sleep(_TURN_S)
            continue

        return
