"""The server and labels that it does not know (IMPI 2.3.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import PeerError
from impi.protocol.startup.collect import MAX_WAITING, Broadcast, Collector


@pytest.mark.clause("2.3.5")
def test_the_example_of_the_clause() -> None:
    """Client 1 skips C_DATALEN: its bit is zero, and the others' values are concatenated."""
    collector = Collector(3)
    eight, four = (8000).to_bytes(4, "big"), (4000).to_bytes(4, "big")
    collector.add(0, 0x1300, eight)
    collector.add(2, 0x1300, four)
    assert list(collector.complete()) == []
    collector.add(1, 0x1400, b"tag")
    assert list(collector.complete()) == [Broadcast(0x1300, 0x5, eight + four)]
    assert list(collector.complete()) == []


@pytest.mark.clause("2.3.6")
def test_done_tells_too() -> None:
    collector = Collector(2)
    collector.finish(1)
    collector.add(0, 5, b"x")
    collector.add(0, 6, b"")
    assert list(collector.complete()) == [Broadcast(5, 1, b"x"), Broadcast(6, 1, b"")]
    assert not collector.finished
    collector.finish(0)
    assert collector.finished


def test_a_client_that_waits_for_its_broadcast_is_not_passed_over() -> None:
    collector = Collector(2)
    collector.add(0, 1, b"a")
    collector.add(1, 1, b"b")
    assert list(collector.complete()) == [Broadcast(1, 3, b"ab")]
    collector.add(0, 3, b"c")  # client 1 may still submit 2 or 3
    assert list(collector.complete()) == []
    collector.add(1, 2, b"d")
    assert list(collector.complete()) == [Broadcast(2, 2, b"d")]


LABELS = st.lists(
    st.dictionaries(
        st.integers(-(2**31), 2**31 - 1), st.binary(max_size=9), max_size=6
    ),
    min_size=1,
    max_size=5,
)


@given(LABELS, st.randoms(use_true_random=False))
def test_any_interleaving_gives_the_same_broadcasts(
    contributions: list[dict[int, bytes]], random: object
) -> None:
    collector = Collector(len(contributions))
    queues = [[*sorted(c.items()), None] for c in contributions]
    got = []
    while any(queues):
        client = random.choice([i for i, q in enumerate(queues) if q])  # type: ignore[attr-defined]
        item = queues[client].pop(0)
        if item is None:
            collector.finish(client)
        else:
            collector.add(client, *item)
        got += list(collector.complete())
    expected = [
        Broadcast(
            label,
            sum(1 << i for i, c in enumerate(contributions) if label in c),
            b"".join(c[label] for c in contributions if label in c),
        )
        for label in sorted({label for c in contributions for label in c})
    ]
    assert got == expected
    assert collector.finished


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize("second", [7, 6, -1])
def test_labels_ascend(second: int) -> None:
    collector = Collector(1)
    collector.add(0, 7, b"")
    with pytest.raises(PeerError, match="ascend"):
        collector.add(0, second, b"")


@pytest.mark.clause("2.3.6")
def test_nothing_after_done() -> None:
    collector = Collector(1)
    collector.finish(0)
    with pytest.raises(PeerError, match="after DONE"):
        collector.add(0, 7, b"")
    with pytest.raises(PeerError, match="twice"):
        collector.finish(0)


def test_what_may_wait_is_bounded() -> None:
    collector = Collector(2)
    block = bytes(MAX_WAITING // 4)
    for label in range(3):
        collector.add(0, label, block)
    with pytest.raises(PeerError, match="waiting"):
        collector.add(0, 3, block)
    assert list(collector.complete()) == []


def test_what_was_broadcast_waits_no_longer() -> None:
    collector = Collector(1)
    for label in range(9):
        collector.add(0, label, bytes(MAX_WAITING // 4))
        assert len(list(collector.complete())) == 1


def test_empty_labels_count_too() -> None:
    collector = Collector(2)
    with pytest.raises(PeerError, match="waiting"):
        for label in range(MAX_WAITING):
            collector.add(0, label, b"")
