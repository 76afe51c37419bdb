"""The backend ``docker``: labs of containers on one engine."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Final

from impi.errors import ImpiError, UsageError
from impi.testbed.backends import owner
from impi.testbed.backends.docker_doctor import examine
from impi.testbed.backends.docker_lab import LABEL, DockerLab, Plan
from impi.testbed.backends.engine import connect, engine_fault, ignore_missing
from impi.testbed.backends.images import SPY, Images
from impi.testbed.backends.pool import pool_from_environment
from impi.testbed.runner import Finding, Lab
from impi.testbed.topology import Topology

__all__ = ["DockerBackend"]

_MOST_NODES: Final = 200


class DockerBackend:
    """A :class:`impi.testbed.runner.Backend`. LabError where no engine answers.

    Labs that are still referred to are closed at the interpreter's end; one that its user has let go of stays.
    """

    name = "docker"

    def __init__(self, *, publish: bool | None = None) -> None:
        self._client = connect()
        self._images = Images(self._client)
        self._built: dict[str, str] = {}
        self._open: weakref.WeakSet[DockerLab] = weakref.WeakSet()
        if publish is None:
            # An engine inside a virtual machine: its containers' addresses lead nowhere from here.
            publish = sys.platform != "linux" or "Desktop" in str(self._client.info().get("OperatingSystem", ""))
        self._publish = publish
        atexit.register(self._close_all)

    def doctor(self) -> list[Finding]:
        """Examine the engine and what lies on it; builds and removes nothing."""
        return examine(self._client, self._images)

    def prepare(self, vendors: Sequence[str]) -> None:
        """Build the images that are missing."""
        self._built.update(self._images.ensure([*vendors, "pure"]))

    def supports(self, topology: Topology) -> str:
        """Every topology that one machine can carry."""
        nodes = sum(shape.nodes for shape in topology.clients)
        return f"{nodes} nodes are more than {_MOST_NODES} on one machine" if nodes > _MOST_NODES else ""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str) -> Lab:
        """Start a lab, building its images if need be."""
        if len(vendors) != len(topology.clients):
            raise UsageError(f"{len(vendors)} vendors do not fit the {len(topology.clients)} clients of {topology}")
        reason = self.supports(topology)
        if reason:
            raise UsageError(f"topology {topology}: {reason}")
        needed = {*vendors, "pure", "base", SPY}
        if not needed <= self._built.keys():
            self.prepare(vendors)
        plan = Plan(
            run=run,
            vendors=tuple(vendors),
            topology=topology,
            images={name: self._built[name] for name in sorted(needed)},
            pool=pool_from_environment(),
            publish=self._publish,
        )
        lab = DockerLab(self._client, plan)
        self._open.add(lab)
        lab.start()
        return lab

    def clean(self, *, older_than_s: float = 0.0, everything: bool = False) -> list[str]:
        """Remove containers, then networks and volumes, of labs whose owner is dead; ``everything``: of all labs."""

        def doomed(labels: dict[str, str] | None) -> bool:
            labels = labels or {}
            age_s = time.time() - float(labels.get(f"{LABEL}created", 0))
            return age_s >= older_than_s and (everything or not owner.is_live(labels.get(f"{LABEL}owner", "")))

        mine: dict[str, str | list[str] | bool] = {"label": f"{LABEL}lab"}
        removed = []
        with engine_fault("old labs cannot be removed"):
            for container in self._client.containers.list(all=True, filters=mine, ignore_removed=True):
                if doomed(container.labels):
                    with ignore_missing():
                        container.remove(force=True, v=True)
                    removed.append(f"container {container.name}")
            for network in self._client.networks.list(filters=mine):
                if doomed(network.attrs.get("Labels")):
                    with ignore_missing():
                        network.remove()
                    removed.append(f"network {network.name}")
            for volume in self._client.volumes.list(filters=mine):
                if doomed(volume.attrs.get("Labels")):
                    with ignore_missing():
                        volume.remove(force=True)
                    removed.append(f"volume {volume.name}")
        return removed

    def _close_all(self) -> None:
        """At the interpreter's end: what was not closed in order."""
        for lab in list(self._open):
            with contextlib.suppress(ImpiError):
                lab.close()
