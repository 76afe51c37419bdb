"""Local phases by the library's collectives: equal results and messages between clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import chapter4
import pytest
from collective_world import Outcome, run

from impi.protocol.collectives import (
    Algorithm,
    Fixed,
    Layout,
    Prefixed,
    Recv,
    Reduction,
    Send,
    Sized,
    allgather,
    allgatherv,
    allreduce,
    alltoall,
    barrier,
    bcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

LIMIT_OF = (1, 32)  # always a tree, always linear
sizes = pytest.mark.parametrize("size", [*range(1, 8), 11])
seeds = count()


def layouts(size: int) -> Iterator[tuple[tuple[int, ...], Layout, int, int]]:
    """Clients, layout, root, limit: every layout, the roots and limits in turn."""
    for number, clients in enumerate(chapter4.layouts(size)):
        yield clients, Layout(clients), number % size, LIMIT_OF[number // 2 % 2]


def both(
    clients: Sequence[int], algorithm: Callable[[int, bool], Any]
) -> tuple[Outcome, Outcome]:
    """By messages alone, and by the library."""
    found: list[Outcome] = []
    for native in (False, True):
        seed = next(seeds)
        procs = [algorithm(rank, native) for rank in range(len(clients))]
        found.append(run(procs, seed, synchronous=seed % 3 > 0, clients=clients))
    plain, local = found
    assert plain.phases == 0
    assert wire(local, clients) == wire(plain, clients), (
        "a local phase shows on the wire"
    )
    assert len(set(clients)) > 1 or local.sent == [], (
        "a message where the library could have moved it"
    )
    return plain, local


def wire(
    outcome: Outcome, clients: Sequence[int]
) -> Counter[tuple[int, int, int, str]]:
    def content(value: Any) -> str:
        return str(sorted(value) if isinstance(value, list) else bytes(value))

    return Counter(
        (m.source, m.dest, m.tag, content(m.value)) for m in outcome.between(clients)
    )


def clients_with_company(clients: Sequence[int]) -> int:
    return sum(n > 1 for n in Counter(clients).values())


def append(invec: list[int], inoutvec: list[int]) -> list[int]:
    inoutvec[:0] = invec
    return inoutvec


SUM = Reduction(append, commutative=True, copy=list, library=("SUM", "i4"))


@sizes
def test_barrier(size: int) -> None:
    for clients, layout, _, limit in layouts(size):
        _, outcome = both(
            clients,
            lambda r, native: barrier(layout, r, maxlinear=limit, native=native),
        )
        assert outcome.phases == clients_with_company(clients) * (
            1 if len(set(clients)) == 1 else 2
        )
        assert len(outcome.sent) == len(outcome.between(clients))


@sizes
def test_bcast(size: int) -> None:
    for clients, layout, root, limit in layouts(size):
        data = bytes([root, 1])

        def algorithm(r: int, native: bool) -> Any:
            return bcast(
                layout,
                r,
                root,
                data if r == root else None,
                maxlinear=limit,
                like=2 if native else None,
            )

        _, outcome = both(clients, algorithm)
        assert outcome.results == [data] * size
        assert outcome.phases == clients_with_company(clients)
        assert len(outcome.sent) == len(outcome.between(clients))


@sizes
def test_reduce_and_what_is_made_of_it(size: int) -> None:
    for clients, layout, root, limit in layouts(size):
        values = [[r] for r in range(size)]
        plain, outcome = both(
            clients,
            lambda r, native: reduce(
                layout, r, root, values[r], SUM, maxlinear=limit, native=native
            ),
        )
        assert (
            sorted(outcome.results[root])
            == sorted(plain.results[root])
            == list(range(size))
        )
        assert [r for r in range(size) if outcome.results[r] is not None] == [root]
        assert outcome.phases == clients_with_company(clients)
        _, outcome = both(
            clients,
            lambda r, native: allreduce(
                layout, r, values[r], SUM, maxlinear=limit, native=native
            ),
        )
        assert [sorted(result) for result in outcome.results] == [
            list(range(size))
        ] * size
        assert outcome.phases == clients_with_company(clients) * (
            1 if len(set(clients)) == 1 else 2
        )
        assert values == [[r] for r in range(size)], (
            "a process changed the value that it was given"
        )


@sizes
def test_reduce_scatter(size: int) -> None:
    def divide(value: list[int]) -> list[list[int]]:
        return [[r, *sorted(value)] for r in range(size)]

    for clients, layout, _, limit in layouts(size):
        if len(set(clients)) == 1:
            continue  # its second half is a scatterv, by messages
        _, outcome = both(
            clients,
            lambda r, native: reduce_scatter(
                layout, r, [r], SUM, divide, maxlinear=limit, native=native
            ),
        )
        assert outcome.results == [[r, *range(size)] for r in range(size)]


@sizes
@pytest.mark.parametrize("short", [True, False])
def test_gather_and_allgather(size: int, short: bool) -> None:
    pieces = [bytes([r, r]) for r in range(size)]
    for clients, layout, root, limit in layouts(size):

        def collect(r: int, native: bool) -> Any:
            return gather(
                layout,
                r,
                root,
                pieces[r],
                Fixed(2),
                maxlinear=limit,
                short=short,
                native=native,
            )

        def share(r: int, native: bool) -> Any:
            return allgather(
                layout,
                r,
                pieces[r],
                Fixed(2),
                maxlinear=limit,
                short=short,
                native=native,
            )

        _, outcome = both(clients, collect)
        assert outcome.results.pop(root) == pieces
        assert outcome.results == [None] * (size - 1)
        alone = len(set(clients)) == 1
        assert outcome.phases == (
            clients_with_company(clients) if short or alone else 0
        )
        _, outcome = both(clients, share)
        assert outcome.results == [pieces] * size


@sizes
def test_allgatherv_spreads_by_the_library(size: int) -> None:
    pieces = [bytes([r]) * (r % 3) for r in range(size)]
    sizes_of = Sized([len(piece) for piece in pieces])
    for clients, layout, _, limit in layouts(size):
        if len(set(clients)) == 1:
            continue  # its first half is a gatherv, by messages
        _, outcome = both(
            clients,
            lambda r, native: allgatherv(
                layout, r, pieces[r], sizes_of, maxlinear=limit, native=native
            ),
        )
        assert outcome.results == [pieces] * size
        assert outcome.phases == clients_with_company(clients)


@sizes
def test_scatter_and_alltoall_under_one_client(size: int) -> None:
    for clients, layout, root, _ in layouts(size):
        pieces = [bytes([r]) for r in range(size)]
        table = [
            [bytes([source, dest]) for dest in range(size)] for source in range(size)
        ]

        def spread(r: int, native: bool) -> Any:
            return scatter(
                layout,
                r,
                root,
                pieces if r == root else None,
                like=1 if native else None,
            )

        _, outcome = both(clients, spread)
        assert outcome.results == pieces
        _, outcome = both(
            clients, lambda r, native: alltoall(layout, r, table[r], alike=native)
        )
        assert outcome.results == [
            [table[source][r] for source in range(size)] for r in range(size)
        ]
        assert outcome.phases == (1 if len(set(clients)) == 1 and size > 1 else 0)


def test_what_libraries_cannot_do_goes_by_messages() -> None:
    layout, clients = Layout([0, 0, 1]), (0, 0, 1)
    own = Reduction(append, commutative=True, copy=list)
    algorithms: list[Callable[[int], Any]] = [
        lambda r: reduce(layout, r, 0, [r], own, maxlinear=4, native=True),
        lambda r: allreduce(layout, r, [r], own, maxlinear=4, native=True),
        lambda r: gather(
            layout, r, 0, bytes(r), Prefixed(), maxlinear=4, short=True, native=True
        ),
        lambda r: allgather(
            layout, r, bytes(r), Prefixed(), maxlinear=4, short=True, native=True
        ),
        lambda r: bcast(layout, r, 0, b"unknown size", maxlinear=4),
    ]
    for algorithm in algorithms:
        outcome = run([algorithm(r) for r in range(3)], 1, clients=clients)
        assert outcome.phases == 0


def test_the_simulator_sees_two_different_phases() -> None:
    def one(rank: int) -> Any:
        return barrier(Layout([0, 0]), rank, maxlinear=4, native=True)

    other: Algorithm[Any] = bcast(Layout([0, 0]), 1, 0, maxlinear=4, like=1)
    with pytest.raises(AssertionError, match="not the same phase"):
        run([one(0), other], 1, clients=(0, 0))
    assert isinstance(
        next(bcast(Layout([0, 1]), 1, 0, maxlinear=4, like=1))[0], Recv | Send
    ), "alone at its client"
