"""The backend ``swarm``: labs on the engines of an existing Docker swarm.

A swarm places nodes and gives them a network (:mod:`.swarm_tasks`); from then on they are hosts
that exist, with one node for each client and without captures (:mod:`impi.testbed.backends.ssh`).
"""

from __future__ import annotations

import atexit
import contextlib
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import docker

from impi.errors import LabError, UsageError
from impi.manifests import machine_of, manifest
from impi.testbed.backends.docker.docker_engine import connect
from impi.testbed.backends.docker.docker_inventory import LABEL
from impi.testbed.backends.docker.images.node_images import Images
from impi.testbed.backends.lifecycle.cleanup import new_labels, remove_expired
from impi.testbed.backends.lifecycle.reaper import reaper_of
from impi.testbed.backends.ssh.hosts_file import HostsFile
from impi.testbed.backends.ssh.ssh_lab import SshLab
from impi.testbed.backends.swarm.swarm_inventory import SwarmInventory
from impi.testbed.backends.swarm.swarm_tasks import Tasks, engines
from impi.testbed.lab.interface import ON_SWARM, Access, Build, Finding, Inventory, Lab, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import is_remote

_FEWEST: Final = 2


class SwarmLab(SshLab):
    """A lab on a swarm. Call :meth:`start`, and :meth:`close` whatever happens."""

    def __init__(
        self,
        client: docker.DockerClient,
        images: Mapping[str, str],
        vendors: Sequence[str],
        topology: Topology,
        run: str,
        terms: Terms,
    ) -> None:
        super().__init__(HostsFile(path=Path(ON_SWARM)), vendors, topology, run, terms, (), backend=ON_SWARM)
        self._images, self._inventory = images, SwarmInventory(client)
        self._keys = tempfile.TemporaryDirectory(prefix="impilab-swarm-")
        labels = new_labels(self.name, run, vendors, topology, terms)
        self._tasks = Tasks(
            client, self.name, {f"{LABEL}{name}": text for name, text in labels.items()}, Path(self._keys.name)
        )

    def start(self) -> None:
        """Place the nodes, then log in; nothing is left behind when it fails or is interrupted."""
        reaper_of(ON_SWARM)  # first of all: should this process be killed, it removes the lab
        try:
            nodes = [("server", "pure"), *((f"client{i}", vendor) for i, vendor in enumerate(self._vendors))]
            self._placed = self._tasks.start(nodes, self._images)
        except BaseException:
            self.close()
            raise
        super().start()

    def close(self) -> None:
        """End everything and remove the nodes. May be called twice.

        Raises:
            LabError: the manager does not answer; ``impilab clean --backend swarm`` helps later.
        """
        super().close()
        self._keys.cleanup()
        for seen in self._inventory.find():
            if seen.lab == self.name:
                self._inventory.remove(seen)


class SwarmBackend:
    """A :class:`~impi.testbed.lab.interface.Backend` of a swarm, of which this engine is a manager.

    Raises:
        LabError: no engine answers.
    """

    name = ON_SWARM

    def __init__(self) -> None:
        self._client = connect()
        self._images = Images(self._client)
        self._built: dict[str, str] = {}
        self._tidied = False
        self._open: weakref.WeakSet[SwarmLab] = weakref.WeakSet()
        self.inventory: Inventory = SwarmInventory(self._client)
        self.builds: Mapping[str, Build] = {}
        atexit.register(self._close_all)

    def doctor(self) -> list[Finding]:
        """Examine the swarm; changes nothing."""
        try:
            found = engines(self._client)
        except LabError as error:
            return [Finding(subject="swarm", ok=False, detail=error.message)]
        detail = f"{len(found)} nodes take tasks: {', '.join(found.values())}"
        cure = "" if len(found) >= _FEWEST else "let another engine join: docker swarm join"
        return [Finding(subject="swarm", ok=bool(found), detail=detail, cure=cure)]

    def prepare(
        self, vendors: Sequence[str], builds: Mapping[str, str] | None = None, *, compiled: bool = False
    ) -> None:
        """Build the images that this engine lacks; other nodes of the swarm must have them, too."""
        if builds:
            raise UsageError("--replace: a build of your own takes part with --backend docker only")
        self._built.update(self._images.ensure([*(v for v in vendors if not is_remote(v)), "pure"]))

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Clients of one node each, with a library of their own."""
        if any(shape.nodes > 1 for shape in topology.clients):
            return "on a swarm each client has one node: its mpiexec would need logins between them"
        other = next((v for v in vendors if is_remote(v) or manifest(v).kind != "backed" or machine_of(v)), "")
        return f"{other} needs what only --backend docker has" if other else ""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms | None = None) -> Lab:
        """Place a lab on the swarm, building its images if need be."""
        topology.check(vendors)
        if reason := self.supports(topology, vendors):
            raise UsageError(f"topology {topology}: {reason}")
        if not self._tidied:
            self._tidied = True
            remove_expired(self.inventory)
        if not {*vendors, "pure"} <= self._built.keys():
            self.prepare(vendors)
        lab = SwarmLab(self._client, self._built, vendors, topology, run, terms or Terms())
        self._open.add(lab)
        lab.start()
        return lab

    def attach(self, access: Access) -> Lab:
        """LabError: such labs end with their openers."""
        raise LabError(f"lab {access.lab} on the swarm has ended with its opener")

    def no_machine(self, machine: str) -> str:
        """Nodes are what the swarm's engines are."""
        return f"the nodes of the swarm are no {machine}"

    def no_network(self) -> str:
        """The overlay network is the swarm's."""
        return "the network of a swarm is not the lab's to change; use --backend docker"

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
