"""Broadcast and scatter over chosen shapes: results, and messages between clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import chapter4
import pytest
from collective_world import Outcome, run
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.collectives import (
    SHAPES,
    Fixed,
    Layout,
    Recv,
    Send,
    bcast_over,
    scatter_over,
)

sizes = pytest.mark.parametrize("size", [*range(1, 8), 11])
shapes = pytest.mark.parametrize("name", sorted(SHAPES))
seeds = count()

VALUE = bytes(range(10))


def stand_ins(clients: Sequence[int], root: int) -> tuple[list[int], list[list[int]]]:
    """The clients' stand-ins, the root's first, then by master number; and their ranks."""
    groups = chapter4.members_by_master(clients)
    home = next(i for i, group in enumerate(groups) if root in group)
    groups = groups[home:] + groups[:home]
    return [root, *(group[0] for group in groups[1:])], groups


def edges(name: str, n: int) -> list[tuple[int, int]]:
    """Parent and child, told in another way than the code does."""
    if name == "flat":
        return [(0, v) for v in range(1, n)]
    if name == "chain":
        return [(v, v + 1) for v in range(n - 1)]
    return [(chapter4.clear_low(v), v) for v in range(1, n)]


def below(name: str, n: int, v: int) -> list[int]:
    children = [b for a, b in edges(name, n) if a == v]
    return sorted([v, *(u for child in children for u in below(name, n, child))])


def cases(size: int) -> Iterator[tuple[tuple[int, ...], Layout, int, bool]]:
    """Clients, layout, root, and whether local phases are the library's."""
    for number, clients in enumerate(chapter4.layouts(size)):
        for root in range(size):
            yield clients, Layout(clients), root, (number + root) % 2 == 0


def outcome_of(clients: Sequence[int], procs: Sequence[Any]) -> Outcome:
    seed = next(seeds)
    return run(procs, seed, synchronous=seed % 3 > 0, clients=clients)


@shapes
@pytest.mark.parametrize("n", [*range(1, 20), 32, 33])
def test_shapes_are_trees_without_gaps(name: str, n: int) -> None:
    parents: dict[int, int | None] = {}
    for v in range(n):
        parent, children = SHAPES[name](v, n)
        parents[v] = parent
        for child, end in children:
            assert SHAPES[name](child, n)[0] == v
            assert list(range(child, end)) == below(name, n, child)
    assert {(p, v) for v, p in parents.items() if p is not None} == set(edges(name, n))


@shapes
@sizes
@pytest.mark.parametrize("segment", [0, 1, 4, 10, 11])
def test_bcast(name: str, size: int, segment: int) -> None:
    k = -(-len(VALUE) // segment) if segment else 1
    for clients, layout, root, native in cases(size):
        like = len(VALUE) if native else None
        shape = SHAPES[name]
        procs = [
            bcast_over(
                shape,
                layout,
                r,
                root,
                VALUE if r == root else None,
                len(VALUE),
                segment=segment,
                like=like,
            )
            for r in range(size)
        ]
        outcome = outcome_of(clients, procs)
        assert [bytes(result) for result in outcome.results] == [VALUE] * size, (
            clients,
            root,
        )
        team, _ = stand_ins(clients, root)
        routes = Counter((m.source, m.dest, m.tag) for m in outcome.between(clients))
        assert routes == Counter(
            {(team[a], team[b], 120): k for a, b in edges(name, len(team))}
        )
        assert all(
            len(m.value) <= (segment or len(VALUE)) for m in outcome.between(clients)
        )


@shapes
def test_bcast_of_nothing(name: str) -> None:
    layout = Layout((0, 1, 1, 2))
    procs = [
        bcast_over(SHAPES[name], layout, r, 1, b"" if r == 1 else None, 0, segment=5)
        for r in range(4)
    ]
    outcome = outcome_of((0, 1, 1, 2), procs)
    assert [bytes(result) for result in outcome.results] == [b""] * 4
    assert len(outcome.between((0, 1, 1, 2))) == 2


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=12),
    st.sampled_from(sorted(SHAPES)),
    st.integers(0, 40),
    st.integers(0, 12),
    st.data(),
)
def test_any_bcast(
    clients: list[int], name: str, nbytes: int, segment: int, data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, len(clients) - 1))
    value = bytes(range(nbytes))
    procs = [
        bcast_over(
            SHAPES[name],
            Layout(clients),
            r,
            root,
            value if r == root else None,
            nbytes,
            segment=segment,
        )
        for r in range(len(clients))
    ]
    outcome = run(procs, data.draw(st.integers(0, 1000)), clients=clients)
    assert [bytes(result) for result in outcome.results] == [value] * len(clients)


def test_a_chain_passes_on_what_it_has_while_it_receives_the_next() -> None:
    """The second of three: between its first and its last receive every list has both."""
    second = bcast_over(SHAPES["chain"], Layout((0, 1, 2)), 1, 0, None, 9, segment=3)
    assert next(second) == [Recv(0, 120)]
    assert second.send([b"abc"]) == [Recv(0, 120), Send(2, b"abc", 120)]
    assert second.send([b"def"]) == [Recv(0, 120), Send(2, b"def", 120)]
    assert second.send([b"ghi"]) == [Send(2, b"ghi", 120)]
    with pytest.raises(StopIteration) as end:
        second.send([])
    assert end.value.value == b"abcdefghi"


def test_the_root_of_a_segmented_bcast_waits_for_nothing_between_segments() -> None:
    first = bcast_over(SHAPES["flat"], Layout((0, 1, 2)), 0, 0, b"abcd", 4, segment=2)
    sends = [(s.dest, bytes(s.value)) for s in next(first) if isinstance(s, Send)]
    assert sends == [(1, b"ab"), (2, b"ab"), (1, b"cd"), (2, b"cd")]


def test_a_segment_of_another_length_is_named() -> None:
    second = bcast_over(SHAPES["chain"], Layout((0, 1)), 1, 0, None, 9, segment=5)
    next(second)
    with pytest.raises(
        PeerError,
        match="a segment of a broadcast has 3 octets, not 5: counts and types",
    ):
        second.send([b"abc"])


@shapes
@sizes
def test_scatter(name: str, size: int) -> None:
    pieces = [bytes([r, 100 + r]) for r in range(size)]
    for clients, layout, root, _ in cases(size):
        procs = [
            scatter_over(
                SHAPES[name], layout, r, root, pieces if r == root else None, Fixed(2)
            )
            for r in range(size)
        ]
        outcome = outcome_of(clients, procs)
        assert [bytes(result) for result in outcome.results] == pieces, (clients, root)
        team, groups = stand_ins(clients, root)
        n = len(team)
        expected = Counter(
            (
                team[a],
                team[b],
                150,
                b"".join(pieces[r] for u in below(name, n, b) for r in groups[u]),
            )
            for a, b in edges(name, n)
        )
        assert (
            Counter(
                (m.source, m.dest, m.tag, bytes(m.value))
                for m in outcome.between(clients)
            )
            == expected
        )


def test_scatter_of_nothing() -> None:
    procs = [
        scatter_over(SHAPES["binomial"], Layout((0, 1, 2)), r, 2, [b""] * 3, Fixed(0))
        for r in range(3)
    ]
    assert [bytes(result) for result in outcome_of((0, 1, 2), procs).results] == [
        b""
    ] * 3


def test_wrong_calls() -> None:
    layout = Layout((0, 1))
    with pytest.raises(LocalProtocolError, match="root 2"):
        next(bcast_over(SHAPES["flat"], layout, 0, 2, b"", 0))
    with pytest.raises(LocalProtocolError, match="root -1"):
        next(scatter_over(SHAPES["flat"], layout, 0, -1, None, Fixed(1)))
    with pytest.raises(
        LocalProtocolError, match="needs as many pieces at the root, not 1"
    ):
        next(scatter_over(SHAPES["flat"], layout, 0, 0, [b"a"], Fixed(1)))
    with pytest.raises(
        PeerError, match="the piece of rank 1 has 2 octets where 1 were announced"
    ):
        next(scatter_over(SHAPES["flat"], layout, 0, 0, [b"a", b"bc"], Fixed(1)))
    other = scatter_over(SHAPES["flat"], layout, 1, 0, None, Fixed(1))
    next(other)
    with pytest.raises(PeerError, match="has 2 octets where its pieces need 1"):
        other.send([b"ab"])
