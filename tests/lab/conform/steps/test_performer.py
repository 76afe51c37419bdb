"""Steps of tests on a job in memory, each right and wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tester_world import TesterWorld

from impi.base.errors import UsageError
from impi.base.remote.supervised import Completed
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.script.script_files import Test
from impi.lab.conform.steps.performer import Performer

Script = Callable[[TesterWorld], object]


def perform(
    *steps: str, coming: Script = lambda _world: None, **limits: int
) -> TesterWorld:
    world = TesterWorld(**{"datalen": 64, **limits})
    coming(world)
    test = Test(
        name="3.1/t", title="t", level="MUST", steps=steps, setup=Configuration()
    )
    performer = Performer(world.job, test, {"n": 2})
    performer.run()
    return world


def says(*args, **fields) -> Script:
    return lambda world: world.says(*args, **fields)


def reports(*texts: str) -> Script:
    def script(world: TesterWorld) -> None:
        for text in texts:
            world.reports(0, text)

    return script


def test_an_interpreter_is_told_and_reports() -> None:
    world = perform(
        "I0: recv peer=S0 tag=5 count={n}",
        "I0> source=S0 tag=?t",
        "different t",
        coming=reports("ok source=2 tag=5"),
    )
    assert world.told() == [(0, "recv peer=2 tag=5 count=2")]


@pytest.mark.parametrize(
    ("steps", "report", "told"),
    [
        (["I0: echo", "I0> rank=0"], "ok rank=1", "rank 0 reports rank 1, not 0"),
        (["I0: echo", "I0> rank=0"], "error class=5", "reports 'error class=5'"),
        (["I0: echo", "I0> error=1"], "ok rank=0", "reports 'ok rank=0'"),
        (["I0: echo"], "error class=5", "reports 'error class=5'"),
        (["I0: echo", "I0> pending 0.1"], "ok", "completes its call too early"),
    ],
)
def test_reports_that_are_otherwise(steps: list[str], report: str, told: str) -> None:
    with pytest.raises(Broken, match=told):
        perform(*steps, coming=reports(report))


def test_a_packet_is_sent_with_the_fields_of_its_communicator() -> None:
    world = perform("S1 -> I0: DATASYNC tag=5 comm=world data=byte:2:1")
    (sent,) = world.sent()
    assert (sent.kind, sent.lsrank, sent.cid, sent.msglen, sent.payload) == (
        "DATASYNC",
        3,
        0,
        2,
        bytes([37, 48]),
    )


def test_a_packet_in_two_pieces() -> None:
    world = perform(
        "S0 -> I0: DATA data=byte:4:1 cut=130",
        "S0 -> I0: rest",
        "S1 -> I0: octets 00ff",
    )
    assert len(world.wire.sent) == 128 + 4 + 2
    assert world.wire.sent.endswith(b"\0\xff")


def test_an_expected_packet_keeps_values_for_later_steps() -> None:
    world = perform(
        "S0 <- I0: DATASYNC tag=6 srqid=?a data=byte:2:1",
        "S0 -> I0: SYNCACK srqid=$a drqid=9",
        coming=says("DATASYNC", 0, 2, bytes([37, 48]), tag=6, srqid=41),
    )
    assert [(p.kind, p.srqid, p.drqid) for p in world.sent()] == [("SYNCACK", 41, 9)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tag": 7}, "pk_tag is 7, not 6"),
        ({"tag": 6, "cid": 2}, "pk_cid is 2, not 0"),
        ({"tag": 6}, "data is 7878"),
    ],
)
def test_an_expected_packet_that_is_otherwise(fields: dict, told: str) -> None:
    with pytest.raises(Broken, match=told):
        perform(
            "S0 <- I0: DATA tag=6 data=byte:2:1",
            coming=says("DATA", 0, 2, b"xx", **fields),
        )


def test_messages_both_ways_and_what_differs() -> None:
    world = perform(
        "S0 => I0: tag=3 data=byte:2:1",
        "S0 <= I0: tag=4 data=byte:2:1",
        coming=says("DATA", 0, 2, bytes([37, 48]), tag=4),
    )
    assert [p.tag for p in world.sent()] == [3]
    with pytest.raises(Broken, match="user data differs from octet 1 on"):
        perform(
            "S0 <= I0: tag=4 data=byte:2:1",
            coming=says("DATA", 0, 2, bytes([37, 49]), tag=4),
        )


def test_what_no_step_takes_is_one_packet_too_many() -> None:
    with pytest.raises(Broken, match="further packet is DATA, not none"):
        perform(
            "I0: echo",
            "I0>",
            coming=lambda world: (world.says("DATA", 0, 2), world.reports(0, "ok")),
        )


def test_acknowledgements_are_the_tests_business_once_a_path_is_held() -> None:
    world = perform(
        "S0 ~ I0: hold", "S0 -> I0: DATA", "S0 -> I0: DATA", "S0 <- I0: PROTOACK", "S0 ~ I0: acknowledge 2",
        coming=says("PROTOACK", 0, 2),
    )  # fmt: skip
    assert [p.kind for p in world.sent()] == ["DATA", "DATA", "PROTOACK", "PROTOACK"]
    with pytest.raises(Broken, match="has sent 0 PROTOACKs, not 1") as raised:
        perform("S0 ~ I0: hold", "S0 <- I0: PROTOACK")
    assert raised.value.clause == "3.6"
    with pytest.raises(Broken, match="a PROTOACK comes too early"):
        perform("S0 ~ I0: hold", "S0 ~ I0: silent", coming=says("PROTOACK", 0, 2))
    with pytest.raises(UsageError, match="hold a path before anything was sent on it"):
        perform("S0 -> I0: DATA", "S0 ~ I0: hold")


def test_channels_are_closed_and_ended() -> None:
    world = perform("S0 ~ I0: pace 1", "S0 ~ I0: FINI", "S0 ~ I0: close")
    assert (world.wire.pace, world.wire.closed, [p.kind for p in world.sent()]) == (
        1,
        True,
        ["FINI"],
    )
    with pytest.raises(Broken, match="the channel stays open"):
        perform("S0 ~ I0: closed")
    perform(
        "S0 ~ I0: closed",
        coming=lambda world: world.coming.append(
            lambda: setattr(world.wire, "ended", True)
        ),
    )


def test_values_that_must_differ() -> None:
    steps = ["I0: echo", "I0> rank=?a size=?b", "different a b"]
    perform(*steps, coming=reports("ok rank=0 size=4"))
    with pytest.raises(Broken, match="are equal"):
        perform(*steps, coming=reports("ok rank=4 size=4"))


def ended(code: int) -> Script:
    return lambda world: setattr(
        world, "ended", Completed(argv=(), code=code, stdout=b"", stderr=b"")
    )


def test_the_implementation_ends_or_survives() -> None:
    perform("ends nonzero", coming=ended(1))
    perform("survives", coming=ended(1))
    perform(
        "survives", coming=lambda world: [world.reports(rank, "ok") for rank in (0, 1)]
    )
    for step, script, told in (
        ("ends zero", ended(1), "it ends with 1"),
        ("ends zero", lambda _world: None, "does not end"),
        ("survives", lambda _world: None, "does not end"),
    ):
        with pytest.raises(Broken, match=told):
            perform(step, coming=script)


def test_nothing_comes_though_the_proc_has_answered() -> None:
    world = perform("S0 <- I0: nothing", coming=reports("ok"))
    assert world.told() == [(0, "echo")]
    with pytest.raises(Broken, match="packet is DATA"):
        perform("S0 <- I0: nothing 0.1", coming=says("DATA", 0, 2))
