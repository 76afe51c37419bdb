"""Links: how they are written, and when each packet goes on."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.lab.nodes.links import (
    PROFILES,
    LinkSettings,
    between_parties,
    both_ways,
    parse_link,
    parse_links,
    show_link,
)
from impi.lab.programs.link_queue import Link, Server, Spread, origin_and_size

SHARES = st.floats(min_value=0.001, max_value=1.0)
GAPS = st.lists(
    st.tuples(st.floats(0, 0.05), st.integers(40, 65535)), min_size=1, max_size=200
)


def test_settings_are_read_with_their_units():
    link = parse_link("delay:20ms+jitter:5ms+loss:1%+reorder:2%+rate:10mbit")
    assert link == LinkSettings(
        delay=0.02, jitter=0.005, loss=0.01, reorder=0.02, rate=1_250_000
    )
    assert (
        show_link(link)
        == "delay 20 ms, jitter 5 ms, loss 1 %, reorder 2 %, rate 1.25 MB/s"
    )
    assert parse_link("wan") == PROFILES["wan"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a link; write lan, wan"),
        ("quick", "'quick' is not a link"),
        ("delay:20ms+delay:30ms", "is not a link"),
        ("delay:20", "'20' is not a time"),
        ("loss:1", "'1' is not a share; write a number from 0 to 100 and %"),
        ("loss:101%", "'101%' is not a share"),
        ("loss:100%", "a loss of 100% is a partition"),
        (
            "rate:10Mbit/s",
            "'10Mbit/s' is not a rate; write a number and one of bit, kbit, mbit, gbit",
        ),
        ("rate:1bit", "moves nothing"),
        ("jitter:5ms", "a jitter of 5ms needs a delay as long at least"),
        ("reorder:1%", "reorder needs a delay"),
    ],
)
def test_what_is_no_link_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_link(text)


def test_parties_are_apart_and_nodes_of_one_client_are_not():
    assert ("c0n0", "c0n1") not in between_parties(["server", "c0n0", "c0n1", "c1n0"])
    assert len(between_parties(["server", "c0n0", "c0n1", "c1n0"])) == 10
    assert both_ways(["a"], ["b", "c"]) == [
        ("a", "b"),
        ("b", "a"),
        ("a", "c"),
        ("c", "a"),
    ]


NODES = ["server", "c0n0", "c0n1", "c1n0", "c1n1"]


def test_links_are_of_all_parties_or_of_two():
    assert parse_links("wan", NODES).keys() == set(between_parties(NODES))
    found = parse_links("c0-c1@delay:20ms~c1-server@wan", NODES)
    assert found["c0n1", "c1n0"] == LinkSettings(delay=0.02)
    assert found["server", "c1n1"] == PROFILES["wan"]
    assert ("c0n0", "server") not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c0-c0@wan", "not a link of two parties"),
        ("c0@wan", "not a link of two parties"),
        ("c0-x@wan", "not a link of two parties"),
        ("c0-c1@wan~", "not a link of two parties"),
        ("c0-c1@fast", "'fast' is not a link"),
        ("c0-c7@wan", "the lab has no c7"),
    ],
)
def test_what_is_no_link_of_two_parties_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_links(text, NODES)


@given(SHARES, st.integers(0, 5000), st.randoms(use_true_random=False))
def test_a_share_is_picked_evenly_and_early(share, count, chance):
    spread = Spread(share, chance)
    picked = [i for i in range(count) if spread.picks()]
    assert abs(len(picked) - count * share) <= 2
    assert not picked or picked[0] < 10
    assert picked or count < 10


def test_nothing_is_picked_of_no_share():
    spread = Spread(0.0, __import__("random").Random(1))
    assert not any(spread.picks() for _ in range(1000))


@given(GAPS, st.floats(0, 0.1), st.floats(0, 1))
def test_delay_and_jitter_keep_the_order(packets, delay, part):
    link, now, last = Link(delay=delay, jitter=delay * part), 0.0, 0.0
    for gap, size in packets:
        now += gap
        out = link.leaves(now, size)
        assert out is not None
        assert out >= max(last, now + delay * (1 - part) - 1e-9)
        assert out <= max(last, now + delay * (1 + part) + 1e-9)
        last = out


@given(GAPS, st.floats(10_000, 1e8))
def test_a_rate_is_not_exceeded_and_its_queue_has_an_end(packets, rate):
    link, now, sent, end = Link(rate=rate), 0.0, 0, 0.0
    for gap, size in packets:
        now += gap
        out = link.leaves(now, size)
        if out is None:
            continue
        sent, end = sent + size, out
        assert out - now <= 0.5 + size / rate + 1e-9
    assert end >= sent / rate * (1 - 1e-9)
    assert link.count["arrived"] == len(packets)


@given(GAPS, SHARES, SHARES)
def test_packets_are_passed_lost_or_overtake(packets, loss, reorder):
    link, now, gone, under_way = (
        Link(delay=0.02, loss=loss, reorder=reorder),
        0.0,
        0,
        0.0,
    )
    overtook = 0
    for gap, size in packets:
        now += gap
        out = link.leaves(now, size)
        gone += out is None
        if out is not None:
            overtook += out < under_way
            under_way = max(under_way, out)
    assert (link.count["lost"], link.count["overtook"]) == (gone, overtook)
    assert overtook <= math.ceil((len(packets) - gone) * reorder) + 2


def test_a_packet_overtakes_as_soon_as_there_is_another():
    link = Link(delay=0.02, reorder=1.0)
    assert link.leaves(0.0, 100) == 0.02
    assert link.leaves(0.001, 100) == 0.001
    assert link.count["overtook"] == 1


def test_held_packets_are_told():
    link = Link(delay=0.02)
    link.leaves(0.0, 100)
    link.passed(0.021)
    told = link.told()
    assert (told["passed"], told["mean"], told["shortest"], told["longest"]) == (
        1,
        0.021,
        0.021,
        0.021,
    )


def test_packets_are_told_apart_by_their_origin():
    four = bytes([0x45, 0, 1, 44, *bytes(8), 10, 0, 0, 7, 10, 0, 0, 8]) + bytes(20)
    six = (
        bytes([0x60, 0, 0, 0, 0, 100, 6, 64]) + bytes([0xFD, *bytes(14), 3]) + bytes(16)
    )
    assert origin_and_size(four) == ("10.0.0.7", 300)
    assert origin_and_size(six) == ("fd00::3", 140)


class LateKernel:
    """A kernel's rules and queue in one; packets come while the first counts are read."""

    HEADER = bytes([0x45, 0, 0, 40, *bytes(8), 10, 0, 0, 7, *bytes(4)])

    def __init__(self, *, late: int) -> None:
        self.late = late
        self.counted = 0
        self.waiting: list[tuple[int, bytes]] = []

    def queue(self, peer):
        pass

    def counters(self):
        rules = [{"packets": self.counted, "peer": "10.0.0.7", "rule": "NFQUEUE"}]
        if self.late:
            self.late -= 1
            self.counted += 1
            self.waiting.append((self.counted, self.HEADER))
        return rules

    def forwarded(self):
        return {}

    def has_second(self):
        return False

    def packets(self):
        taken, self.waiting = self.waiting, []
        yield from taken

    def verdict(self, number, verdict):
        pass

    def dropped(self):
        return 0


@pytest.mark.parametrize("late", [0, 1, 5])
def test_counts_are_of_one_moment(tmp_path, late):
    kernel: Any = LateKernel(late=late)
    with closing(Server(str(tmp_path / "queue"), kernel, kernel)) as server:
        server.do({"do": "set", "links": {"10.0.0.7": {"delay": 0.0}}})
        told = server.do({"do": "show"})
    assert told["rules"][0]["packets"] == told["links"]["10.0.0.7"]["arrived"] == late
