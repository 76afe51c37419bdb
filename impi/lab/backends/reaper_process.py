"""The process of a reaper (:mod:`.lifecycle.reaper`), which can remove labs of any backend.

Start: ``python -m impi.lab.backends.reaper_process BACKEND OWNER FOLDER``; input is a socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Final

from impi.base.errors import ImpiError
from impi.lab.backends.lifecycle.held_labs import holding_name
from impi.lab.nodes.interface import ON_KUBERNETES, Inventory

_MOST_FDS: Final = 4
_SWEEP_S: Final = 90.0
_PAUSE_S: Final = 1.0
# Searches in a row that must find nothing: a busy engine may still execute a dead owner's last
# request.
_LOOKS: Final = {"docker": 10, "local": 2, "swarm": 10, "kubernetes": 10}
_AGAIN_S: Final = 20.0
_TRIES: Final = 10


@dataclass(slots=True)
class _Held:
    """A lab that its user wants to keep."""

    until: float
    listener: socket.socket
    descriptors: list[int]
    tries: int = 0


class _Process:
    """The reaper itself."""

    def __init__(self, backend: str, label: str, folder: str) -> None:
        self._backend, self._label, self._folder = backend, label, folder
        self._asker: socket.socket | None = socket.socket(fileno=0)
        self._rest = b""
        self._descriptors: list[int] = []
        self._done = False
        self._held: dict[str, _Held] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._asker, selectors.EVENT_READ, "")

    def run(self) -> None:
        """Until the owner has ended and nothing is held."""
        while self._asker is not None or self._held:
            soonest = min((held.until for held in self._held.values()), default=None)
            wait_s = None if soonest is None else min(3600.0, max(0.0, soonest - time.time()))
            for key, _ in self._selector.select(wait_s):
                if key.data:
                    self._asked_for(key.data)
                else:
                    self._listen()
            for lab in [lab for lab, held in self._held.items() if held.until <= time.time()]:
                self._over(lab)

    # -- the owner

    def _listen(self) -> None:
        if self._asker is None:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(self._asker, 65536, _MOST_FDS)
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        if not data:
            self._selector.unregister(self._asker)
            self._asker.close()
            self._asker = None
            if not self._done:
                self._sweep()

    def _obey(self, wish: dict[str, object]) -> None:
        if wish["do"] == "done":
            self._done = True
            return
        lab, descriptors, self._descriptors = str(wish["lab"]), self._descriptors, []
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        answer = b"n"
        with contextlib.suppress(OSError):
            listener.bind(f"\0{holding_name(lab)}")
            listener.listen()
            self._held[lab] = _Held(float(str(wish["until"])), listener, descriptors)
            self._selector.register(listener, selectors.EVENT_READ, lab)
            answer = b"y"
        with contextlib.suppress(OSError):
            if self._asker is not None:
                self._asker.sendall(answer)

    # -- ends

    def _sweep(self) -> None:
        deadline, quiet = time.monotonic() + _SWEEP_S, 0
        while quiet < _LOOKS[self._backend.partition(":")[0]] and time.monotonic() < deadline:
            try:
                inventory = self._inventory()
                mine = [f for f in inventory.find() if f.labels.get("owner") == self._label and f.lab not in self._held]
                for found in mine:
                    inventory.remove(found)
                quiet = 0 if mine else quiet + 1
            except ImpiError:
                quiet = 0  # the engine is busy, or being started again
            time.sleep(_PAUSE_S)

    def _asked_for(self, lab: str) -> None:
        """Somebody wants that lab to end; only its own user may."""
        connection, _ = self._held[lab].listener.accept()
        with connection:
            peer = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if peer[1] in (os.getuid(), 0):
                removed = self._remove(lab)
                if removed is not None:
                    self._forget(lab)
                    with contextlib.suppress(OSError):
                        connection.sendall(json.dumps(removed).encode() + b"\n")

    def _over(self, lab: str) -> None:
        held = self._held[lab]
        held.tries += 1
        if self._remove(lab) is not None or held.tries >= _TRIES:
            self._forget(lab)
        else:
            held.until = time.time() + _AGAIN_S

    def _remove(self, lab: str) -> list[str] | None:
        try:
            inventory = self._inventory()
            return [what for found in inventory.find() if found.lab == lab for what in inventory.remove(found)]
        except ImpiError:
            return None

    def _forget(self, lab: str) -> None:
        held = self._held.pop(lab)
        self._selector.unregister(held.listener)
        held.listener.close()
        for descriptor in held.descriptors:
            os.close(descriptor)

    def _inventory(self) -> Inventory:
        # Not before it is needed: this process is to be small.
        if self._backend == "docker":
            from impi.lab.backends.docker.engine import connect
            from impi.lab.backends.docker.inventory import DockerInventory

            return DockerInventory(connect())
        if self._backend == "swarm":
            from impi.lab.backends.docker.engine import connect
            from impi.lab.backends.swarm.inventory import SwarmInventory

            return SwarmInventory(connect())
        if self._backend.startswith(ON_KUBERNETES):
            from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster
            from impi.lab.backends.kubernetes.cluster_inventory import ClusterInventory

            return ClusterInventory(KubernetesCluster(self._backend.partition(":")[2]))
        from impi.lab.backends.loopback.inventory import LoopbackInventory

        return LoopbackInventory(self._folder)


if __name__ == "__main__":
    _Process(*sys.argv[1:]).run()
