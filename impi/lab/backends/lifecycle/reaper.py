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
# by name: it stands above all backends, and this module below them
_PROCESS: Final = "impi.lab.backends.reaper_process"


class Reaper:
    """The reaper of this process. LabError: it cannot be started, or does not answer."""

    def __init__(self, backend: str) -> None:
        # A socket, not a pipe: descriptors can be passed over it, and its
        # end is seen even after SIGKILL.
        self._mine, its = socket.socketpair()
        self._lock = threading.Lock()
        self._holds = False
        # The reaper has another working folder, so relative entries of the path would miss.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100  (zip files, too)

        argv = [
            sys.executable,
            "-m",
            _PROCESS,
            backend,
            ownership.myself(),
            tempfile.gettempdir(),
        ]
        try:
            # Not our standard output: whoever reads that waits for its end,
            # and a reaper outlives us.
            self.process = subprocess.Popen(
                argv,
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                cwd="/",
                # Ctrl-C on our terminal must not end it, too.
                start_new_session=True,
            )
        except OSError as error:
            self._mine.close()
            raise LabError(
                f"the lab's reaper cannot be started with {sys.executable}: {error}"
            ) from error
        finally:
            its.close()

    def hold(self, lab: str, until: float, descriptors: Sequence[int] = ()) -> None:
        """From now on the lab outlives this process, until its time is over."""
        line = json.dumps({"do": "hold", "lab": lab, "until": until}).encode() + b"\n"
        try:
            # One request at a time: the answer does not name its request.
            with self._lock:
                self._mine.settimeout(_ANSWER_S)
                if descriptors:
                    socket.send_fds(self._mine, [line], list(descriptors))
                else:
                    self._mine.sendall(line)

                # The answer says that the socket of the lab's name is there:
                # only then is the lab kept.
                if self._mine.recv(1) != b"y":
                    raise OSError("it refused")

                self._holds = True
        except OSError as error:
            raise LabError(
                f"lab {lab} cannot be kept: its reaper does not answer: {error}"
            ) from error

    def finish(self) -> None:
        """Let the reaper go: all labs are closed that it does not hold."""

        # The reaper may be gone, and then there is nothing to tell it.
        with contextlib.suppress(OSError):
            self._mine.sendall(b'{"do": "done"}\n')

        self._mine.close()
        if self._holds:
            # It lives on, and Popen would warn of a child that is not waited for.
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
        # One for each backend and temporary folder, which the reaper is
        # told at its start.
        key = (backend, tempfile.gettempdir())

        found = _reapers.get(key)
        # One that was killed is replaced: a lab without a reaper may be left over.
        if found is None or found.process.poll() is not None:
            found = _reapers[key] = Reaper(backend)

        return found


# registered on import, and so called after whatever closes labs at the interpreter's end
@atexit.register
def _finish() -> None:
    for reaper in _reapers.values():
        reaper.finish()
