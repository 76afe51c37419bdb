"""Random traffic in random jobs: nothing is lost, duplicated or reordered; all ends."""

from random import Random

import pytest
from job_world import World, make_job

SHAPES = [[1, 1], [2, 1], [1, 1, 1], [2, 2], [3, 1, 2], [1, 1, 1, 1]]


def play(seed: int, *, lowest: bool = False, messages: int = 60) -> World:
    rng = Random(seed)
    job = make_job(rng, rng.choice(SHAPES), lowest)
    world = World(
        rng,
        job,
        messages,
        capacity=rng.choice((1, 130, 1000, 1 << 16)),
        cancels=rng.choice((0.0, 0.02, 0.2)),
        eager=rng.choice((0.05, 0.2, 0.4)),
    )
    world.run()
    return world


@pytest.mark.clause("3.6")
@pytest.mark.clause("3.7")
# 69: a message and its CANCEL are read at once
@pytest.mark.parametrize("seed", [*range(60), 69])
def test_random_jobs(seed: int) -> None:
    play(seed)


@pytest.mark.clause("3.9")
@pytest.mark.parametrize("seed", range(12))
def test_the_lowest_values_of_all(seed: int) -> None:
    world = play(seed, lowest=True, messages=25)
    assert (world.job.maxdatalen, world.job.ackmark, world.job.hiwater) == (1, 1, 1)


@pytest.mark.clause("2.3.5")
def test_every_proposal_differs_and_the_lowest_counts() -> None:
    jobs = [make_job(Random(seed), [1, 1, 1]) for seed in range(50)]
    assert len({(job.maxdatalen, job.ackmark, job.hiwater) for job in jobs}) > 20
    assert all(job.ackmark <= job.hiwater and job.tag_ub == 32767 for job in jobs)


@pytest.mark.clause("3.7.4")
def test_the_seeds_reach_every_outcome() -> None:
    """Or a promise would be kept because nothing ever tried it."""
    missing = {
        (None, True, False),
        (None, True, True),
        (True, False, False),  # decided here
        (True, True, False),
        (True, True, True),
        (False, True, False),
        (False, True, True),
    }
    for seed in range(30):
        for message in play(seed).sent.values():
            missing.discard(
                (message.out.cancelled, message.arrived, message.out.synchronous)
            )
        if not missing:
            return
    assert not missing


def test_a_seed_is_a_job() -> None:
    assert play(5).now == play(5).now
