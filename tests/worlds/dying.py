"""Opens a lab, uses and closes it, and is killed on the way.

``dying.py BACKEND RUN FOLDER MOMENT DELAY_MS REAPER TTL_S``. MOMENT: for docker, the number of a
request that changes something; for local, a name of ``POINTS``; or ``open``: once the lab is open.
DELAY_MS: negative: before that moment, or that time after it has begun. REAPER: ``dies`` with it,
or ``lives``.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

POINTS = (
    "new_folder",
    "write_labels",
    "this_machine",
    "_node",
    "_software",
    "start",
    "close",
    "rmtree",
)


def die(backend: str, reaper: str) -> None:
    from impi.lab.backends.lifecycle.reaper import reaper_of

    if reaper == "dies":
        reaper_of(backend).process.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def around(
    work: Callable[..., Any], delay_ms: float, end: Callable[[], None]
) -> Callable[..., Any]:
    def wrapped(*args: object, **kwargs: object) -> object:
        if delay_ms < 0:
            end()
        timer = threading.Timer(delay_ms / 1000, end)
        timer.start()
        result = work(*args, **kwargs)
        timer.join()
        return result

    return wrapped


def arm_docker(number: int, delay_ms: float, end: Callable[[], None]) -> None:
    """At that request, counted from now on."""
    from docker.api.client import APIClient

    send, lock, count = APIClient.send, threading.Lock(), 0

    def counted(self: APIClient, request: Any, **kwargs: Any) -> Any:
        nonlocal count
        with lock:
            count += request.method != "GET"
            now = count == number and request.method != "GET"
        return (
            around(send, delay_ms, end)(self, request, **kwargs)
            if now
            else send(self, request, **kwargs)
        )

    setattr(APIClient, "send", counted)


def arm_local(point: str, delay_ms: float, end: Callable[[], None]) -> None:
    """At that function."""
    from impi.lab.backends.loopback import backend as module

    loopback_backend: Any = module

    for place in (
        loopback_backend,
        loopback_backend.LoopbackNode,
        loopback_backend.LoopbackLab,
        loopback_backend.shutil,
    ):
        if hasattr(place, point):
            setattr(place, point, around(getattr(place, point), delay_ms, end))
            return
    raise SystemExit(f"no point {point}")


def main(
    backend: str,
    run: str,
    folder: str,
    moment: str,
    delay_ms: str,
    reaper: str,
    ttl_s: str,
) -> None:
    tempfile.tempdir = folder
    from impi.lab.backends import choose_backend
    from impi.lab.nodes.interface import Terms
    from impi.lab.nodes.topology import parse_topology

    found = choose_backend(backend)
    found.prepare(["pure"])

    def end() -> None:
        die(backend, reaper)

    if moment.isdigit():
        arm_docker(int(moment), float(delay_ms), end)
    elif moment != "open":
        arm_local(moment, float(delay_ms), end)
    lab = found.open(
        ["pure", "pure"],
        parse_topology("1x1+1x1"),
        run=run,
        terms=Terms(ttl_s=float(ttl_s)),
    )
    lab.clients[0][0].start([lab.access.python, "-c", "import time; time.sleep(600)"])
    if moment == "open":
        end()
    lab.begin_capture()
    lab.end_capture()
    lab.close()
    print("closed", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
