"""The backend ``docker``: labs of containers on one engine."""

from __future__ import annotations

import atexit
import contextlib
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Final

from impi.errors import ImpiError, UsageError
from impi.testbed.backends.docker.container_lab import DockerLab, Plan
from impi.testbed.backends.docker.docker_engine import connect, engine_fault
from impi.testbed.backends.docker.docker_inventory import DockerInventory
from impi.testbed.backends.docker.doctor import examine
from impi.testbed.backends.docker.foreign_machines import why_no_machine
from impi.testbed.backends.docker.images.image_copies import Copies
from impi.testbed.backends.docker.images.node_images import LINKS, SPY, Images
from impi.testbed.backends.docker.images.replaced_images import image_of_build
from impi.testbed.backends.docker.lab_network import neighbours_short
from impi.testbed.backends.docker.link_sidecar import LinkSidecars, why_not
from impi.testbed.backends.docker.subnet_pool import pool_from_environment
from impi.testbed.backends.lifecycle.cleanup import remove_expired
from impi.testbed.lab.builds import prefix_build
from impi.testbed.lab.compiled_programs import has_image
from impi.testbed.lab.interface import Access, Build, Finding, Inventory, Lab, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import is_remote

_MOST_NODES: Final = 200


class DockerBackend:
    """A :class:`impi.testbed.lab.interface.Backend`. LabError if no engine answers.

    Labs still referred to are closed at the interpreter's end; a lab given to its user stays.
    """

    name = "docker"

    def __init__(self, *, publish: bool | None = None) -> None:
        self._client = connect()
        self._images = Images(self._client)
        self._copies = Copies(self._client)
        self._built: dict[str, str] = {}
        self._compiled: dict[str, str] = {}
        self._open: weakref.WeakSet[DockerLab] = weakref.WeakSet()
        if publish is None:
            # An engine inside a virtual machine: its containers' addresses lead nowhere from here.
            publish = sys.platform != "linux" or "Desktop" in str(self._client.info().get("OperatingSystem", ""))
        self._publish = publish
        self.inventory: Inventory = DockerInventory(self._client)
        self._tidied = False
        self._wanted: dict[str, str] = {}
        self.builds: Mapping[str, Build] = {}
        self._no_network: str | None = None
        atexit.register(self._close_all)

    def doctor(self) -> list[Finding]:
        """Examine the engine and what lies on it; builds and removes nothing."""
        return examine(self._client, self._images)

    def prepare(
        self, vendors: Sequence[str], builds: Mapping[str, str] | None = None, *, compiled: bool = False
    ) -> None:
        """Build the images that are missing."""
        for vendor, what in (builds or {}).items():
            if what.startswith("/"):
                prefix_build(vendor, what)  # a mistake is told before anything is built
            self._wanted[vendor] = what
        vendors = [vendor for vendor in vendors if not is_remote(vendor)]
        found = self._images.ensure([*vendors, "pure"])
        for vendor in sorted(set(vendors) & self._wanted.keys()):
            what = self._wanted[vendor]
            found[vendor], build = image_of_build(self._client, self._images, vendor, what, found[vendor])
            self.builds = {**self.builds, vendor: build}
        self._built.update(found)
        if compiled:
            own = [vendor for vendor in sorted(set(vendors)) if has_image(vendor) and vendor not in self.builds]
            self._compiled.update(self._images.with_programs(own))

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Every topology that one machine can carry."""
        return _too_many(topology) or neighbours_short(sum(shape.nodes for shape in topology.clients))

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms | None = None) -> Lab:
        """Start a lab, building its images if need be."""
        topology.check(vendors)
        reason = _too_many(topology)
        if reason:
            raise UsageError(f"topology {topology}: {reason}")
        if not self._tidied:
            # Unlike containers, networks and volumes do not go by themselves.
            self._tidied = True
            remove_expired(self.inventory)
        terms = terms or Terms()
        images, copies = self._images_of(vendors, terms)
        plan = Plan(
            run=run,
            vendors=tuple(vendors),
            topology=topology,
            images=images,
            pool=pool_from_environment(),
            publish=self._publish or terms.publish,
            terms=terms,
            copies=copies,
            builds={vendor: build for vendor, build in self.builds.items() if vendor in vendors},
        )
        lab = DockerLab(self._client, plan)
        self._open.add(lab)
        lab.start()
        return lab

    def _images_of(
        self, vendors: Sequence[str], terms: Terms
    ) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
        """Return image ids by name, and copies of their folders; builds what is missing."""
        vendors = [vendor for vendor in vendors if not is_remote(vendor)]
        needed = {*vendors, "pure", "base", SPY}
        with_programs = {v for v in vendors if has_image(v) and v not in self.builds} if terms.compiled else set()
        if not needed <= self._built.keys() or not with_programs <= self._compiled.keys():
            self.prepare(vendors, compiled=terms.compiled)
        images = {name: self._built[name] for name in sorted(needed)}
        copies = self._copies.ensure(self._built[name] for name in {*vendors, "pure"} - self.builds.keys())
        # What is copied of an image is the same in the one with programs.
        same = {self._compiled[v]: copies[images[v]] for v in with_programs if images[v] in copies}
        return {**images, **{v: self._compiled[v] for v in with_programs}}, {**copies, **same}

    def attach(self, access: Access) -> Lab:
        """A lab that is kept, as if it had been opened here."""
        lab = DockerLab.attach(self._client, access)
        self._open.add(lab)
        return lab

    def no_machine(self, machine: str) -> str:
        """Return why programs of that machine cannot run here; empty: an interpreter runs them."""
        return why_no_machine(machine)

    def no_network(self) -> str:
        """Tried once, in a container of its own."""
        if self._no_network is None:
            self._no_network = why_not(self._client, self._images.tool(LINKS))
        return self._no_network

    def network(self, access: Access) -> Network:
        """The network of a lab that stays."""
        return LinkSidecars(self._client, access.nodes, access.expires)

    def logs(self, access: Access, node: str) -> str:
        """Return the log of the node's sshd."""
        with engine_fault(f"the log of {node} cannot be read"):
            return self._client.containers.get(access.nodes[node].container).logs().decode("utf-8", "replace")

    def _close_all(self) -> None:
        """Close labs left open at the interpreter's end."""
        for lab in list(self._open):
            with contextlib.suppress(ImpiError):
                lab.close()


def _too_many(topology: Topology) -> str:
    nodes = sum(shape.nodes for shape in topology.clients)
    return f"{nodes} nodes are more than {_MOST_NODES} on one machine" if nodes > _MOST_NODES else ""
