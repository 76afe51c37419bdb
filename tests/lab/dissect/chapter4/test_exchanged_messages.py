"""The judges' messages of exchanges, against figures drawn by hand."""

from __future__ import annotations

import pytest

from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.exchanged_messages import allgather, allreduce, barrier
from impi.lab.dissect.chapter4.group_messages import Group, Message, Messages


def group(clients: list[int]) -> Group:
    return Group(range(len(clients)), clients, 0, 4, 1024)


def told(messages: Messages) -> list[tuple[int, int, Tag, bytes | None]]:
    return [
        (each.src, each.dest, Tag(each.tag), each.octets)
        for each in messages
        if isinstance(each, Message)
    ]


@pytest.mark.parametrize(
    ("clients", "edges"),
    [
        ([0, 0, 1, 1], [(0, 2), (2, 0)]),
        ([0, 1, 2], [(0, 2), (1, 0), (2, 1), (0, 1), (1, 2), (2, 0)]),
        ([0, 0], []),
    ],
)
def test_a_barrier(clients: list[int], edges: list[tuple[int, int]]) -> None:
    assert told(barrier(group(clients))) == [
        (*edge, Tag.BARRIER, b"") for edge in edges
    ]


def test_an_allgather_of_three_clients() -> None:
    found = told(allgather(group([0, 1, 0, 2]), [b"a", b"b", b"c", b"d"]))
    first = [(0, 3, b"ac"), (1, 0, b"b"), (3, 1, b"d")]
    # In the last round only one block is missing everywhere.
    second = [(0, 1, b"ac"), (1, 3, b"b"), (3, 0, b"d")]
    assert found == [
        (src, dest, Tag.GATHER, octets) for src, dest, octets in (*first, *second)
    ]


def test_an_allgather_of_four_clients_doubles() -> None:
    found = told(allgather(group([0, 1, 2, 3]), [b"a", b"b", b"c", b"d"]))
    assert [octets for _, _, _, octets in found[4:]] == [b"ab", b"bc", b"cd", b"da"]


def test_an_allreduce_of_two_clients() -> None:
    found = told(
        allreduce(group([0, 0, 1]), [b"a", b"b", b"c"], lambda one, other: one + other)
    )
    assert found == [(0, 2, Tag.REDUCE, b"ab"), (2, 0, Tag.REDUCE, b"c")]
