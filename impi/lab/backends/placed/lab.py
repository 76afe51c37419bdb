"""A lab of placed nodes, such as tasks of a swarm; once they run, they are hosts that exist.

Each client has one node, and there are no captures (:mod:`impi.lab.backends.ssh`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from impi.base.manifests import manifest
from impi.base.remote.ssh import new_key
from impi.lab.backends.lifecycle.cleanup import new_labels
from impi.lab.backends.lifecycle.reaper import reaper_of
from impi.lab.backends.ssh.hosts_file import Host, HostsFile
from impi.lab.backends.ssh.lab import SshLab
from impi.lab.nodes import Access, Inventory, node_prefix
from impi.lab.nodes.container_node import USER

_PYTHON: Final = "/opt/impi/venv/bin/python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The keys of a lab's nodes."""

    key: Path  # the private key of their user
    files: Mapping[str, str]  # files of a node's SSH folder, by name
    host_key: str

    @classmethod
    def make(cls, folder: Path) -> Login:
        user, host = new_key(), new_key()
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(user.private, "utf-8")
        files = {"authorized_keys": user.public + "\n", "host_key": host.private}

        return cls(key=key, files=files, host_key=host.public)

    def host(
        self, name: str, vendor: str, *, address: str, ssh: str, port: int
    ) -> Host:
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
            vendors={
                vendor: node_prefix(vendor) if manifest(vendor).has_library else ""
            },
        )


class Placing(Protocol):
    """Places the nodes of one lab."""

    def start(
        self, nodes: Sequence[tuple[str, str]], images: Mapping[str, str]
    ) -> list[Host]:
        """Place a node for each (name, vendor); return them once all run.

        Raises:
            LabError: one cannot be placed, or does not run.
        """

    def fate(self, node: str) -> str:
        """Return the end of a sentence about a node whose connection is lost; empty: unknown."""


class PlacedLab(SshLab):
    """A lab of placed nodes. Call :meth:`start`, and :meth:`close` whatever happens.

    Args:
        access: its lease, with the images by vendor.
        name: the user's name for it, or empty.
        placing: makes the placing of the lab's name, its labels and their keys.
        inventory: where the lab is found, to be removed.
    """

    def __init__(
        self,
        access: Access,
        name: str,
        placing: Callable[[str, Mapping[str, str], Login], Placing],
        inventory: Inventory,
    ) -> None:
        super().__init__(HostsFile(path=Path(access.backend)), access, ())
        self._inventory = inventory
        self._keys = tempfile.TemporaryDirectory(prefix="impilab-placed-")
        self._placing = placing(
            access.lab, new_labels(access, name), Login.make(Path(self._keys.name))
        )

    def start(self) -> None:
        """Place the nodes, then log in; nothing is left behind when it fails or is interrupted."""
        # first of all: should this process be killed, the reaper removes the lab
        reaper_of(self.access.backend)
        try:
            nodes = [
                ("server", "pure"),
                *(
                    (f"client{i}", vendor)
                    for i, vendor in enumerate(self.access.vendors)
                ),
            ]
            self._placed = self._placing.start(nodes, self.access.images)
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
            if seen.lab == self.access.lab:
                self._inventory.remove(seen)

    def _fate(self, host: Host) -> str:
        return self._placing.fate(host.name)
