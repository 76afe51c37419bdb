"""The measuring job: a server and clients on this machine, over loopback."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from impi.errors import LaunchError, UsageError
from impi.settings import VENDORS
from impi.startup.facts import MAX_CLIENTS
from impi.tune.plogp import MEASUREMENT

__all__ = ["Layout", "measure", "parse_layout", "read_measurement"]

Layout = tuple[tuple[str, int], ...]
"""For each client the vendor and its number of procs."""

_LOOPBACK: Final = "127.0.0.1"
_OURS: Final = ("IMPI_AUTH_NONE", "IMPI_AUTH_KEY", "IMPI_TUNING", "IMPI_VERIFY")
_END_S: Final = 5.0
"""Seconds for the rest of a job to end by itself."""
_LOOK_S: Final = 0.05


def parse_layout(text: str) -> Layout:
    """``mpich:1,openmpi:2,pure`` as vendors and numbers of procs.

    Raises:
        UsageError: it is no such list, or of fewer than two clients.
    """
    if not text:
        raise UsageError("--layout names no client; write such as pure:1,mpich:1")
    found = []
    for word in text.split(","):
        vendor, colon, procs = word.partition(":")
        if vendor not in VENDORS:
            raise UsageError(f"--layout {text}: there is no vendor {vendor!r}; the vendors are {', '.join(VENDORS)}")
        if colon and not (procs.isascii() and procs.isdecimal() and int(procs) > 0):
            raise UsageError(f"--layout {text}: {procs!r} is no number of procs; write such as {vendor}:1")
        found.append((vendor, int(procs) if colon else 1))
    if not 2 <= len(found) <= MAX_CLIENTS:
        raise UsageError(f"--layout {text} has {len(found)} client, but there is something to tune from 2 on")
    return tuple(found)


def measure(layout: Layout, *, quick: bool) -> dict[str, Any]:
    """Run :mod:`impi.tune.measure` on its own job and return the measurements.

    Raises:
        LaunchError: the job failed; the message has its last output.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="impi-tune-")))
        environ = {name: value for name, value in os.environ.items() if name not in _OURS}
        environ["IMPI_AUTH_KEY"] = str(secrets.randbits(63))
        processes = _Processes(stack, folder, environ)
        server = processes.start("server", ["-server", str(len(layout)), "--interface", _LOOPBACK], first_line=True)
        program = [sys.executable, "-m", "impi.tune.measure", str(folder / "measured"), *(["--quick"] if quick else [])]
        for rank, (vendor, procs) in enumerate(layout):
            options = ["-np", str(procs), "--vendor", vendor, "--interface", _LOOPBACK]
            processes.start(f"client {rank}", ["-client", str(rank), server, *options, *program])
        processes.wait()
        return read_measurement(folder / "measured")


def read_measurement(path: Path) -> dict[str, Any]:
    """Read the file of ``impi.tune.measure``.

    Raises:
        UsageError: it is no such file.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        value = None
    if not isinstance(value, dict) or value.get("format") != MEASUREMENT:
        raise UsageError(f"{path} is no measurement of impi tune")
    return value


class _Processes:
    """The processes of one job; those that still run at the end of ``stack`` are ended."""

    def __init__(self, stack: ExitStack, folder: Path, environ: dict[str, str]) -> None:
        self._stack = stack
        self._folder = folder
        self._environ = environ
        self._started: list[tuple[str, Path, subprocess.Popen[str]]] = []

    def start(self, title: str, arguments: Sequence[str], *, first_line: bool = False) -> str:
        """Start an impirun; its first line of output, if that is asked for."""
        said = self._folder / title
        with said.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "impi.cli.impirun", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if first_line else stream,
                stderr=stream,
                text=True,
                env=self._environ,
            )
        self._stack.callback(_end, process)
        self._started.append((title, said, process))
        if not first_line:
            return ""
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def wait(self) -> None:
        """Wait for all. Raises LaunchError as soon as one failed."""
        running = self._started[::-1]  # the clients know more than the server
        failed: list[tuple[str, Path]] = []
        patience = _END_S
        while running and patience > 0:
            failed += [(title, said) for title, said, process in running if process.poll()]
            running = [item for item in running if item[2].poll() is None]
            time.sleep(_LOOK_S)
            patience -= _LOOK_S if failed else 0
        if failed:
            title, said = failed[0]
            last = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise LaunchError(f"the measuring job failed; {title} said: {last[0]}")


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
