"""The backend ``swarm``: labs on the engines of an existing Docker swarm.

A swarm places nodes and gives them a network (:mod:`.tasks`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from impi.base.errors import LabError
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.placed.backend import PlacedBackend
from impi.lab.backends.placed.lab import Login, Placing
from impi.lab.backends.swarm.inventory import SwarmInventory
from impi.lab.backends.swarm.tasks import Tasks, engines
from impi.lab.nodes.interface import ON_SWARM, Finding

_FEWEST: Final = 2


class SwarmBackend(PlacedBackend):
    """A :class:`~impi.lab.nodes.interface.Backend` of a swarm, of which this engine is a manager.

    Raises:
        LabError: no engine answers.
    """

    def __init__(self) -> None:
        self._client = connect()
        super().__init__(ON_SWARM, "a swarm", SwarmInventory(self._client))

    def doctor(self) -> list[Finding]:
        try:
            found = engines(self._client)
        except LabError as error:
            return [Finding(subject="swarm", ok=False, detail=error.message)]

        detail = f"{len(found)} nodes take tasks: {', '.join(found.values())}"
        cure = (
            ""
            if len(found) >= _FEWEST
            else "let another engine join: docker swarm join"
        )

        return [Finding(subject="swarm", ok=bool(found), detail=detail, cure=cure)]

    def images(self, vendors: Collection[str]) -> dict[str, str]:
        """Return ids of images: an engine that runs a task must have them, and asks no registry."""
        return Images(self._client).ensure(vendors)

    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        return Tasks(self._client, lab, labels, login)
