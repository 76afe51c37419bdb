"""A lab of placed nodes, such as tasks of a swarm; once they run, they are hosts that exist.

Each client has one node, and nobody captures (:mod:`impi.testbed.backends.ssh`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from impi.manifests import manifest
from impi.remote.ssh import new_key
from impi.testbed.backends.lifecycle.cleanup import new_labels
from impi.testbed.backends.lifecycle.reaper import reaper_of
from impi.testbed.backends.ssh.hosts_file import Host, HostsFile
from impi.testbed.backends.ssh.ssh_lab import SshLab
from impi.testbed.lab.container_node import USER
from impi.testbed.lab.interface import Inventory, Terms
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import node_prefix

_PYTHON: Final = "/opt/impi/venv/bin/python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The keys of a lab's nodes."""

    key: Path
    """The private key of their user."""
    files: Mapping[str, str]
    """What a node has in its folder of SSH, by name."""
    host_key: str

    @classmethod
    def make(cls, folder: Path) -> Login:
        """Make new ones; the private key goes into that folder."""
        user, host = new_key(), new_key()
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(user.private, "utf-8")
        files = {"authorized_keys": user.public + "\n", "host_key": host.private}
        return cls(key=key, files=files, host_key=host.public)

    def host(self, name: str, vendor: str, *, address: str, ssh: str, port: int) -> Host:
        """Return a node of our images, now that it is known where it runs."""
        return Host(
            name=name,
            address=address,
            ssh=ssh,
            port=port,
            user=USER,
            key=str(self.key),
            host_key=self.host_key,
            python=_PYTHON,
            vendors={vendor: node_prefix(vendor) if manifest(vendor).has_library else ""},
        )


class Placing(Protocol):
    """Places the nodes of one lab."""

    def start(self, nodes: Sequence[tuple[str, str]], images: Mapping[str, str]) -> list[Host]:
        """Place a node for each (name, vendor); return them once all run.

        Raises:
            LabError: one cannot be placed, or does not run.
        """
        ...

    def fate(self, node: str) -> str:
        """Return the end of a sentence about a node whose connection is lost; empty: unknown."""
        ...


class PlacedLab(SshLab):
    """A lab of placed nodes. Call :meth:`start`, and :meth:`close` whatever happens.

    Args:
        backend: its name.
        placing: makes the placing of the lab's name, its labels and their keys.
        inventory: where the lab is found, to be removed.
    """

    def __init__(
        self,
        backend: str,
        placing: Callable[[str, Mapping[str, str], Login], Placing],
        inventory: Inventory,
        images: Mapping[str, str],
        vendors: Sequence[str],
        topology: Topology,
        run: str,
        terms: Terms,
    ) -> None:
        super().__init__(HostsFile(path=Path(backend)), vendors, topology, run, terms, (), backend=backend)
        self._images, self._inventory = images, inventory
        self._keys = tempfile.TemporaryDirectory(prefix="impilab-placed-")
        labels = new_labels(self.name, run, vendors, topology, terms)
        self._placing = placing(self.name, labels, Login.make(Path(self._keys.name)))

    def start(self) -> None:
        """Place the nodes, then log in; nothing is left behind when it fails or is interrupted."""
        reaper_of(self._backend)  # first of all: should this process be killed, it removes the lab
        try:
            nodes = [("server", "pure"), *((f"client{i}", vendor) for i, vendor in enumerate(self._vendors))]
            self._placed = self._placing.start(nodes, self._images)
        except BaseException:
            self.close()
            raise
        super().start()

    def close(self) -> None:
        """End everything and remove the nodes. May be called twice.

        Raises:
            LabError: the place does not answer; ``impilab clean --backend`` helps later.
        """
        super().close()
        self._keys.cleanup()
        for seen in self._inventory.find():
            if seen.lab == self.name:
                self._inventory.remove(seen)

    def _fate(self, host: Host) -> str:
        return self._placing.fate(host.name)
