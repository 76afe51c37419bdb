"""The judges' messages of chapter 4, written from the clauses, against figures of the clauses."""

from __future__ import annotations

import pytest

from impi.lab.dissect.chapter4.group_messages import (
    Answer,
    Group,
    Message,
    Messages,
    barrier,
    bcast,
    gather,
    reduce,
    scan,
)


def group(clients: list[int], *, maxlinear: int = 4, xsize: int = 1024) -> Group:
    return Group(range(len(clients)), clients, 0, maxlinear, xsize)


def crossing(messages: Messages | Answer) -> list[Message]:
    found = []
    try:
        octets = None
        while True:
            message = messages.send(octets)
            found.append(message)
            octets = message.octets
    except StopIteration:
        return found


def edges(messages: Messages | Answer) -> list[tuple[int, int]]:
    return [(message.src, message.dest) for message in crossing(messages)]


@pytest.mark.clause("4.10")
def test_barrier() -> None:
    assert edges(barrier(group([0, 0, 1, 1]))) == [(2, 0), (0, 2)]
    tree = edges(barrier(group([0, 1, 2, 3, 4, 5])))
    # 4.10: parents without the highest bit
    assert set(tree[:5]) == {(5, 1), (4, 0), (3, 1), (2, 0), (1, 0)}
    assert [(b, a) for a, b in tree[:5]][::-1] == tree[5:]
    assert {(m.tag, m.cid, m.octets) for m in crossing(barrier(group([0, 1])))} == {
        (110, 1, b"")
    }


@pytest.mark.clause("4.11")
def test_bcast_from_a_root_that_is_no_master() -> None:
    assert edges(bcast(group([0, 0, 1, 2]), 1, b"x")) == [(1, 2), (1, 3)]
    assert edges(bcast(group([0, 1, 2, 2, 3, 4]), 3, b"x")) == [
        (3, 4),
        (3, 5),
        (4, 0),
        (3, 1),
    ]


@pytest.mark.clause("4.12")
def test_gather() -> None:
    parts = [bytes([rank]) for rank in range(4)]
    short = crossing(gather(group([0, 0, 1, 1]), 0, parts))
    assert [(m.src, m.dest, m.octets) for m in short] == [(2, 0, b"\2\3")]
    long = crossing(gather(group([0, 0, 1, 1], xsize=1), 0, parts))
    assert [(m.src, m.octets) for m in long] == [(2, b"\2"), (3, b"\3")]


@pytest.mark.clause("4.16")
def test_reduce() -> None:
    parts = [bytes([1 << rank]) for rank in range(6)]

    def add(one: bytes, other: bytes) -> bytes:
        return bytes([one[0] + other[0]])

    tree = crossing(reduce(group([0, 1, 2, 3, 4, 5]), 0, parts, add))
    assert {(m.src, m.dest, m.octets) for m in tree} == {
        (1, 0, b"\x02"),
        (3, 2, b"\x08"),
        (5, 4, b"\x20"),
        (2, 0, b"\x0c"),
        (4, 0, b"\x30"),
    }
    chain = crossing(reduce(group([0, 1, 1]), 0, parts[:3], add, commute=False))
    assert [(m.src, m.octets) for m in chain] == [(2, b"\4"), (1, b"\2")]


@pytest.mark.clause("4.18")
def test_scan() -> None:
    parts = [b"\1", b"\2", b"\4"]
    found = crossing(
        scan(group([0, 0, 1]), parts, lambda one, other: bytes([one[0] + other[0]]))
    )
    assert [(m.src, m.dest, m.octets) for m in found] == [(1, 2, b"\3")]
