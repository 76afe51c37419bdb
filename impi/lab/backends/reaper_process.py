"""The process of a reaper (:mod:`.lifecycle.reaper`), which can remove labs of any backend.

It waits for lines of its owner and for the owner's end. If that end comes without ``done``,
it searches for labs with the owner's label and removes them, until several searches in a row
find nothing. A held lab has a listening socket of its name, and goes when its time is over or
when its user knocks there.

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
# Searches in a row that must find nothing: a busy engine may still execute the last
# request of a dead owner.
_LOOKS: Final = {"docker": 10, "local": 2, "swarm": 10, "kubernetes": 10}
# An engine may be restarted just when a lab's time is over: try again for some minutes.
_AGAIN_S: Final = 20.0
_TRIES: Final = 10


@dataclass(slots=True)
class _Held:
    """A lab that its user keeps."""

    until: float
    listener: socket.socket
    descriptors: list[int]
    tries: int = 0


class _Process:
    """The reaper itself: one thread, one selector."""

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
        """Run until the owner has ended and no lab is held."""
        while self._asker is not None or self._held:
            # The soonest end of a held lab is the next thing to do without a request.
            soonest = min((held.until for held in self._held.values()), default=None)

            wait_s = (
                None
                if soonest is None
                else min(3600.0, max(0.0, soonest - time.time()))
            )
            for key, _ in self._selector.select(wait_s):
                if key.data:
                    self._asked_for(key.data)
                else:
                    self._listen()

            # Collected first: _over changes the table.
            for lab in [
                lab for lab, held in self._held.items() if held.until <= time.time()
            ]:
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

        # Lines may arrive in pieces, or several at once.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

        # The end of the socket is the end of the owner, by SIGKILL, too: no other sign is needed.
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

        # Descriptors came with this request; the next one brings its own.
        lab, descriptors, self._descriptors = str(wish["lab"]), self._descriptors, []
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

        answer = b"n"
        with contextlib.suppress(OSError):
            # An abstract name goes with its process: no file can be left that claims a lab is held.
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
        while (
            quiet < _LOOKS[self._backend.partition(":")[0]]
            and time.monotonic() < deadline
        ):
            try:
                inventory = self._inventory()

                mine = [
                    f
                    for f in inventory.find()
                    # Held labs stay: that is what their user asked for.
                    if f.labels.get("owner") == self._label and f.lab not in self._held
                ]
                for found in mine:
                    inventory.remove(found)

                # One search that found something begins the count of quiet ones anew.
                quiet = 0 if mine else quiet + 1
            except ImpiError:
                quiet = 0  # the engine is busy, or is being started again

            time.sleep(_PAUSE_S)

    def _asked_for(self, lab: str) -> None:
        """End a lab for somebody who knocks at its socket; only its own user, or root, may ask."""
        connection, _ = self._held[lab].listener.accept()
        with connection:
            peer = struct.unpack(
                "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            # An abstract socket has no permissions: the kernel's word on the peer replaces them.
            if peer[1] in (os.getuid(), 0):
                removed = self._remove(lab)
                # Without success the lab stays held, and the peer is not told that it is
                # gone.
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
            # Its time is moved on, so the loop comes back to it.
            held.until = time.time() + _AGAIN_S

    def _remove(self, lab: str) -> list[str] | None:
        try:
            inventory = self._inventory()
            return [
                what
                for found in inventory.find()
                if found.lab == lab
                for what in inventory.remove(found)
            ]
        except ImpiError:
            return None

    def _forget(self, lab: str) -> None:
        held = self._held.pop(lab)
        self._selector.unregister(held.listener)

        held.listener.close()
        for descriptor in held.descriptors:
            os.close(descriptor)

    def _inventory(self) -> Inventory:
        # Imported when needed: a reaper waits beside every run, and has to be small.
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
