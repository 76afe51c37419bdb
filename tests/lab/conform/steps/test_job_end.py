"""The end in good order: barrier, FINI both ways, FINI to the server, close, status 0."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tester_world import TesterWorld

from impi.base.remote.supervised import Completed
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.steps.exchange_messages import Exchange
from impi.lab.conform.steps.group_steps import GroupSteps
from impi.lab.conform.steps.job_end import finish
from impi.lab.dissect.chapter4.collective_tags import Tag

ENDED = Completed(argv=(), code=0, stdout=b"", stderr=b"")


def ending(without: str = "") -> TesterWorld:
    """A client that ends well, but for what it leaves out."""
    world = TesterWorld()
    world.says("DATA", 0, 2, tag=Tag.BARRIER, cid=1)
    if without != "FINI":
        world.says("FINI", 0, 2)
    if without != "server":
        world.coming.append(lambda: world.server.incoming.extend(b"FINI\0\0\0\0"))
    if without != "close":
        world.coming.append(lambda: setattr(world.wire, "ended", True))
    world.ended = ENDED if without != "status" else replace(ENDED, code=3)
    return world


def end(world: TesterWorld, **more) -> None:
    finish(world.job, GroupSteps(Exchange(world.job)), **more)


def test_a_good_end() -> None:
    world, between = ending(), []
    end(world, between=lambda: between.append([p.kind for p in world.sent()]))
    assert world.job.over
    assert between == [["DATA", "DATA", "DATA"]], (
        "both were told to end, and the barrier"
    )
    assert [p.kind for p in world.sent()] == ["FINI"]


def test_our_fini_has_the_fields_of_the_step() -> None:
    world = ending()
    end(world, fini={"tag": -1, "cid": 1 << 40})
    assert [(p.kind, p.tag, p.cid) for p in world.sent()][-1] == ("FINI", -1, 1 << 40)


@pytest.mark.parametrize(
    ("without", "told", "clause"),
    [
        ("FINI", "does not send FINI to host 1", "3.8"),
        ("server", "does not say FINI to the server", "2.3.7"),
        ("close", "stays open after FINI", "3.8"),
        ("status", "does not end with 0", "2.4"),
    ],
)
def test_what_is_left_out(without: str, told: str, clause: str) -> None:
    with pytest.raises(Broken, match=told) as raised:
        end(ending(without))
    assert raised.value.clause == clause


def test_octets_after_fini() -> None:
    world = ending("close")
    world.coming.append(
        lambda: (world.wire.incoming.extend(b"x"), setattr(world.wire, "ended", True))
    )
    with pytest.raises(Broken, match="octets after FINI"):
        end(world)


def test_a_channel_that_is_closed_before_our_fini() -> None:
    world = TesterWorld()
    world.says("DATA", 0, 2, tag=Tag.BARRIER, cid=1)
    world.says("FINI", 0, 2)
    with pytest.raises(Broken, match="closes the channel before FINI of host 1"):
        end(world, between=lambda: setattr(world.wire, "ended", True))
