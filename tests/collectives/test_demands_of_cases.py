"""The cases demand what the algorithms send, for any number of clients."""

from __future__ import annotations

import pytest
from collective_world import run

from impi.collectives import Fixed, Layout, gather
from impi.testbed.cases.collectives import _gathered
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

TOPOLOGIES = ("1x2+1x2", "1x1+1x3+1x2", "+".join(["1x1"] * 4), "1x2+1x1+1x1+1x2+1x1", "+".join(["1x2", "1x1"] * 5))


@pytest.mark.parametrize("size", [80, 2048])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_gather(topology: str, size: int) -> None:
    shapes = parse_topology(topology)
    roster = Roster.of(shapes, ["pure"] * len(shapes.clients))
    clients = [roster.client(r) for r in range(roster.size)]
    layout = Layout(clients)
    for root in range(roster.size):
        outcome = run(
            [
                gather(layout, r, root, octets("n", f"l/{r}", size), Fixed(size), maxlinear=4, short=size < 1024)
                for r in range(roster.size)
            ],
            root,
        )
        sent = {(m.source, m.dest, bytes(m.value)) for m in outcome.between(clients)}
        assert {(c.src, c.dest, c.payload) for c in _gathered(roster, root, "l", size, "n")} == sent
