"""Finds the impirun of a client, for programs that kill it."""

from __future__ import annotations

import os
from pathlib import Path


def impirun(client: int) -> int:
    """Return the process id of a client's impirun, which must run on this node.

    Without containers other labs run beside this one: the command of this cell names its folder.
    """

    folder = os.environ["IMPILAB_CELL"].encode()

    wanted = [b"-client", str(client).encode()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().split(b"\0")
        except OSError:
            continue  # this process has ended

        if b"impi.cli.impirun" not in argv or folder not in argv:
            continue

        if argv[argv.index(b"impi.cli.impirun") + 1 :][:2] == wanted:
            return int(path.parent.name)

    raise SystemExit("there is no impirun on this node")
