"""The backend ``swarm``: labs on the engines of an existing Docker swarm.

A swarm places nodes and gives them a network (:mod:`.swarm_tasks`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from impi.errors import LabError
from impi.testbed.backends.docker.docker_engine import connect
from impi.testbed.backends.docker.images.node_images import Images
from impi.testbed.backends.placed.placed_backend import PlacedBackend
from impi.testbed.backends.placed.placed_lab import Login, Placing
from impi.testbed.backends.swarm.swarm_inventory import SwarmInventory
from impi.testbed.backends.swarm.swarm_tasks import Tasks, engines
from impi.testbed.lab.interface import ON_SWARM, Finding

_FEWEST: Final = 2


class SwarmBackend(PlacedBackend):
    """A :class:`~impi.testbed.lab.interface.Backend` of a swarm, of which this engine is a manager.

    Raises:
        LabError: no engine answers.
    """

    def __init__(self) -> None:
        self._client = connect()
        super().__init__(ON_SWARM, "a swarm", SwarmInventory(self._client))

    def doctor(self) -> list[Finding]:
        """Examine the swarm; changes nothing."""
        try:
            found = engines(self._client)
        except LabError as error:
            return [Finding(subject="swarm", ok=False, detail=error.message)]
        detail = f"{len(found)} nodes take tasks: {', '.join(found.values())}"
        cure = "" if len(found) >= _FEWEST else "let another engine join: docker swarm join"
        return [Finding(subject="swarm", ok=bool(found), detail=detail, cure=cure)]

    def images(self, vendors: Collection[str]) -> dict[str, str]:
        """Return ids of images: an engine that runs a task must have them, and asks no registry."""
        return Images(self._client).ensure(vendors)

    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        """Return the services of one lab."""
        return Tasks(self._client, lab, labels, login)
