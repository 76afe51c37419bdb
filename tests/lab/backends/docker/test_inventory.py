"""Labs of dead owners on an engine, beside those of live ones."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from open_labs import DEADLINE_S, ours

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.container_lab import DockerLab
from impi.lab.backends.lifecycle.cleanup import Choice, clean
from impi.lab.nodes.interface import Lab

pytestmark = [pytest.mark.docker, pytest.mark.slow]


DYING = """
import sys, time
from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.nodes.topology import parse_topology
from impi.lab.backends.lifecycle.reaper import reaper_of
lab = DockerBackend().open(["pure", "pure"], parse_topology("1x1+1x1"), run="dying")
reaper_of("docker").process.kill()  # which would be faster than what is tried here
print(lab.access.lab, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_dead_owners_lab_is_cleaned_and_a_live_ones_is_spared(
    backend: DockerBackend, lab: Lab, number: int
) -> None:
    assert isinstance(lab, DockerLab)
    with subprocess.Popen(
        [sys.executable, "-c", DYING],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as p:
        assert p.stdout is not None
        name = p.stdout.readline().strip()
        assert len(ours(backend, name)) == 8
        assert not clean(backend.inventory, Choice(labels={"lab": name}))
        p.send_signal(number)
        try:
            p.wait(DEADLINE_S)
        finally:
            p.kill()
    if number == signal.SIGINT:
        assert ours(backend, name) == []
        return
    leftovers = [f for f in backend.doctor() if f.subject == "leftovers"]
    assert not leftovers[0].ok
    # Only this one: another test's, or whoever's, are none of ours.
    assert not clean(backend.inventory, Choice(older_than_s=3600, labels={"lab": name}))
    removed = clean(backend.inventory, Choice(labels={"lab": name}))
    assert len([line for line in removed if name in line]) == 8
    assert ours(backend, name) == []
    assert len(ours(backend, lab.access.lab)) == 4 * 2 + 2
