"""LCOs on the engines of engine_world, for tests."""

from __future__ import annotations

from impi.rank.engine.engine import Engine
from impi.rank.engine.lcos.lco_traffic import LcoContext, Traffic

KEY = bytes(range(16))


def traffic(engine: Engine) -> Traffic:
    n = len(engine.job.procs)
    return Traffic(engine, engine.make_context(0, range(n)))


def channel_to(
    one: Traffic, engine: Engine, world: int, other: LcoContext
) -> LcoContext:
    """A sender to receive slot 0 of the LCO of another proc, which has made the same ones."""
    made = one.create(KEY)
    address = engine.job.procs[world]
    name = one.name(other)
    of_other = type(name)(address.ipv6, address.pid, other.lco.number, KEY).of_slot(0)
    assert one.rank_of(of_other) == world
    one.attach(made, world, of_other)
    return made
