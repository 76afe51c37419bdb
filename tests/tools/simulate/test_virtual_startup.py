"""Start-up in virtual time: chapter 2's machines make the job, and the dance its steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import SHAPES, US, network

from impi.protocol.options import HOSTS
from impi.tools.simulate import virtual_startup
from impi.tools.simulate.model.shape import Limits, Shape, spread
from impi.tools.simulate.virtual_startup import start_up

KINDS = st.sampled_from(HOSTS)


@settings(deadline=None, max_examples=40)
@given(SHAPES, KINDS)
def test_every_label_takes_a_round_trip_through_the_server(
    shape: Shape, kind: Any
) -> None:
    outcome = start_up(shape, network(bandwidth=0, overhead=0), kind)
    trip = 100 * US
    # TCP's handshake; AUTH and answer; IMPI, answered last; fourteen labels and DONE.
    assert outcome.joined == 3 * trip
    assert outcome.negotiated == (3 + 15) * trip
    assert outcome.commands == 2 * len(shape.clients) * (2 + 15)
    assert outcome.negotiated <= outcome.told <= outcome.danced


@settings(deadline=None, max_examples=40)
@given(SHAPES, KINDS)
def test_the_job_is_that_of_the_shape(shape: Shape, kind: Any) -> None:
    exchange = virtual_startup._Exchange(shape, network(), kind, Limits())
    exchange.run()
    job, expected = exchange.job, shape.job(kind, Limits())
    assert job is not None
    assert (job.procs, job.hosts, job.maxlinear) == (
        expected.procs,
        expected.hosts,
        expected.maxlinear,
    )


def test_one_client_that_makes_the_job_for_all_changes_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = spread(20, 3, 4)
    before = start_up(shape, network())
    monkeypatch.setattr(virtual_startup, "_MANY", 0)
    assert start_up(shape, network()) == before
