"""Makes a lab's folder on an existing host, tells of the host, and removes the folder at the end.

The end is SIGTERM, which a starter sends if its asker is gone, too, or the lab's time is over.
Processes with the lab's mark end first, or they would write there again.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import time
from importlib import util
from pathlib import Path

_CALM_S = 10.0
_TICK_S = 0.05
_SHM = Path("/dev/shm")


def _marked(mark: bytes) -> bool:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                return True

    return False


def _end(*_: object) -> None:
    # A second signal would interrupt the removal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def main(folder: str, mark: str, seconds: str) -> None:
    """Keep the folder until the end."""
    # It must not be there: a folder of somebody else's would be removed at the end.
    Path(folder).mkdir(0o700)

    signal.signal(signal.SIGTERM, _end)
    try:
        told = {
            "uid": os.getuid(),
            "python": platform.python_version(),
            "system": platform.platform(),
            "numpy": util.find_spec("numpy") is not None,
            # Segments that are there before the lab are none of its leftovers.
            "known": sorted(path.name for path in _SHM.iterdir())
            if _SHM.is_dir()
            else [],
        }
        print(json.dumps(told), flush=True)
        time.sleep(float(seconds))
    finally:
        # Processes with the mark get some seconds to end, for they might
        # write there again.
        give_up = time.monotonic() + _CALM_S
        while _marked(mark.encode()) and time.monotonic() < give_up:
            time.sleep(_TICK_S)

        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
