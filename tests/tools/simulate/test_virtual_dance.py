"""The dance in virtual time: steps, and the formula for many hosts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import SHAPES, US, network

from impi.protocol.options import HOSTS
from impi.tools.simulate.model.shape import Limits, Shape, parse_shape
from impi.tools.simulate.virtual_dance import dance_by_formula, dance_by_steps
from impi.tools.simulate.virtual_startup import start_up

KINDS = st.sampled_from(HOSTS)


@settings(deadline=None)
@given(SHAPES, KINDS, st.data())
def test_the_formula_of_the_dance_is_what_its_steps_do(
    shape: Shape, kind: Any, data: st.DataObject
) -> None:
    starts = data.draw(
        st.lists(
            st.integers(0, 10**9),
            min_size=len(shape.clients),
            max_size=len(shape.clients),
        )
    )
    job = shape.job(kind, Limits())
    cost = data.draw(st.integers(1, 200 * US))
    args = (job, network(connect=cost), starts)
    assert dance_by_steps(*args) == dance_by_formula(*args)


def test_fewer_hosts_dance_less() -> None:
    shape = parse_shape("2x4+2x4")
    dances = {kind: start_up(shape, network(), kind).dance for kind in HOSTS}
    assert [dances[kind].connections for kind in HOSTS] == [64, 4, 1]
    assert [dances[kind].most for kind in HOSTS] == [8, 2, 1]
