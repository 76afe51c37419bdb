"""The labs of a swarm, and removing them part by part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import docker

from impi.lab.backends.docker.engine import engine_fault, ignore_missing
from impi.lab.backends.docker.inventory import when_free
from impi.lab.backends.lifecycle.lab_labels import LABEL, labs_of, ours
from impi.lab.nodes.interface import LabSeen

# Time for the tasks of a removed service to let go of networks and secrets
_FREE_S: Final = 30.0
_TURN_S: Final = 0.2


class SwarmInventory:
    """A :class:`~impi.lab.nodes.interface.Inventory`. LabError: the swarm's manager refuses."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def find(self) -> list[LabSeen]:
        with engine_fault("the swarm's labs cannot be listed"):
            return labs_of(self._parts())

    def remove(self, seen: LabSeen) -> list[str]:
        removes: dict[str, Callable[[str], object]] = {
            "service": self._client.api.remove_service,
            "secret": self._client.api.remove_secret,
            "network": self._client.api.remove_network,
        }
        with engine_fault(f"lab {seen.lab} cannot be removed"):
            for kind, remove in removes.items():
                for part in seen.parts:
                    if part.startswith(f"{kind} "):
                        name = part.partition(" ")[2]
                        with ignore_missing():
                            when_free(partial(remove, name), _FREE_S)

            # This engine keeps a network until its own tasks have left it.
            deadline = time.monotonic() + _FREE_S
            while (
                any(mine.get("lab") == seen.lab for _, _, mine in self._parts())
                and time.monotonic() < deadline
            ):
                time.sleep(_TURN_S)

        return list(seen.parts)

    def _parts(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        mine: dict[str, Any] = {"label": f"{LABEL}lab"}
        for kind, found in (
            ("service", self._client.services.list(filters=mine)),
            ("secret", self._client.secrets.list(filters=mine)),
        ):
            for each in found:
                spec = each.attrs["Spec"]
                yield kind, spec["Name"], ours(spec.get("Labels"))

        for network in self._client.networks.list(
            filters={**mine, "driver": "overlay"}
        ):
            yield "network", str(network.name), ours(network.attrs.get("Labels"))
