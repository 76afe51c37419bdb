"""Costs of the algorithms as closed formulas of pLogP, in seconds until the last process is done.

Broadcasts and scatters: Barchet-Estefanel and Mounie (EuroPVM/MPI 2004, tables 1 and 2).
Eliminations: Rabenseifner and Traeff (there, 3.5) with a + m b = L + g(m). Exchanges: a message a
round. P are the clients, m the octets of a whole broadcast or reduction, or of one client's part of
a scatter or allgather.

The paper's table rounds the gaps of a binomial broadcast down, too few if P is not a power of two.
Our model of a reduction, a reversed broadcast that combines at every hop, rounds them up. The
papers' L is here that of a message in a collective: L and the call's share (Parameters.hop), which
between clients on one machine is the larger part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, TypeAlias

from impi.protocol.collectives.teams import rounds
from impi.protocol.decisions import Rule
from impi.tools.tune.plogp import Parameters

Model: TypeAlias = Callable[[Parameters, int, int, int], float]
"""``model(parameters, P, m, segment)``."""


def predict(
    parameters: Parameters, operation: str, rule: Rule, clients: int, octets: int
) -> float:
    """Return the predicted seconds of a rule's algorithm among ``clients`` clients."""
    if clients == 1:
        return 0.0

    return MODELS[operation, rule.algorithm](parameters, clients, octets, rule.segment)


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _cut(m: int, segment: int) -> tuple[int, int]:
    """Return the size s of a segment, and the number k of segments."""
    return (segment, ceil(m / segment)) if 0 < segment < m else (m, 1)


def _bcast_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    # The root's messages follow each other by a gap, and the last one then takes its hop.
    return (p - 1) * net.gap(s) * k + net.hop


def _bcast_chain(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    # The first segment passes all clients, and each later one arrives a gap behind it.
    return (p - 1) * (net.gap(s) + net.hop) + net.gap(s) * (k - 1)


def _bcast_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    return (p.bit_length() - 1) * net.gap(s) * k + _ceil_log2(p) * net.hop


def _scatter_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    hops = _ceil_log2(p)
    return sum(net.gap((1 << j) * m) for j in range(hops)) + hops * net.hop


def _reduce_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    # The root takes and combines one message after the other.
    return (p - 1) * (net.gap(m) + net.combine * m) + net.hop


def _reduce_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    # In each round the receiver has to combine before it can send.
    return _ceil_log2(p) * (net.gap(m) + net.hop + net.combine * m)


def _halvings(p: int, m: int, threshold: int) -> list[tuple[int, bool, bool]]:
    """Return each round of an elimination.

    A round has the octets of a message, whether these are half of the value held, and whether a
    triple costs one more message. Each later message of a triple overlaps with another's, so all
    triples together cost one message: the first, which is the largest.
    """

    rounds = []

    held, groups, late = m, p, False
    while groups > 1:
        halved = held > max(threshold, 1)
        held = (held + 1) // 2 if halved else held
        triple = groups % 2 == 1 and not late
        late = late or triple
        rounds.append((held, halved, triple))
        groups //= 2

    return rounds


def _reduce_elimination(net: Parameters, p: int, m: int, threshold: int) -> float:
    total = 0.0
    for octets, halved, triple in _halvings(p, m, threshold):
        there = net.hop + net.gap(octets) + net.combine * octets
        total += there * (2 if triple else 1)
        # Back to the root in halves, which eliminated clients do not have.
        total += net.hop + net.gap(octets) if halved else 0.0

    return total


def _allreduce_elimination(net: Parameters, p: int, m: int, threshold: int) -> float:
    total = _reduce_elimination(net, p, m, threshold)
    return total + sum(
        net.hop + net.gap(octets)
        for octets, _, triple in _halvings(p, m, threshold)
        if triple
    )


def _barrier_exchange(net: Parameters, p: int, m: int, segment: int) -> float:
    return _ceil_log2(p) * (net.gap(0) + net.hop)


def _allgather_exchange(net: Parameters, p: int, m: int, segment: int) -> float:
    return sum(net.gap(number * m) + net.hop for _, number in rounds(p))


def _then_back(reduction: Model, broadcast: Model) -> Model:
    """Return the model of an allreduce by a reduction to a root and a broadcast."""
    return lambda net, p, m, _: reduction(net, p, m, 0) + broadcast(net, p, m, 0)


MODELS: Final[Mapping[tuple[str, str], Model]] = {
    ("barrier", "exchange"): _barrier_exchange,
    ("allgather", "exchange"): _allgather_exchange,
    ("bcast", "flat"): _bcast_flat,
    ("bcast", "chain"): _bcast_chain,
    ("bcast", "binomial"): _bcast_binomial,
    ("scatter", "flat"): lambda net, p, m, _: (p - 1) * net.gap(m) + net.hop,
    ("scatter", "chain"): lambda net, p, m, _: (
        sum(net.gap(j * m) for j in range(1, p)) + (p - 1) * net.hop
    ),
    ("scatter", "binomial"): _scatter_binomial,
    ("reduce", "flat"): _reduce_flat,
    ("reduce", "binomial"): _reduce_binomial,
    ("reduce", "elimination"): _reduce_elimination,
    ("allreduce", "flat"): _then_back(_reduce_flat, _bcast_flat),
    ("allreduce", "binomial"): _then_back(_reduce_binomial, _bcast_binomial),
    ("allreduce", "elimination"): _allreduce_elimination,
}
"""Models by operation and algorithm (:data:`impi.protocol.decisions.ALGORITHMS`)."""
