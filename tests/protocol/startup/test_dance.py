"""The pairs of hosts in the dance, and the side that connects (IMPI 2.3.8)."""

import pytest
from hosts_world import job_of_hosts
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import PeerError, Truncated
from impi.base.records import replaced
from impi.protocol.job import LAZY_VERSION, Host, Job
from impi.protocol.startup.dance import (
    Accept,
    Connect,
    Encounters,
    check_rank,
    dance_steps,
    encode_rank,
)


def job_of(shape: list[int]) -> Job:
    """A job whose client i has shape[i] hosts."""
    owners = [client for client, n in enumerate(shape) for _ in range(n)]
    hosts = tuple(
        Host(index=i, client=c, ipv6=bytes(16), port=1, procs=())
        for i, c in enumerate(owners)
    )
    return job_of_hosts(hosts)


@pytest.mark.clause("2.3.8")
def test_three_clients_of_one_two_and_one_hosts() -> None:
    job = job_of([1, 2, 1])
    assert dance_steps(job, 0) == [Accept(), Accept(), Accept()]
    assert dance_steps(job, 1) == [Connect(0), Accept()]
    assert dance_steps(job, 2) == [Connect(0), Accept()]
    assert dance_steps(job, 3) == [Connect(0), Connect(1), Connect(2)]


@pytest.mark.clause("2.3.8")
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_every_pair_of_clients_hosts_meets_once_and_nobody_waits_for_ever(
    shape: list[int],
) -> None:
    job = job_of(shape)
    todo = {h.index: dance_steps(job, h.index) for h in job.hosts}
    pairs: list[tuple[int, int]] = []
    # Connections in the listener's queue
    waiting: dict[int, list[int]] = {h: [] for h in todo}
    moved = True
    while moved:
        moved = False
        for me, steps in todo.items():
            match steps[:1]:
                case [Connect(host)]:
                    waiting[host].append(me)
                    steps.pop(0)
                    moved = True
                case [Accept()] if waiting[me]:
                    peer = check_rank(
                        job,
                        me,
                        [a for a, b in pairs if b == me],
                        encode_rank(waiting[me].pop(0)),
                    )
                    pairs.append((peer, me))
                    steps.pop(0)
                    moved = True
    assert not any(todo.values())
    everybody = {
        (a.index, b.index)
        for a in job.hosts
        for b in job.hosts
        if a.index > b.index and a.client != b.client
    }
    assert len(pairs) == len(everybody)
    assert set(pairs) == everybody


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize(
    ("rank", "why"),
    [
        (5, "0 to 4 only"),
        (2**32 - 1, "0 to 4 only"),
        (0, "above 1"),
        (1, "above 1"),
        (2, "host of client 1 too"),
        (3, "already"),
    ],
)
def test_ranks_refused(rank: int, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        check_rank(job_of([1, 2, 2]), 1, {3}, rank.to_bytes(4, "big"))


def test_rank_accepted_with_what_follows() -> None:
    assert (
        check_rank(job_of([1, 2, 2]), 1, {3}, bytes.fromhex("00000004") + b"packet")
        == 4
    )


def test_rank_cut_short() -> None:
    with pytest.raises(Truncated):
        check_rank(job_of([1, 1]), 0, (), b"\0\0\0")


def lazy(shape: list[int]) -> Job:
    return replaced(job_of(shape), version=LAZY_VERSION)


def test_in_a_lazy_job_any_host_of_another_client_may_connect() -> None:
    job = lazy([1, 2, 2])
    assert [check_rank(job, 1, (), encode_rank(host)) for host in (0, 3, 4)] == [
        0,
        3,
        4,
    ]
    with pytest.raises(PeerError, match="host of client 1 too"):
        check_rank(job, 1, (), encode_rank(1))


class Pair:
    """Two hosts of a lazy job that both want the channel, and every order of events."""

    def __init__(self) -> None:
        self.ends = [Encounters(0), Encounters(1)]
        self.under_way: dict[int, str] = {}
        """By the host that has connected: "knocks", or the answer that it has not heard yet."""
        self.channels: list[tuple[int, int]] = []
        """(host, the host that connected), as each of them sees it."""

    def moves(self) -> list[tuple[str, int]]:
        found = []
        for me in (0, 1):
            if me not in self.under_way and not any(
                host == me for host, _ in self.channels
            ):
                found.append(("call", me))
            if self.under_way.get(me) == "knocks":
                found.append(("come", me))
            elif me in self.under_way:
                found.append(("hear", me))
        return found

    def move(self, what: str, me: int) -> None:
        other = 1 - me
        if what == "call":
            if self.ends[me].calls(other):
                self.under_way[me] = "knocks"
        elif what == "come":
            accepted = self.ends[other].comes(me)
            self.under_way[me] = "answer" if accepted else "end"
            if accepted:
                self.channels.append((other, me))
        elif self.under_way.pop(me) == "answer":
            self.ends[me].answered(other)
            self.channels.append((me, me))
        else:
            self.ends[me].ended(other)


@given(st.lists(st.integers(0, 3), min_size=12, max_size=40))
def test_two_hosts_that_connect_at_once_have_one_channel(choices: list[int]) -> None:
    pair = Pair()
    for choice in choices:
        moves = pair.moves()
        if moves:
            pair.move(*moves[choice % len(moves)])
        for me in (0, 1):
            assert sum(host == me for host, _ in pair.channels) <= 1
    for _ in range(20):
        moves = [move for move in pair.moves() if move[0] != "call"] or pair.moves()
        if moves:
            pair.move(*moves[0])
    assert sorted(host for host, _ in pair.channels) == [0, 1]
    assert len({knocker for _, knocker in pair.channels}) == 1, (
        "both have the same channel"
    )


def test_a_connection_that_came_to_nothing_can_be_made_again() -> None:
    end = Encounters(1)
    assert not end.has(0)
    assert end.comes(0)
    assert end.has(0)
    assert not end.comes(0)
    assert not end.calls(0)
    end.lost(0)
    assert not end.has(0)
    assert end.calls(0)
    assert not end.comes(0), "the higher host's own one stays"
    end.ended(0)
    assert end.comes(0)
