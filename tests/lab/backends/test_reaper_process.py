"""A reaper that is held stays until its time is over or somebody asks for its end."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from open_labs import DEADLINE_S, keeps, left, wait_until

from impi.base.errors import LabError
from impi.lab.backends.lifecycle.cleanup import Choice, clean, remove_lab
from impi.lab.backends.lifecycle.held_labs import is_held, let_go
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.nodes.interface import Terms, run_on
from impi.lab.nodes.topology import parse_topology

pytestmark = pytest.mark.slow


TWO = parse_topology("1x1+1x1")


def test_what_is_held_stays_until_it_is_let_go(temp):
    lab = LoopbackBackend().open(["pure", "pure"], TWO, run="held")
    address = lab.server.address
    lab.hold()
    lab.close()
    backend = LoopbackBackend()
    # We live
    assert [(seen.lab, seen.state) for seen in backend.inventory.find()] == [
        (lab.access.lab, "running")
    ]
    assert is_held(lab.access.lab)
    other = backend.open(["pure", "pure"], TWO, run="other")
    assert other.server.address != address  # its addresses are still its own
    other.close()
    again = backend.attach(lab.access)
    assert run_on(again.clients[1][0], ["true"], timeout_s=DEADLINE_S).code == 0
    assert again.clients[1][0].address == lab.clients[1][0].address
    again.close()
    assert not is_held(lab.access.lab)
    assert list(temp.iterdir()) == []
    with pytest.raises(LabError, match="does not exist any more"):
        backend.attach(lab.access)


def test_what_is_held_goes_when_its_time_is_over(temp):
    lab = LoopbackBackend().open(
        ["pure", "pure"], TWO, run="held", terms=Terms(ttl_s=1)
    )
    lab.hold()
    lab.close()
    assert wait_until(lambda: list(temp.iterdir()) == [])
    assert wait_until(lambda: not is_held(lab.access.lab))


HOLDING = """
import sys, tempfile, time
from dataclasses import replace
tempfile.tempdir = sys.argv[2]
from impi.lab.backends import choose_backend
from impi.lab.nodes.interface import Terms
from impi.lab.nodes.topology import parse_topology
lab = choose_backend(sys.argv[1]).open(
    ["pure", "pure"], parse_topology("1x1+1x1"), run=sys.argv[3], terms=Terms(ttl_s=float(sys.argv[4]))
)
if float(sys.argv[5]):
    lab.access = replace(lab.access, expires=time.time() + float(sys.argv[5]))  # however long it took to get here
lab.hold()
lab.close()
print(lab.access.lab)
"""


def hold(backend: str, folder: Path, left_s: float = 0) -> tuple[str, str]:
    """(run, lab) of a lab whose owner has ended."""
    run = f"held-{secrets.token_hex(4)}"
    argv = [
        sys.executable,
        "-c",
        HOLDING,
        backend,
        str(folder),
        run,
        "600",
        str(left_s),
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    assert done.stderr == ""
    return run, done.stdout.strip()


def test_clean_spares_what_is_held_and_all_does_not(temp):
    _, lab = hold("local", temp)
    backend = LoopbackBackend()
    assert [(seen.lab, seen.state) for seen in backend.inventory.find()] == [
        (lab, "kept")
    ]
    assert clean(backend.inventory, Choice()) == []
    assert clean(backend.inventory, Choice(everything=True)) == [f"folder {temp}/{lab}"]
    assert let_go(lab) == []


def test_a_reaper_that_is_killed_holds_nothing(temp):
    _, lab = hold("local", temp)
    (reaper,) = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if keeps(path, temp)
    ]
    os.kill(int(reaper.name), signal.SIGKILL)
    assert wait_until(lambda: not is_held(lab))
    assert clean(LoopbackBackend().inventory, Choice()) == [f"folder {temp}/{lab}"]


@pytest.mark.docker
def test_containers_that_are_held_stay_and_go_when_asked(docker, tmp_path):
    run, lab = hold("docker", tmp_path)
    assert [seen.state for seen in docker.inventory.find() if seen.lab == lab] == [
        "kept"
    ]
    assert clean(docker.inventory, Choice(labels={"run": run})) == []
    assert len(left(docker, run)) == 3 * 2 + 2
    assert len(remove_lab(docker.inventory, lab)) == 3 * 2 + 2
    assert left(docker, run) == []
    assert not is_held(lab)


@pytest.mark.docker
def test_containers_that_are_held_go_with_their_network_when_their_time_is_over(
    docker, tmp_path
):
    run, lab = hold("docker", tmp_path, left_s=2)
    assert wait_until(lambda: left(docker, run) == [])
    assert wait_until(lambda: not is_held(lab))
