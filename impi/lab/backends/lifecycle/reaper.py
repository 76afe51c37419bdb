"""The reaper: a small process beside every opener of labs, which outlives it and removes its labs.

If the opener ends without closing its labs, even by SIGKILL, the reaper removes them at once. Kept
labs (``impilab up``, ``--keep``) it holds until their time is over, or until somebody asks for
their end by connecting to the socket of their name (:mod:`.held_labs`).

The reaper has its own session. Its standard input is a socket on which its owner writes JSON lines:
``{"do": "hold", "lab": ..., "until": seconds since the epoch}``, with descriptors to keep open,
answered by one octet; ``{"do": "done"}`` before an orderly end.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Final

from impi.base.errors import LabError
from impi.lab.backends.lifecycle import ownership

_END_S: Final = 10.0
_ANSWER_S: Final = 30.0
_PROCESS: Final = "impi.lab.backends.reaper_process"  # by name: it stands above all backends, and this below them


class Reaper:
    """Our own reaper; LabError where it cannot be started or does not answer."""

    def __init__(self, backend: str) -> None:
        self._mine, its = socket.socketpair()
        self._lock = threading.Lock()
        self._holds = False
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100  (zip files, too)
        argv = [sys.executable, "-m", _PROCESS, backend, ownership.myself(), tempfile.gettempdir()]
        try:
            # Not our standard output: its readers wait for its end.
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
            raise LabError(f"the lab's reaper cannot be started with {sys.executable}: {error}") from error
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
            raise LabError(f"lab {lab} cannot be kept: its reaper does not answer: {error}") from error

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


_reapers: dict[tuple[str, str], Reaper] = {}
_starting: Final = threading.Lock()


def reaper_of(backend: str) -> Reaper:
    """Return this process's reaper for labs of that backend, started on first use."""
    with _starting:
        key = (backend, tempfile.gettempdir())
        found = _reapers.get(key)
        if found is None or found.process.poll() is not None:
            found = _reapers[key] = Reaper(backend)
        return found


@atexit.register  # when this module is loaded, so that it comes after whatever closes labs at the end
def _finish() -> None:
    for reaper in _reapers.values():
        reaper.finish()
