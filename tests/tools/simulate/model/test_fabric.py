"""Links and agents in virtual time."""

from __future__ import annotations

from simulate_world import US, driver

from impi.protocol.options import HOSTS
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.model.clock import Clock
from impi.tools.simulate.model.fabric import Links
from impi.tools.simulate.model.network import Tier
from impi.tools.simulate.model.shape import Limits, parse_shape


def test_agents_take_a_turn_at_either_end() -> None:
    shape = parse_shape("1x2+1x2")
    at = {
        kind: simulate(shape, Limits(), Case("bcast", 8), driver(shape, kind=kind)).time
        for kind in HOSTS
    }
    assert at["node"] - at["proc"] == 2 * (US + US)  # the way there, and its turn


def test_a_link_is_busy_at_both_ends() -> None:
    clock, done = Clock(), list[tuple[str, int]]()
    links = Links(clock, Tier(latency=5, bandwidth=10**12, send=0, receive=0), 3)
    for source, name in ((0, "a"), (1, "b"), (0, "c")):
        links.carry(source, 2, 10, lambda name=name: done.append((name, clock.now)))
    clock.run()
    assert done == [("a", 15), ("b", 25), ("c", 35)]
    assert links.busy == [20, 10, 0]
