"""A lab's opener is killed: reaper, ``clean`` and time to live leave nothing of it."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from pathlib import Path

import dying
import pytest
from dying import POINTS
from open_labs import DEADLINE_S, keeps, left, wait_until

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.lifecycle.cleanup import Choice, clean
from impi.lab.backends.lifecycle.reaper import Reaper
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.nodes.topology import parse_topology

pytestmark = pytest.mark.slow

TWO = parse_topology("1x1+1x1")
# Changing requests: network, volume, 5 per node, 3 statistics, 6 containers, removals.
REQUESTS = [(1, -1), (3, -1), (7, -1), (17, -1), (19, -1), (23, -1), (28, -1)]
MIDST = [(1, 1), (5, 10), (12, 40), (23, 30)]


def die(
    backend: str,
    folder: Path,
    moment: object,
    delay_ms: float,
    reaper: str,
    ttl_s: float = 600,
) -> str:
    """The name of the run that was killed."""
    run = f"dying-{secrets.token_hex(4)}"
    script = Path(dying.__file__)
    argv = [
        sys.executable,
        str(script),
        backend,
        run,
        str(folder),
        str(moment),
        str(delay_ms),
        reaper,
        str(ttl_s),
    ]
    process = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    return run


def processes(folder: Path) -> list[str]:
    """Those that work for a lab below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}/".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


# -- clean, where the reaper has died too


@pytest.mark.parametrize("delay_ms", [-1, 0])
@pytest.mark.parametrize("point", POINTS)
def test_clean_leaves_nothing_on_loopback(temp, point, delay_ms):
    run = die("local", temp, point, delay_ms, "dies")
    backend = LoopbackBackend()
    clean(backend.inventory, Choice())
    assert left(backend, run) == []
    assert wait_until(lambda: processes(temp) == [])
    assert list(temp.iterdir()) == []


@pytest.mark.docker
@pytest.mark.parametrize(("request_number", "delay_ms"), REQUESTS)
def test_clean_leaves_nothing_on_an_engine(docker, tmp_path, request_number, delay_ms):
    run = die("docker", tmp_path, request_number, delay_ms, "dies")
    clean(docker.inventory, Choice(labels={"run": run}))
    assert left(docker, run) == []


# -- the reaper


@pytest.mark.parametrize("point", ["new_folder", "start", "close"])
def test_the_reaper_leaves_nothing_on_loopback(temp, point):
    die("local", temp, point, 0, "lives")
    assert wait_until(lambda: list(temp.iterdir()) == [] and processes(temp) == [])


@pytest.mark.docker
@pytest.mark.parametrize(("request_number", "delay_ms"), MIDST)
def test_the_reaper_leaves_nothing_on_an_engine(
    docker, tmp_path, request_number, delay_ms
):
    """Killed while the engine is at work on a request, which it then finishes."""
    run = die("docker", tmp_path, request_number, delay_ms, "lives")
    reapers = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if keeps(path, tmp_path)
    ]
    assert wait_until(lambda: not any(path.exists() for path in reapers))
    assert left(docker, run) == []


def test_a_reaper_ends_with_an_owner_that_ends_well(temp):
    reaper = Reaper("local")
    reaper.finish()
    assert reaper.process.returncode == 0


# -- the time to live


@pytest.mark.docker
def test_containers_end_by_themselves_and_the_next_run_removes_the_rest(
    docker, tmp_path
):
    """Nobody cleans, and nobody lives who could."""
    run = die("docker", tmp_path, "open", 0, "dies", ttl_s=30)
    assert wait_until(
        lambda: not any(part.startswith("container ") for part in left(docker, run))
    )
    DockerBackend().open(["pure", "pure"], TWO, run="next").close()
    assert left(docker, run) == []
