"""Findings from captures: messages, start-up, who left first, and why they may prove nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from forge import SERVER, Job

from impi.lab.cases import CASES
from impi.lab.dissect import Dissection
from impi.lab.evidence.demands import Demands
from impi.lab.evidence.gathered import Compared, Wire
from impi.lab.evidence.traffic import _needless, apart, examine

CASE = CASES["p2p.ring"]
NODES = {"c0n0": "a", "c1n0": "b"}


def job() -> Job:
    return Job.good("p2p.ring/mpich+openmpi/1x2+1x2", "nonce", NODES)


def seen(it: Job, **more: Any) -> Wire:
    demands = Demands(CASE, it.roster, it.nonce)
    return examine(it.captures(), demands, SERVER[1], **more)[0]


def test_a_good_job() -> None:
    wire = seen(job())
    assert (wire.untrusted, wire.breaches, wire.no_channel, wire.unfinished) == (
        (),
        (),
        (),
        (),
    )
    assert wire.compared == Compared()
    assert wire.startup.reached == {0: "fini", 1: "fini"}
    assert (wire.startup.clients, wire.startup.pids) == (
        (2, 2),
        {rank: 100 + rank for rank in range(4)},
    )
    assert wire.messages == len(job().messages), "both nodes have captured each"
    assert [host.ranks for host in wire.startup.hosts] == [(0,), (1,), (2,), (3,)]
    assert wire.startup.hosts[3].came_from == (wire.startup.hosts[3].address,)
    assert set(wire.last_sent) == {0, 1, 2, 3}
    assert wire.standing is None


def test_what_is_missing_is_owed_in_numbers() -> None:
    it = job()
    gone = next(m for m in it.messages if m.tag == 8)
    it.messages.remove(gone)
    wire = seen(it)
    (missing,) = wire.compared.missing
    assert (missing.src, missing.dest, missing.tag) == (gone.src, gone.dest, 8)
    (owed,) = wire.compared.owed
    assert (owed.src, owed.dest, owed.tag, owed.wanted, owed.seen) == (
        gone.src,
        gone.dest,
        8,
        1,
        0,
    )


def test_progress_ends_where_the_client_stopped() -> None:
    it = job()
    it.startup_said = {0: ["DONE"], 1: []}
    assert seen(it).startup.reached == {0: "done", 1: "impi"}


def test_a_channel_without_fini_and_one_that_is_not_there() -> None:
    it = job()
    it.no_fini.add((3, 0))
    assert seen(it).unfinished == ("host 3 to host 0",)
    it = job()
    it.no_channel.add((0, 3))
    (told,) = seen(it).no_channel
    assert told == "host 3 (client 1) to host 0 (client 0)"


def test_a_channel_of_a_lazy_job_has_a_message() -> None:
    def channel(opener: int, *kinds: str) -> SimpleNamespace:
        packets = [SimpleNamespace(kind=kind) for kind in kinds]
        return SimpleNamespace(opener=opener, accepter=0, packets=packets)

    hosts = [SimpleNamespace(index=host, client=host // 2) for host in range(4)]
    channels = [channel(2, "DATA", "FINI", "FINI"), channel(3, "FINI", "FINI")]
    for lazy in (True, False):
        layout = SimpleNamespace(is_lazy=lazy, hosts=hosts)
        seen = cast(Dissection, SimpleNamespace(layout=layout, channels=channels))
        assert [*_needless(seen)] == ["host 3 (client 1) to host 0"] * lazy


def test_methods_and_what_was_offered() -> None:
    it = job()
    it.methods[1] = 1
    wire = seen(it)
    assert (wire.startup.methods, wire.startup.offers) == (
        {0: 0, 1: 1},
        {0: (0,), 1: (1,)},
    )


@pytest.mark.parametrize(
    "spoiled", [{"dropped": {"c0n0": 3}}, {"no_canary": {"server"}}]
)
def test_a_capture_with_holes_is_not_trusted(spoiled: dict) -> None:
    it = job()
    for name, value in spoiled.items():
        setattr(it, name, value)
    (why,) = seen(it).untrusted
    assert next(iter(*spoiled.values())) in why


def test_a_node_without_a_capture_is_not_trusted() -> None:
    it = job()
    captures = [capture for capture in it.captures() if capture.node != "c1n0"]
    wire, _ = examine(captures, Demands(CASE, it.roster, it.nonce), SERVER[1])
    assert wire.untrusted == ("there is no capture of node c1n0",)


def test_a_look_tells_what_was_open_then() -> None:
    standing = seen(job(), looked_at=0.0).standing
    assert standing is not None
    assert standing.messages == ()


def test_how_far_clocks_are_apart() -> None:
    first, *rest = job().captures()
    assert apart([first, *rest]) == 0.0
    assert apart([replace(first, ahead_s=(-0.25, 0.5)), *rest]) == 0.75
    assert apart([]) == 0.0
