"""The places of processes: written, spread, and as the job that start-up would make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulate_world import SHAPES

from impi.base.errors import UsageError
from impi.protocol.collectives import Layout
from impi.protocol.options import HOSTS
from impi.tools.simulate.model.shape import (
    Limits,
    Shape,
    WideLayout,
    parse_shape,
    spread,
)


def test_a_shape_is_written_as_it_is_read_and_shortened_where_it_is_long() -> None:
    assert str(parse_shape("2x2+1x4")) == "2x2+1x4"
    assert str(spread(64, 32, 1)) == "32 x 2x1"
    assert str(parse_shape("+".join(["1x1"] * 4 + ["1x2"]))) == "1x1+1x1+...+1x2"
    assert str(spread(5, 2, 2)) == "2 nodes with 3+1x2"


@pytest.mark.parametrize("clients", [(), ((),), ((1, 0),), ((1,),) * 33])
def test_a_client_has_processes_and_a_job_has_a_limit(
    clients: tuple[tuple[int, ...], ...],
) -> None:
    with pytest.raises(UsageError):
        Shape(clients)


def test_limits_are_those_that_a_client_may_offer() -> None:
    for wrong in ({"datalen": 0}, {"ackmark": 9, "hiwater": 8}, {"xsize": -1}):
        with pytest.raises(UsageError):
            Limits(**wrong)


@given(SHAPES, st.sampled_from(HOSTS))
def test_every_rank_has_one_client_one_node_and_one_host(
    shape: Shape, kind: str
) -> None:
    job = shape.job(kind, Limits())  # type: ignore[arg-type]
    assert [proc.rank for proc in job.procs] == list(range(shape.size))
    assert [proc.client for proc in job.procs] == list(shape.client_of)
    assert [rank for ranks in shape.ranks for rank in ranks] == list(range(shape.size))
    assert [rank for host in job.hosts for rank in host.procs] == list(
        range(shape.size)
    )
    assert len({(proc.ipv6, proc.pid) for proc in job.procs}) == shape.size


@given(SHAPES)
def test_the_wide_layout_says_the_same_as_that_of_a_job(shape: Shape) -> None:
    wide, plain = WideLayout(shape.client_of), Layout(shape.client_of)
    for rank in range(shape.size):
        assert wide.locals_to_rank(rank) == plain.locals_to_rank(rank)
        assert wide.locals_to_rank(rank).index(rank) == plain.locals_to_rank(
            rank
        ).index(rank)
    with pytest.raises(ValueError, match="is not in"):
        wide.locals_to_rank(0).index(shape.size)


def test_nodes_of_one_machine_are_one() -> None:
    assert set(Shape(((1, 2), (1,)), one_machine=True).node_of) == {0}
    assert Shape(((1, 2), (1,))).node_of == (0, 1, 1, 2)
