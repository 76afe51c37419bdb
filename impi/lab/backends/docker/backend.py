"""The backend ``docker``: labs of containers on one engine.

How it works: the backend keeps what outlives a lab: the images of vendors by name, the builds that
take a vendor's place (``--replace``), and whether the engine can disturb networks. ``prepare``
builds missing images before the first lab opens, so that no cell's time has a build in it. ``open``
puts all this into a :class:`.container_lab.LabPlan`, from which the lab makes networks and
containers.

Images are known by id and not by name: another run may give a name to another image while this run
still opens labs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from impi.lab.backends.docker import container_contents
from impi.lab.backends.docker.container_lab import DockerLab, LabPlan
from impi.lab.backends.docker.doctor import examine
from impi.lab.backends.docker.engine import connect, engine_fault
from impi.lab.backends.docker.foreign_machines import why_no_machine
from impi.lab.backends.docker.images.image_copies import Copies
from impi.lab.backends.docker.images.node_images import LINKS, SPY, Images
from impi.lab.backends.docker.images.replaced_images import image_of_build
from impi.lab.backends.docker.inventory import DockerInventory
from impi.lab.backends.docker.lab_network import neighbours_short
from impi.lab.backends.docker.link_sidecar import LinkSidecars, why_not
from impi.lab.backends.docker.subnet_pool import pool_from_environment
from impi.lab.backends.lifecycle.cleanup import lease
from impi.lab.backends.lifecycle.lab_opener import LabOpener
from impi.lab.nodes import Access, Finding, Lab, Network, Terms, Topology, is_remote
from impi.lab.nodes.builds import prefix_build
from impi.lab.nodes.compiled_programs import has_image

_MOST_NODES: Final = 200


class DockerBackend(LabOpener):
    """A :class:`impi.lab.nodes.interface.Backend`. LabError if no engine answers."""

    parts = True

    def __init__(self, *, publish: bool | None = None) -> None:
        self._client = connect()
        super().__init__("docker", "one engine", DockerInventory(self._client))
        self._images = Images(self._client)
        self._copies = Copies(self._client)
        self._built: dict[str, str] = {}
        self._compiled: dict[str, str] = {}

        if publish is None:
            # An engine in a virtual machine: addresses of its containers lead nowhere from here.
            publish = sys.platform != "linux" or "Desktop" in str(
                self._client.info().get("OperatingSystem", "")
            )

        self._publish = publish
        self._wanted: dict[str, str] = {}
        self._no_network: str | None = None

    def doctor(self) -> list[Finding]:
        return examine(self._client, self._images)

    def prepare(
        self,
        vendors: Sequence[str],
        builds: Mapping[str, str] | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        for vendor, what in (builds or {}).items():
            if what.startswith("/"):
                prefix_build(vendor, what)  # a mistake shows before anything is built

            self._wanted[vendor] = what

        container_contents.begin()
        vendors = [vendor for vendor in vendors if not is_remote(vendor)]

        found = self._images.ensure([*vendors, "pure"])
        for vendor in sorted(set(vendors) & self._wanted.keys()):
            what = self._wanted[vendor]
            found[vendor], build = image_of_build(
                self._client, self._images, vendor, what, found[vendor]
            )
            self.builds = {**self.builds, vendor: build}

        self._built.update(found)
        if compiled:
            own = [
                vendor
                for vendor in sorted(set(vendors))
                if has_image(vendor) and vendor not in self.builds
            ]
            self._compiled.update(self._images.with_programs(own))

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Return an empty text: a machine can carry every topology."""
        return _too_many(topology) or neighbours_short(
            sum(shape.nodes for shape in topology.clients)
        )

    def open(
        self,
        vendors: Sequence[str],
        topology: Topology,
        *,
        run: str,
        terms: Terms | None = None,
    ) -> Lab:
        self._check(vendors, topology, _too_many(topology))
        terms = terms or Terms()
        images, copies = self._images_of(vendors, terms)
        plan = LabPlan(
            access=lease(
                "docker",
                run,
                vendors,
                topology,
                terms,
                images=images,
                builds=self.builds,
            ),
            pool=pool_from_environment(),
            publish=self._publish or terms.publish,
            terms=terms,
            copies=copies,
        )
        lab = DockerLab(self._client, plan)
        # Known before it starts: if the start fails half-way, the opener still removes its parts.
        self._open.add(lab)
        lab.start()

        return lab

    def _images_of(
        self, vendors: Sequence[str], terms: Terms
    ) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
        """Return image ids by name, and volumes for their folders; build what is missing."""

        vendors = [vendor for vendor in vendors if not is_remote(vendor)]
        needed = {*vendors, "pure", "base", SPY}

        with_programs = (
            {v for v in vendors if has_image(v) and v not in self.builds}
            if terms.compiled
            else set()
        )
        if (
            not needed <= self._built.keys()
            or not with_programs <= self._compiled.keys()
        ):
            self.prepare(vendors, compiled=terms.compiled)

        images = {name: self._built[name] for name in sorted(needed)}
        copies = self._copies.ensure(
            self._built[name] for name in {*vendors, "pure"} - self.builds.keys()
        )
        # Folders that are copied are equal in the image with compiled programs.
        same = {
            self._compiled[v]: copies[images[v]]
            for v in with_programs
            if images[v] in copies
        }

        return {**images, **{v: self._compiled[v] for v in with_programs}}, {
            **copies,
            **same,
        }

    def attach(self, access: Access) -> Lab:
        return self._opened(DockerLab.attach(self._client, access))

    def no_machine(self, machine: str) -> str:
        return why_no_machine(machine)

    def no_network(self) -> str:
        """Try it once, in a container of its own."""
        # The kernel decides it, so one answer holds for the whole run.
        if self._no_network is None:
            self._no_network = why_not(self._client, self._images.tool(LINKS))

        return self._no_network

    def network(self, access: Access) -> Network:
        return LinkSidecars(self._client, access.nodes, access.expires)

    def logs(self, access: Access, node: str) -> str:
        with engine_fault(f"the log of {node} cannot be read"):
            return (
                self._client.containers.get(access.nodes[node].container)
                .logs()
                .decode("utf-8", "replace")
            )


def _too_many(topology: Topology) -> str:
    nodes = sum(shape.nodes for shape in topology.clients)
    return (
        f"{nodes} nodes are more than {_MOST_NODES} on one machine"
        if nodes > _MOST_NODES
        else ""
    )
