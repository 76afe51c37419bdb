"""Refused collectives: what a communicator's procs learn, however late a word arrives."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.errors import error, table
from impi.rank.engine.channels.threads import Threads
from impi.rank.engine.faults import Faults

Words = dict[tuple[int, int], deque[bytes]]


class Engine:
    def __init__(self, rank: int, words: Words, *, is_ours: bool = True) -> None:
        self.rank = rank
        self.job = SimpleNamespace(is_ours=is_ours)
        self.threads = Threads()
        self._words = words

    def send(
        self, context: Any, dest: int, tag: int, source: Any, *, collective: bool
    ) -> None:
        assert collective
        there = context.peers[dest]
        self._words.setdefault((self.rank, there), deque()).append(
            bytes(source.octets(external=True))
        )


class Proc:
    """One proc; ``groups`` are one group, or the two of an intercommunicator."""

    def __init__(self, rank: int, groups: list[list[int]], words: Words) -> None:
        [mine] = [group for group in groups if rank in group]
        self.peers = next(
            group for group in groups if group is not mine or len(groups) == 1
        )
        context: Any = SimpleNamespace(
            rank=mine.index(rank),
            peers=self.peers,
            is_inter=len(groups) == 2,
            takers={},
        )
        engine: Any = Engine(rank, words)
        self.faults = Faults(engine, context)
        self.called = 0

    def call(self, right: bool) -> None:
        """Nothing begins before what was refused is settled, or all is broken."""
        if right:
            self.faults.begin()
        else:
            self.faults.refuse("Bcast", error("ERR_ROOT", "root 99"))
        self.called += 1

    def hear(self, source: int, octets: bytes) -> None:
        self.faults.heard(self.peers.index(source), octets)


def settle(
    data: st.DataObject, calls: list[list[bool]], groups: list[list[int]]
) -> list[Proc]:
    """All procs call, and words arrive in any order that keeps that of each pair."""
    words: Words = {}
    procs = [Proc(rank, groups, words) for rank in range(len(calls))]
    while True:
        steps: list[tuple[str, Any]] = [
            ("hear", pair) for pair, queue in sorted(words.items()) if queue
        ]
        for rank, proc in enumerate(procs):
            if proc.called < len(calls[rank]) and (
                proc.faults.settled or proc.faults.broken
            ):
                steps.append(("call", rank))
        if not steps:
            return procs
        kind, what = data.draw(st.sampled_from(steps))
        if kind == "call":
            procs[what].call(calls[what][procs[what].called])
        else:
            source, dest = what
            procs[dest].hear(source, words[what].popleft())


@settings(deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_one_group(data: st.DataObject, n: int, k: int) -> None:
    check(data, [list(range(n))], k)


@settings(deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))
def test_two_groups(data: st.DataObject, first: int, second: int, k: int) -> None:
    check(data, [list(range(first)), list(range(first, first + second))], k)


def check(data: st.DataObject, groups: list[list[int]], k: int) -> None:
    n = sum(map(len, groups))
    row = st.lists(st.booleans(), min_size=k, max_size=k)
    alike = data.draw(st.booleans())
    calls = [data.draw(row)] * n if alike else [data.draw(row) for _ in range(n)]
    procs = settle(data, calls, groups)
    # Nobody waits for a word that never comes.
    assert [proc.called for proc in procs] == [k] * n
    assert all(proc.faults.settled for proc in procs)
    together = all(len({calls[rank][i] for rank in range(n)}) == 1 for i in range(k))
    assert [proc.faults.broken for proc in procs] == [not together] * n
    if not together:
        for proc in procs:
            failure = proc.faults.failure()
            assert failure.told and failure == error("ERR_ROOT")
            assert "failed in Bcast: MPI_ERR_ROOT: invalid root: root 99" in str(
                failure
            )


def test_what_broke_it_first_is_what_all_say() -> None:
    words: Words = {}
    culprit, other = (Proc(rank, [[0, 1]], words) for rank in range(2))
    culprit.faults.refuse("bcast", TypeError("no pickle"))
    other.faults.begin()
    assert not other.faults.broken
    other.hear(0, words[0, 1].popleft())
    assert other.faults.broken
    assert other.faults.failure() == error("ERR_OTHER")
    assert "rank 0 failed in bcast: TypeError: no pickle" in str(other.faults.failure())
    assert not culprit.faults.settled
    culprit.hear(1, words[1, 0].popleft())
    assert culprit.faults.settled and culprit.faults.broken
    assert str(culprit.faults.failure()) == str(other.faults.failure())


def test_a_code_of_the_programs_own_is_told_as_other() -> None:
    words: Words = {}
    culprit, other = (Proc(rank, [[0, 1]], words) for rank in range(2))
    culprit.faults.abandon("reduce", error(table.add_class(), "mine"))
    other.hear(0, words[0, 1].popleft())
    assert other.faults.failure() == error("ERR_OTHER") and "failed in reduce" in str(
        other.faults.failure()
    )


def test_where_another_implementation_may_be_nothing_is_sent() -> None:
    words: Words = {}
    engine: Any = Engine(0, words, is_ours=False)
    context: Any = SimpleNamespace(rank=0, peers=[0, 1], is_inter=False, takers={})
    faults = Faults(engine, context)
    faults.refuse("Bcast", error("ERR_ROOT"))
    faults.abandon("Bcast", error("ERR_ROOT"))
    assert words == {} and faults.settled and not faults.broken


@pytest.mark.parametrize("rank", [0, 1])
def test_the_culprit_is_named_by_both_ranks_where_they_differ(rank: int) -> None:
    words: Words = {}
    engine: Any = Engine(rank + 5, words)
    context: Any = SimpleNamespace(rank=rank, peers=[5, 6], is_inter=False, takers={})
    faults = Faults(engine, context)
    faults.abandon("reduce", error("ERR_OP"))
    assert f"rank {rank} (rank {rank + 5} of MPI_COMM_WORLD) failed in reduce" in str(
        faults.failure()
    )
