"""The common part of backends that place nodes as tasks of a swarm or Jobs of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from impi.base.errors import UsageError
from impi.base.manifests import machine_of, manifest
from impi.lab.backends.lifecycle.cleanup import lease
from impi.lab.backends.lifecycle.lab_opener import LabOpener
from impi.lab.backends.placed.lab import Login, PlacedLab, Placing
from impi.lab.nodes import Finding, Inventory, Lab, Terms, Topology, is_remote


class PlacedBackend(LabOpener, ABC):
    """A :class:`~impi.lab.nodes.interface.Backend` of placed nodes.

    Args:
        name: of the backend.
        place: in words, such as ``a swarm``.
        inventory: of its labs.
    """

    def __init__(self, name: str, place: str, inventory: Inventory) -> None:
        super().__init__(name, place, inventory)
        self._built: dict[str, str] = {}

    @abstractmethod
    def doctor(self) -> list[Finding]:
        """Examine the place; change nothing."""

    @abstractmethod
    def images(self, vendors: Collection[str]) -> dict[str, str]:
        """Return the image of each vendor by the name that nodes use; build missing ones here."""

    @abstractmethod
    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        """Return the placing of one lab's nodes."""

    def prepare(
        self,
        vendors: Sequence[str],
        builds: Mapping[str, str] | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        """Build the images that this engine lacks; the nodes' machines must have them, too."""
        if builds:
            raise UsageError(
                "--replace: a build of your own takes part with --backend docker only"
            )

        self._built.update(
            self.images({*(v for v in vendors if not is_remote(v)), "pure"})
        )

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Return why not: each client has one node, and a vendor with a library of its own."""
        if any(shape.nodes > 1 for shape in topology.clients):
            return f"on {self._place} each client has one node: its mpiexec would need logins between them"

        other = next(
            (
                v
                for v in vendors
                if is_remote(v) or manifest(v).kind != "backed" or machine_of(v)
            ),
            "",
        )

        return f"{other} needs what only --backend docker has" if other else ""

    def open(
        self,
        vendors: Sequence[str],
        topology: Topology,
        *,
        run: str,
        terms: Terms | None = None,
    ) -> Lab:
        self._check(vendors, topology, self.supports(topology, vendors))
        if not {*vendors, "pure"} <= self._built.keys():
            self.prepare(vendors)

        terms = terms or Terms()
        access = lease(self.name, run, vendors, topology, terms, images=self._built)
        lab = PlacedLab(access, terms.name, self.placing, self.inventory)
        self._open.add(lab)
        lab.start()

        return lab

    def no_machine(self, machine: str) -> str:
        return f"the nodes of {self._place} are not of type {machine}"
