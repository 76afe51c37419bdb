"""Data movement: results against a naive model, and what goes between clients against chapter 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

import chapter4
import pytest
from collective_world import Message, run

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.collectives import (
    Fixed,
    Layout,
    Packing,
    Prefixed,
    Sized,
    allgather,
    allgatherv,
    allgatherv_by_gathervs,
    alltoall,
    alltoall_by_masters,
    alltoallv,
    bcast,
    gather,
    gatherv,
    is_short,
    scatter,
    scatter_by_masters,
    scatterv,
)

LIMITS = (1, 32)  # always a tree, always linear
sizes = pytest.mark.parametrize("size", [*range(1, 10), 13])
seeds = count()


def cases(size: int) -> Iterator[tuple[tuple[int, ...], Layout, int, int]]:
    """Clients, layout, root, limit."""
    for clients in chapter4.layouts(size):
        for root, limit in product(range(size), LIMITS):
            yield clients, Layout(clients), root, limit


def wire(
    messages: list[Message], content: Callable[[Any], tuple[int, ...]]
) -> Counter[chapter4.Wire]:
    return Counter((m.source, m.dest, m.tag, content(m.value)) for m in messages)


def everywhere(size: int, algorithm: Callable[[int], Any]) -> Any:
    seed = next(seeds)
    return run([algorithm(r) for r in range(size)], seed, synchronous=seed % 3 > 0)


def piece_of(rank: int) -> bytes:
    return bytes([rank]) * (rank % 4)


@sizes
def test_bcast(size: int) -> None:
    for clients, layout, root, limit in cases(size):
        data = bytes([root])
        outcome = everywhere(
            size,
            lambda r: bcast(
                layout,
                r,
                root,
                data if r == root else b"not looked at",
                maxlinear=limit,
            ),
        )
        assert outcome.results == [data] * size, (clients, root, limit)
        assert wire(outcome.between(clients), tuple) == Counter(
            chapter4.bcast(clients, root, limit)
        )


@sizes
def test_gather_short(size: int) -> None:
    for clients, layout, root, limit in cases(size):
        outcome = everywhere(
            size,
            lambda r: gather(
                layout, r, root, bytes([r, r]), Fixed(2), maxlinear=limit, short=True
            ),
        )
        assert outcome.results.pop(root) == [bytes([r, r]) for r in range(size)], (
            clients,
            root,
            limit,
        )
        assert outcome.results == [None] * (size - 1)
        seen = wire(outcome.between(clients), lambda octets: tuple(octets[::2]))
        assert seen == Counter(chapter4.gather_short(clients, root, limit)), (
            clients,
            root,
            limit,
        )


@sizes
def test_gather_long(size: int) -> None:
    for clients, layout, root, limit in cases(size):
        outcome = everywhere(
            size,
            lambda r: gather(
                layout, r, root, bytes([r]), Fixed(1), maxlinear=limit, short=False
            ),
        )
        assert outcome.results.pop(root) == [bytes([r]) for r in range(size)]
        assert outcome.results == [None] * (size - 1)
        assert wire(outcome.between(clients), tuple) == Counter(
            chapter4.everybody_to_root(clients, root, 130)
        )


@sizes
@pytest.mark.parametrize("short", [True, False])
def test_gather_of_pieces_of_unknown_sizes(size: int, short: bool) -> None:
    for clients, layout, root, limit in cases(size):
        outcome = everywhere(
            size,
            lambda r: gather(
                layout, r, root, piece_of(r), Prefixed(), maxlinear=limit, short=short
            ),
        )
        assert outcome.results[root] == [piece_of(r) for r in range(size)], (
            clients,
            root,
            limit,
        )


@sizes
def test_gatherv(size: int) -> None:
    for clients, layout, root, _ in cases(size):
        outcome = everywhere(size, lambda r: gatherv(layout, r, root, piece_of(r)))
        assert outcome.results.pop(root) == [piece_of(r) for r in range(size)]
        assert outcome.results == [None] * (size - 1)
        routes = Counter((m.source, m.dest, m.tag) for m in outcome.between(clients))
        assert routes == Counter(
            w[:3] for w in chapter4.everybody_to_root(clients, root, 140)
        )


@sizes
@pytest.mark.parametrize(("operation", "tag"), [(scatter, 150), (scatterv, 160)])
def test_scatter_and_scatterv(size: int, operation: Any, tag: int) -> None:
    for clients, layout, root, _ in cases(size):
        pieces = [bytes([r]) for r in range(size)]
        outcome = everywhere(
            size, lambda r: operation(layout, r, root, pieces if r == root else None)
        )
        assert outcome.results == pieces
        assert wire(outcome.between(clients), tuple) == Counter(
            chapter4.root_to_everybody(clients, root, tag)
        )


@sizes
@pytest.mark.parametrize("short", [True, False])
def test_allgather(size: int, short: bool) -> None:
    for clients, layout, root, limit in cases(size):
        if root != 0:
            continue
        outcome = everywhere(
            size,
            lambda r: allgather(
                layout, r, bytes([r]), Fixed(1), maxlinear=limit, short=short
            ),
        )
        assert outcome.results == [[bytes([r]) for r in range(size)]] * size
        up = (
            chapter4.gather_short(clients, 0, limit)
            if short
            else chapter4.everybody_to_root(clients, 0, 130)
        )
        down = [
            (a, b, tag, tuple(range(size)))
            for a, b, tag, _ in chapter4.bcast(clients, 0, limit)
        ]
        assert wire(outcome.between(clients), tuple) == Counter(up + down), (
            clients,
            limit,
        )


@sizes
@pytest.mark.parametrize("known", [True, False])
def test_allgatherv(size: int, known: bool) -> None:
    pieces = [piece_of(r) for r in range(size)]
    packing: Packing = Sized([len(p) for p in pieces]) if known else Prefixed()
    for clients, layout, root, limit in cases(size):
        if root != 0:
            continue
        outcome = everywhere(
            size, lambda r: allgatherv(layout, r, pieces[r], packing, maxlinear=limit)
        )
        assert outcome.results == [pieces] * size
        routes = Counter((m.source, m.dest, m.tag) for m in outcome.between(clients))
        expected = chapter4.everybody_to_root(clients, 0, 140) + chapter4.bcast(
            clients, 0, limit
        )
        assert routes == Counter(w[:3] for w in expected)
        if known:
            assert all(
                m.value == b"".join(pieces) for m in outcome.sent if m.tag == 120
            )


@sizes
@pytest.mark.parametrize(("operation", "tag"), [(alltoall, 170), (alltoallv, 180)])
def test_alltoall_and_alltoallv(size: int, operation: Any, tag: int) -> None:
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        outcome = everywhere(
            size, lambda r: operation(layout, r, [bytes([r, to]) for to in range(size)])
        )
        assert outcome.results == [
            [bytes([source, r]) for source in range(size)] for r in range(size)
        ]
        assert wire(outcome.between(clients), tuple) == Counter(
            chapter4.every_pair(clients, tag)
        )


@sizes
@pytest.mark.parametrize("known", [True, False])
def test_scatter_by_masters(size: int, known: bool) -> None:
    pieces = [bytes([r]) if known else piece_of(r) for r in range(size)]
    packing: Packing = Fixed(1) if known else Prefixed()
    for clients, layout, root, _ in cases(size):
        outcome = everywhere(
            size,
            lambda r: scatter_by_masters(
                layout, r, root, pieces if r == root else None, packing
            ),
        )
        assert outcome.results == pieces
        if known:
            assert wire(outcome.between(clients), tuple) == Counter(
                chapter4.root_to_masters(clients, root)
            )


@sizes
def test_alltoall_by_masters(size: int) -> None:
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        outcome = everywhere(
            size,
            lambda r: alltoall_by_masters(
                layout, r, [bytes([r, to]) for to in range(size)], Fixed(2)
            ),
        )
        assert outcome.results == [
            [bytes([source, r]) for source in range(size)] for r in range(size)
        ]
        assert wire(outcome.between(clients), tuple) == Counter(
            chapter4.masters_to_masters(clients)
        )


@sizes
def test_allgatherv_by_gathervs(size: int) -> None:
    pieces = [piece_of(r) for r in range(size)]
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        outcome = everywhere(
            size, lambda r: allgatherv_by_gathervs(layout, r, pieces[r])
        )
        assert outcome.results == [pieces] * size
        routes = Counter((m.source, m.dest, m.tag) for m in outcome.between(clients))
        expected = [
            w[:3]
            for root in range(size)
            for w in chapter4.everybody_to_root(clients, root, 140)
        ]
        assert routes == Counter(expected)


def test_layouts_of_a_small_size_are_all_that_there_are() -> None:
    assert [len(set(chapter4.layouts(size))) for size in range(1, 6)] == [
        1,
        2,
        5,
        15,
        52,
    ]


@pytest.mark.parametrize("short", [True, False])
def test_empty_contributions_are_sent(short: bool) -> None:
    # Nothing in chapter 4 allows leaving a message of no octets out: the peer may wait for it.
    clients = (0, 0, 1, 2)
    layout = Layout(clients)
    outcome = everywhere(
        4, lambda r: gather(layout, r, 0, b"", Fixed(0), maxlinear=4, short=short)
    )
    assert outcome.results[0] == [b""] * 4
    assert len(outcome.between(clients)) == 2
    assert (
        len(
            everywhere(4, lambda r: bcast(layout, r, 0, b"", maxlinear=4)).between(
                clients
            )
        )
        == 2
    )
    assert (
        len(everywhere(4, lambda r: scatterv(layout, r, 0, [b""] * 4)).between(clients))
        == 2
    )
    assert (
        len(everywhere(4, lambda r: alltoallv(layout, r, [b""] * 4)).between(clients))
        == 10
    )


def test_short_is_below_the_crossover() -> None:
    assert is_short(1023, 1024)
    assert not is_short(1024, 1024)
    assert not is_short(0, 0)


def test_what_goes_through_is_not_copied() -> None:
    data = bytearray(1 << 20)
    layout = Layout([0, 1, 1])
    for algorithm in (
        bcast(layout, 0, 0, data, maxlinear=4),
        scatter(layout, 0, 0, [b"", data, data]),
        alltoall(layout, 0, [b"", data, data]),
        gather(layout, 1, 0, data, Fixed(len(data)), maxlinear=4, short=False),
        gatherv(layout, 1, 0, data),
    ):
        steps: list[Any] = next(algorithm)
        sent = [s.value for s in steps if hasattr(s, "value")]
        assert sent and all(value is data for value in sent)


def test_the_roots_own_piece_is_returned_as_it_was_given() -> None:
    for short in (True, False):
        mine = bytearray(b"x")
        algorithm = gather(
            Layout([0, 0]), 0, 0, mine, Fixed(1), maxlinear=4, short=short
        )
        next(algorithm)
        with pytest.raises(StopIteration) as end:
            algorithm.send([b"y"])
        assert end.value.value[0] is mine
        assert bytes(end.value.value[1]) == b"y"


@pytest.mark.parametrize("root", [-1, 2])
def test_no_such_root(root: int) -> None:
    layout = Layout([0, 1])
    for algorithm in (
        bcast(layout, 0, root, b"", maxlinear=4),
        gather(layout, 0, root, b"", Fixed(0), maxlinear=4, short=True),
        gatherv(layout, 0, root, b""),
        scatter(layout, 0, root, [b"", b""]),
        scatterv(layout, 0, root, [b"", b""]),
        scatter_by_masters(layout, 0, root, [b"", b""], Fixed(0)),
    ):
        with pytest.raises(
            LocalProtocolError, match=f"root {root} is not in a communicator of 2"
        ):
            next(algorithm)


def test_one_piece_for_each_rank() -> None:
    layout = Layout([0, 1, 1])
    with pytest.raises(
        LocalProtocolError,
        match="to 3 processes needs as many pieces at the root, not 2",
    ):
        next(scatter(layout, 0, 0, [b"", b""]))
    with pytest.raises(
        LocalProtocolError, match="needs as many pieces at the root, not none"
    ):
        next(scatterv(layout, 0, 0))
    with pytest.raises(
        LocalProtocolError,
        match="to 3 processes needs as many pieces at the root, not none",
    ):
        next(scatter_by_masters(layout, 0, 0, None, Fixed(0)))
    with pytest.raises(
        LocalProtocolError,
        match="of 3 processes needs as many pieces from rank 1, not 4",
    ):
        next(alltoall(layout, 1, [b""] * 4))
    with pytest.raises(
        LocalProtocolError,
        match="of 3 processes needs as many pieces from rank 1, not 2",
    ):
        next(alltoall_by_masters(layout, 1, [b""] * 2, Fixed(0)))


def test_contributions_of_different_sizes_are_an_error() -> None:
    layout = Layout([0, 1])
    algorithm = gather(layout, 0, 0, b"ab", Fixed(2), maxlinear=4, short=True)
    next(algorithm)
    with pytest.raises(PeerError, match="3 octets where its 1 pieces need 2"):
        algorithm.send([b"abc"])
    algorithm2 = allgatherv(layout, 0, b"a", Sized([1, 2]), maxlinear=4)
    next(algorithm2)
    with pytest.raises(
        PeerError, match="the piece of rank 1 has 5 octets where 2 were announced"
    ):
        algorithm2.send([b"abcde"])
