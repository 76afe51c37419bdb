"""What backends share that place the nodes of a lab: as tasks of a swarm, as Jobs of a cluster."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from impi.errors import LabError, UsageError
from impi.manifests import machine_of, manifest
from impi.testbed.backends.lifecycle.cleanup import remove_expired
from impi.testbed.backends.placed.placed_lab import Login, PlacedLab, Placing
from impi.testbed.lab.interface import Access, Build, Finding, Inventory, Lab, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import is_remote


class PlacedBackend(ABC):
    """A :class:`~impi.testbed.lab.interface.Backend` of placed nodes.

    Args:
        name: of the backend.
        place: in words, such as ``a swarm``.
        inventory: of its labs.
    """

    def __init__(self, name: str, place: str, inventory: Inventory) -> None:
        self.name = name
        self.inventory = inventory
        self.builds: Mapping[str, Build] = {}
        self._place = place
        self._built: dict[str, str] = {}
        self._tidied = False
        self._open: weakref.WeakSet[PlacedLab] = weakref.WeakSet()
        atexit.register(self._close_all)

    @abstractmethod
    def doctor(self) -> list[Finding]:
        """Examine the place; changes nothing."""

    @abstractmethod
    def images(self, vendors: Collection[str]) -> dict[str, str]:
        """Return the image of each vendor, as nodes are to name it; build missing ones here."""

    @abstractmethod
    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        """Return the placing of one lab's nodes."""

    def prepare(
        self, vendors: Sequence[str], builds: Mapping[str, str] | None = None, *, compiled: bool = False
    ) -> None:
        """Build the images that this engine lacks; the nodes' machines must have them, too."""
        if builds:
            raise UsageError("--replace: a build of your own takes part with --backend docker only")
        self._built.update(self.images({*(v for v in vendors if not is_remote(v)), "pure"}))

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Clients of one node each, with a library of their own."""
        if any(shape.nodes > 1 for shape in topology.clients):
            return f"on {self._place} each client has one node: its mpiexec would need logins between them"
        other = next((v for v in vendors if is_remote(v) or manifest(v).kind != "backed" or machine_of(v)), "")
        return f"{other} needs what only --backend docker has" if other else ""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms | None = None) -> Lab:
        """Place a lab, building its images if need be."""
        topology.check(vendors)
        if reason := self.supports(topology, vendors):
            raise UsageError(f"topology {topology}: {reason}")
        if not self._tidied:
            self._tidied = True
            remove_expired(self.inventory)
        if not {*vendors, "pure"} <= self._built.keys():
            self.prepare(vendors)
        lab = PlacedLab(self.name, self.placing, self.inventory, self._built, vendors, topology, run, terms or Terms())
        self._open.add(lab)
        lab.start()
        return lab

    def attach(self, access: Access) -> Lab:
        """LabError: such labs end with their openers."""
        raise LabError(f"lab {access.lab} on {self._place} has ended with its opener")

    def no_machine(self, machine: str) -> str:
        """Nodes are what their machines are."""
        return f"the nodes of {self._place} are no {machine}"

    def no_network(self) -> str:
        """The network belongs to the place."""
        return f"the network of {self._place} is not the lab's to change; use --backend docker"

    def network(self, access: Access) -> Network:
        """LabError: see :meth:`no_network`."""
        raise LabError(self.no_network())

    def logs(self, access: Access, node: str) -> str:
        """Nothing: the lab has ended with its opener."""
        return ""

    def _close_all(self) -> None:
        for lab in list(self._open):
            with contextlib.suppress(LabError):
                lab.close()
