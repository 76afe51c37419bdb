"""The measuring job: a server and clients on this machine, over loopback."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError, unread
from impi.base.manifests import backed
from impi.base.units import parse_count
from impi.protocol.startup.facts import MAX_CLIENTS
from impi.tools.local_job import LOOPBACK, LocalJob
from impi.tools.tune.plogp import MEASUREMENT

Layout = tuple[tuple[str, int], ...]
"""Vendor and number of procs of each client."""

_LIMIT_S: Final = 3600.0
_OURS: Final = ("IMPI_AUTH_NONE", "IMPI_AUTH_KEY", "IMPI_TUNING", "IMPI_VERIFY")


def parse_layout(text: str) -> Layout:
    """Parse a list such as ``mpich:1,openmpi:2,pure`` of vendors and numbers of procs.

    Raises:
        UsageError: the list is malformed, or has fewer than two clients.
    """

    if not text:
        raise UsageError("--layout names no client; write such as pure:1,mpich:1")

    found = []
    for word in text.split(","):
        vendor, colon, procs = word.partition(":")
        try:
            backed(vendor)
        except UsageError as error:
            raise UsageError(f"--layout {text}: {error.message}") from None

        if colon and not parse_count(procs):
            raise UsageError(
                f"--layout {text}: {procs!r} is not a number of procs; write such as {vendor}:1"
            )

        found.append((vendor, int(procs) if colon else 1))

    if not 2 <= len(found) <= MAX_CLIENTS:
        raise UsageError(
            f"--layout {text} has {len(found)} client, but tuning needs at least 2"
        )

    return tuple(found)


def measure(layout: Layout, *, quick: bool) -> dict[str, Any]:
    """Run :mod:`impi.tools.tune.measure` on its own job and return the measurements.

    Raises:
        LaunchError: the job failed; the message has its last output.
    """
    # The user's variables would make another job of it than the one to be measured.
    environ = {name: value for name, value in os.environ.items() if name not in _OURS}

    # A secret of this job alone: others on the machine cannot join it.
    environ["IMPI_AUTH_KEY"] = str(secrets.randbits(63))
    with (
        tempfile.TemporaryDirectory(prefix="impi-tune-") as folder,
        LocalJob("the measuring job", environ, _LIMIT_S) as job,
    ):
        measured = Path(folder, "measured")
        clients = [
            ["-np", str(procs), "--vendor", vendor, "--interface", LOOPBACK]
            for vendor, procs in layout
        ]
        program = [
            sys.executable,
            "-m",
            "impi.tools.tune.measure",
            str(measured),
            *(["--quick"] if quick else []),
        ]
        job.start_impi(clients, program)
        job.outputs()

        return read_measurement(measured)


def read_measurement(path: Path) -> dict[str, Any]:
    """Read a file from ``impi.tools.tune.measure``.

    Raises:
        UsageError: the file cannot be read, or has another content.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise unread(path, error) from None
    except ValueError:
        value = None

    if not isinstance(value, dict) or value.get("format") != MEASUREMENT:
        raise UsageError(
            f"{path} is not a measurement of impi tune; name a file that "
            "'python -m impi.tools.tune.measure FILE' has written"
        )

    return value
