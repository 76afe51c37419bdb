"""The keeper: a small process beside every one that opens labs, which outlives it and leaves nothing of them.

When the process that opened labs ends without having closed them, be it by SIGKILL, its keeper removes them at once.
Labs that are to stay for their user (``impilab up``, ``--keep``) it holds until their time is over, or until somebody
asks for their end by connecting to the socket of their name (:mod:`.holding`).

It is a session of its own. Its standard input is a socket on which its owner writes JSON lines: ``{"do": "hold", "lab":
..., "until": seconds since the epoch}``, with descriptors to be kept open with it, answered by one octet; ``{"do":
"done"}`` before an end in good order.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from impi.errors import ImpiError, LabError
from impi.testbed.backends import owner
from impi.testbed.backends.holding import holding_name
from impi.testbed.backends.leftovers import Yard

__all__ = ["Keeper", "keeper_of"]

_END_S: Final = 10.0
_ANSWER_S: Final = 30.0
_MOST_FDS: Final = 4
_SWEEP_S: Final = 90.0
_PAUSE_S: Final = 1.0
_LOOKS: Final = {"docker": 10, "local": 2}
"""How often it must have found nothing more: a busy engine takes its time for the last wish of a dead owner."""
_AGAIN_S: Final = 20.0
_TRIES: Final = 10


# -- the owner's end


class Keeper:
    """Our own keeper; LabError where it cannot be started or does not answer."""

    def __init__(self, backend: str) -> None:
        self._mine, its = socket.socketpair()
        self._lock = threading.Lock()
        self._holds = False
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100  (zip files, too)
        argv = [sys.executable, "-m", __name__, backend, owner.myself(), tempfile.gettempdir()]
        try:
            # Not where our output goes: whoever reads that waits for its end.
            self.process = subprocess.Popen(
                argv,
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._mine.close()
            raise LabError(f"the lab's keeper cannot be started with {sys.executable}: {error}") from error
        finally:
            its.close()

    def hold(self, lab: str, until: float, descriptors: Sequence[int] = ()) -> None:
        """From now on the lab outlives us, until its time is over."""
        line = json.dumps({"do": "hold", "lab": lab, "until": until}).encode() + b"\n"
        try:
            with self._lock:
                self._mine.settimeout(_ANSWER_S)
                if descriptors:
                    socket.send_fds(self._mine, [line], list(descriptors))
                else:
                    self._mine.sendall(line)
                if self._mine.recv(1) != b"y":
                    raise OSError("it refused")
                self._holds = True
        except OSError as error:
            raise LabError(f"lab {lab} cannot be kept: its keeper does not answer: {error}") from error

    def finish(self) -> None:
        """All labs that it does not hold are closed: it may go."""
        with contextlib.suppress(OSError):
            self._mine.sendall(b'{"do": "done"}\n')
        self._mine.close()
        if self._holds:
            # It is no child to wait for any more, and nobody is to be told so.
            self.process.returncode = 0
            return
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_keepers: dict[tuple[str, str], Keeper] = {}
_starting: Final = threading.Lock()


def keeper_of(backend: str) -> Keeper:
    """This process's keeper for labs of that backend, started when it is first asked for."""
    with _starting:
        key = (backend, tempfile.gettempdir())
        found = _keepers.get(key)
        if found is None or found.process.poll() is not None:
            found = _keepers[key] = Keeper(backend)
        return found


@atexit.register  # when this module is loaded, so that it comes after whatever closes labs at the end
def _finish() -> None:
    for keeper in _keepers.values():
        keeper.finish()


# -- the process


@dataclass(slots=True)
class _Held:
    """A lab that its user wants to keep."""

    until: float
    listener: socket.socket
    descriptors: list[int]
    tries: int = 0


class _Process:
    """The keeper itself."""

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
        """Remove what a dead owner left."""
        deadline, quiet = time.monotonic() + _SWEEP_S, 0
        while quiet < _LOOKS[self._backend] and time.monotonic() < deadline:
            try:
                yard = self._yard()
                mine = [f for f in yard.find() if f.labels.get("owner") == self._label and f.lab not in self._held]
                for found in mine:
                    yard.remove(found)
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
        """What was removed; None where it could not be."""
        try:
            yard = self._yard()
            return [what for found in yard.find() if found.lab == lab for what in yard.remove(found)]
        except ImpiError:
            return None

    def _forget(self, lab: str) -> None:
        held = self._held.pop(lab)
        self._selector.unregister(held.listener)
        held.listener.close()
        for descriptor in held.descriptors:
            os.close(descriptor)

    def _yard(self) -> Yard:
        # Not before it is needed: this process is to be small.
        if self._backend == "docker":
            from impi.testbed.backends.docker_yard import DockerYard
            from impi.testbed.backends.engine import connect

            return DockerYard(connect())
        from impi.testbed.backends.local_yard import LocalYard

        return LocalYard(self._folder)


if __name__ == "__main__":
    _Process(*sys.argv[1:]).run()
