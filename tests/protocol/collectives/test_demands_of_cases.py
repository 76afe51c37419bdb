"""The cases demand what the algorithms send, for any number of clients."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import chapter4
import pytest
from collective_world import run

from impi.lab.cases.case import collective, everyone
from impi.lab.dissect.chapter4 import group_messages
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.programs.payload import octets
from impi.protocol.collectives import Fixed, Layout, gather

TOPOLOGIES = (
    "1x2+1x2",
    "1x1+1x3+1x2",
    "+".join(["1x1"] * 4),
    "1x2+1x1+1x1+1x2+1x1",
    "+".join(["1x2", "1x1"] * 5),
)


@pytest.mark.parametrize("size", [80, 2048])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_gather(topology: str, size: int) -> None:
    shapes = parse_topology(topology)
    roster = Roster.of(shapes, ["pure"] * len(shapes.clients))
    clients = [roster.client(r) for r in range(roster.size)]
    layout = Layout(clients)
    parts = [octets("n", f"l/{r}", size) for r in range(roster.size)]
    for root in range(roster.size):
        outcome = run(
            [
                gather(
                    layout,
                    r,
                    root,
                    parts[r],
                    Fixed(size),
                    maxlinear=4,
                    short=size < 1024,
                )
                for r in range(roster.size)
            ],
            root,
        )
        sent = {(m.source, m.dest, bytes(m.value)) for m in outcome.between(clients)}
        demanded = collective(group_messages.gather(everyone(roster), root, parts))
        assert {(c.src, c.dest, c.payload) for c in demanded} == sent


def content(ranks: Sequence[int]) -> bytes:
    return bytes(sorted(ranks))


@pytest.mark.parametrize("size", range(1, 9))
def test_messages_of_all_layouts(size: int) -> None:
    parts = [bytes([rank]) for rank in range(size)]
    for clients in chapter4.layouts(size):
        for limit, root in itertools.product((1, 32), range(size)):
            g = group_messages.Group(range(size), clients, 0, limit, 1024)
            wanted = {
                "barrier": chapter4.barrier(clients, limit),
                "bcast": chapter4.bcast(clients, root, limit),
                "gather": chapter4.gather_short(clients, root, limit),
                "reduce": chapter4.reduce_commutative(clients, root, limit),
            }
            told: dict[str, Iterable[group_messages.Message]] = {
                "barrier": group_messages.barrier(g),
                "bcast": group_messages.bcast(g, root, parts[root]),
                "gather": group_messages.gather(g, root, parts),
                "reduce": group_messages.reduce(
                    g, root, parts, lambda one, other: one + other
                ),
            }
            for name, messages in told.items():
                found = [
                    (m.src, m.dest, int(m.tag), content(m.octets or b""))
                    for m in messages
                ]
                assert sorted(found) == sorted(
                    (a, b, tag, content(c)) for a, b, tag, c in wanted[name]
                ), (
                    name,
                    clients,
                )
