"""Stacks of processes in containers, seen from beside them."""

from __future__ import annotations

import pytest
from open_labs import first_line, ours

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.nodes.interface import Lab

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_where_processes_stand_is_seen_from_beside_the_node(
    backend: DockerBackend, lab: Lab
) -> None:
    node = lab.clients[1][0]
    program = "import os, time\ndef deep():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\ndeep()"
    command = node.start([lab.access.python, "-c", program])
    pid = int(first_line(command))
    before = ours(backend, lab.access.lab)
    stacks = lab.stacks({"c1n0": [pid], "c0n0": []})
    assert stacks.notes == ()
    assert [frame.rpartition(" in ")[2] for frame in stacks.frames["c1n0"][pid]] == [
        "deep",
        "<module>",
    ]
    assert ours(backend, lab.access.lab) == before
    command.stop()
    # One that is gone is a note, and no error.
    assert (
        lab.stacks({"c1n0": [pid]})
        .notes[0]
        .startswith("c1n0: no stacks from outside: py-spy: ")
    )
