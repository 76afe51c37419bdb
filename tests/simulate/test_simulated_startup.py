"""Start-up in virtual time: chapter 2's machines make the job, and the dance its steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import SHAPES, US, network

from impi.options import HOSTS
from impi.simulate import virtual_startup
from impi.simulate.shape import Limits, Shape, parse_shape, spread
from impi.simulate.virtual_dance import dance_by_formula, dance_by_steps
from impi.simulate.virtual_startup import start_up

KINDS = st.sampled_from(HOSTS)


@settings(deadline=None)
@given(SHAPES, KINDS, st.data())
def test_the_formula_of_the_dance_is_what_its_steps_do(shape: Shape, kind: Any, data: st.DataObject) -> None:
    starts = data.draw(st.lists(st.integers(0, 10**9), min_size=len(shape.clients), max_size=len(shape.clients)))
    job = shape.job(kind, Limits())
    cost = data.draw(st.integers(1, 200 * US))
    args = (job, network(connect=cost), starts)
    assert dance_by_steps(*args) == dance_by_formula(*args)


@settings(deadline=None, max_examples=40)
@given(SHAPES, KINDS)
def test_every_label_takes_a_round_trip_through_the_server(shape: Shape, kind: Any) -> None:
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
    assert (job.procs, job.hosts, job.maxlinear) == (expected.procs, expected.hosts, expected.maxlinear)


def test_one_client_that_makes_the_job_for_all_changes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = spread(20, 3, 4)
    before = start_up(shape, network())
    monkeypatch.setattr(virtual_startup, "_MANY", 0)
    assert start_up(shape, network()) == before


def test_fewer_hosts_dance_less() -> None:
    shape = parse_shape("2x4+2x4")
    dances = {kind: start_up(shape, network(), kind).dance for kind in HOSTS}
    assert [dances[kind].connections for kind in HOSTS] == [64, 4, 1]
    assert [dances[kind].most for kind in HOSTS] == [8, 2, 1]
