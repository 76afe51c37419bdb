"""Who connects to whom (IMPI 2.3.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.errors import PeerError, Truncated
from impi.job import Host, Job
from impi.startup.dance import Accept, Connect, check_rank, dance_steps, encode_rank


def job_of(shape: list[int]) -> Job:
    """A job whose client i has shape[i] hosts."""
    owners = [client for client, n in enumerate(shape) for _ in range(n)]
    hosts = tuple(Host(index=i, client=c, ipv6=bytes(16), port=1, procs=()) for i, c in enumerate(owners))
    return Job(
        version=(0, 0),
        nclients=len(shape),
        hosts=hosts,
        procs=(),
        maxdatalen=1,
        tag_ub=32767,
        xsize=0,
        maxlinear=0,
        ackmark=1,
        hiwater=1,
    )


@pytest.mark.clause("2.3.8")
def test_three_clients_of_one_two_and_one_hosts() -> None:
    job = job_of([1, 2, 1])
    assert dance_steps(job, 0) == [Accept(), Accept(), Accept()]
    assert dance_steps(job, 1) == [Connect(0), Accept()]
    assert dance_steps(job, 2) == [Connect(0), Accept()]
    assert dance_steps(job, 3) == [Connect(0), Connect(1), Connect(2)]


@pytest.mark.clause("2.3.8")
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_every_pair_of_clients_hosts_meets_once_and_nobody_waits_for_ever(shape: list[int]) -> None:
    job = job_of(shape)
    todo = {h.index: dance_steps(job, h.index) for h in job.hosts}
    pairs: list[tuple[int, int]] = []
    waiting: dict[int, list[int]] = {h: [] for h in todo}  # connections in the listener's queue
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
                    peer = check_rank(job, me, [a for a, b in pairs if b == me], encode_rank(waiting[me].pop(0)))
                    pairs.append((peer, me))
                    steps.pop(0)
                    moved = True
    assert not any(todo.values())
    everybody = {(a.index, b.index) for a in job.hosts for b in job.hosts if a.index > b.index and a.client != b.client}
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
    assert check_rank(job_of([1, 2, 2]), 1, {3}, bytes.fromhex("00000004") + b"packet") == 4


def test_rank_cut_short() -> None:
    with pytest.raises(Truncated):
        check_rank(job_of([1, 1]), 0, (), b"\0\0\0")
