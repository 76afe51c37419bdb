"""The cost of a local phase (:class:`impi.protocol.collectives.Local`) in closed form.

The library is modelled by textbook trees and rings of n processes without contention, with hop(m) =
o_s + m/B + L + o_r of the local tier and the smallest k with 2^k >= n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from impi.protocol.collectives import Local
from impi.tools.simulate.model.network import Network, wire_time
from impi.tools.simulate.model.values import Extent, nbytes


class Phase(NamedTuple):
    """The times at which the participants of a phase go on."""

    others: int
    root: int


def phase_times(step: Local, n: int, last: int, root: int, network: Network) -> Phase:
    """Return the times at which a phase ends.

    Args:
        step: the step of the root, or of any process.
        n: number of processes of the client.
        last: time at which the last of them began.
        root: time at which the root began.
        network: the costs.
    """

    tier, k = network.local, (n - 1).bit_length()
    size = _size(step)
    # A copy inside a client is the sender's work, so a root pays for it in each of its rounds.
    sending = tier.sending(size) + wire_time(size, tier.bandwidth)
    combining = wire_time(size, network.combine)
    # Every piece but the own one passes the root or each process, and
    # k rounds have their latencies.
    bulk = (n - 1) * wire_time(size, tier.bandwidth) + k * tier.hop(0)
    ends = {
        "bcast": Phase(others=root + k * tier.hop(size), root=root + k * sending),
        "scatter": Phase(
            others=root + bulk,
            root=root + (n - 1) * wire_time(size, tier.bandwidth) + k * tier.send,
        ),
        "gather": Phase(others=0, root=last + bulk),
        "reduce": Phase(others=0, root=last + k * (tier.hop(size) + combining)),
    }
    everybody = {
        "barrier": k * tier.hop(0),
        "allreduce": k * (tier.hop(size) + combining),
        "allgather": bulk,
        "alltoall": (n - 1) * tier.hop(size),
    }

    return (
        ends[step.what]
        if step.what in ends
        else Phase(*[last + everybody[step.what]] * 2)
    )


def _size(step: Local) -> int:
    if step.what in ("scatter", "alltoall") and step.value is not None:
        return nbytes(step.value[0])

    if step.value is not None:
        return nbytes(step.value)

    return (
        step.like
        if isinstance(step.like, int)
        else 0
        if step.like is None
        else nbytes(step.like)
    )


def phase_values(steps: Mapping[int, Local], n: int) -> Mapping[int, Any]:
    """Return the results of ``steps`` by rank; absent ranks do the same as a present one."""

    ranks = sorted(steps)
    first = steps[ranks[0]]

    root = steps.get(first.root, first)
    match first.what:
        case "barrier":
            value, everywhere = None, True
        case "bcast":
            value, everywhere = root.value, True
        case "scatter":
            value, everywhere = root.value[0], True
        case "gather":
            value, everywhere = [first.value] * n, False
        case "reduce":
            value, everywhere = Extent(nbytes(first.value)), False
        case "allreduce":
            value, everywhere = Extent(nbytes(first.value)), True
        case "allgather":
            value, everywhere = [first.value] * n, True
        case _:
            value, everywhere = [first.value[0]] * n, True

    return {rank: value if everywhere or rank == first.root else None for rank in ranks}
