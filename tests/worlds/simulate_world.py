"""Networks and drivers for tests of the simulator."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from impi.tools.simulate.agreed_algorithms import CHOICES, parse_choices
from impi.tools.simulate.catalogue import OPERATIONS, Case
from impi.tools.simulate.drive import Driver
from impi.tools.simulate.model.network import Network, Tier
from impi.tools.simulate.model.shape import Limits, Shape

US = 10**6


def network(
    *,
    latency: int = 50 * US,
    bandwidth: int = 10**9,
    overhead: int = 5 * US,
    **more: Any,
) -> Network:
    """Between clients as said; within them a microsecond each way and nothing else."""
    wide = Tier(latency=latency, bandwidth=bandwidth, send=overhead, receive=overhead)
    local = Tier(latency=US, bandwidth=0, send=0, receive=0)
    return Network(
        wide=wide,
        local=local,
        **{"combine": 10**9, "route": US, "connect": 20 * US, **more},
    )


SHAPES = st.lists(
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    min_size=1,
    max_size=6,
).map(lambda clients: Shape(tuple(clients)))
LIMITS = st.builds(
    lambda ack, more, linear, xsize: Limits(
        datalen=64, ackmark=ack, hiwater=ack + more, maxlinear=linear, xsize=xsize
    ),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 5),
    st.sampled_from([0, 100, 1000]),
)


def facts(outcome: Any) -> tuple[Any, ...]:
    """Return the results that must not depend on how a job is simulated."""
    return (
        outcome.time,
        outcome.hops,
        outcome.messages,
        sorted(outcome.wide.items()),
        outcome.local,
    )


def driver(shape: Shape, limits: Limits = Limits(), **how: Any) -> Driver:
    return Driver(shape, network(), limits, **how)


CHOSEN = st.lists(
    st.sampled_from(
        [*CHOICES, "bcast=chain/24", "bcast=flat/64", "allreduce=elimination/100"]
    )
).map(lambda names: parse_choices(",".join(names)))


SIZES = st.sampled_from([0, 8, 65, 500])


CASES = st.builds(
    Case,
    st.sampled_from(sorted(OPERATIONS)),
    SIZES,
    native=st.booleans(),
    chosen=CHOSEN,
)


HOP = 5 * US + 50 * US + 5 * US


def hop(octets: int) -> int:
    """o_s + m/B + L + o_r on the network of the tests: a nanosecond for each octet."""
    return HOP + octets * 1000
