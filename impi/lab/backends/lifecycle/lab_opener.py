"""The work of all backends: tidy up before the first lab, close open labs at the end."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Mapping, Sequence

from impi.base.errors import ImpiError, LabError, UsageError
from impi.lab.backends.lifecycle.cleanup import remove_expired
from impi.lab.nodes import Access, Build, Inventory, Lab, Network, Topology


class LabOpener:
    """The part of a :class:`~impi.lab.nodes.interface.Backend` that all have in common.

    Labs still referred to are closed at the interpreter's end; a lab given to its user stays.

    Args:
        name: of the backend.
        place: where its labs are, in words, such as ``a swarm``.
        inventory: of its labs.
    """

    parts = False

    def __init__(self, name: str, place: str, inventory: Inventory) -> None:
        self.name, self.inventory = name, inventory
        self.builds: Mapping[str, Build] = {}
        self._place, self._tidied = place, False
        self._open: weakref.WeakSet[Lab] = weakref.WeakSet()
        atexit.register(self._close_all)

    def attach(self, access: Access) -> Lab:
        """Raise LabError: such labs end with their openers."""
        raise LabError(f"lab {access.lab} on {self._place} has ended with its opener")

    def no_network(self) -> str:
        """Return why: the network belongs to the place."""
        return f"the network of {self._place} is not the lab's to change; use --backend docker"

    def network(self, access: Access) -> Network:
        raise LabError(self.no_network())

    def logs(self, access: Access, node: str) -> str:
        """Raise LabError: no node of a lab has a server of its own, or the lab has ended."""
        return ""

    def _check(self, vendors: Sequence[str], topology: Topology, reason: str) -> None:
        """Raise UsageError: vendors do not fit, or there is a ``reason`` against such a lab.

        Once, remove expired labs: not all of their parts go by themselves.
        """
        topology.check(vendors)
        if reason:
            raise UsageError(f"topology {topology}: {reason}")

        if not self._tidied:
            self._tidied = True
            remove_expired(self.inventory)

    def _opened(self, lab: Lab) -> Lab:
        self._open.add(lab)
        return lab

    def _close_all(self) -> None:
        for lab in list(self._open):
            with contextlib.suppress(ImpiError):
                lab.close()
