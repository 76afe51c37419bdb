"""What each algorithm costs, as closed formulas of pLogP: broadcasts and scatters by Barchet-Estefanel and Mounie
(EuroPVM/MPI 2004, tables 1 and 2), eliminations by Rabenseifner and Traeff (the same, 3.5) with a + m b = L + g(m).

P are the clients, m octets: of a broadcast or a reduction the whole, of a scatter what one client gets. All are seconds
until the last process has what it is to get. The gaps of a binomial broadcast are rounded down in the paper's table,
which is too few where P is no power of two; in our own model of a reduction they are rounded up. That is a broadcast
backwards, and combines at every hop. L of the papers is here that of a message in a collective: L and what the call
adds to it (Parameters.hop), which between clients on one machine is the larger part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, TypeAlias

from impi.decisions import Rule
from impi.tune.plogp import Parameters

__all__ = ["MODELS", "predict"]

Model: TypeAlias = Callable[[Parameters, int, int, int], float]
"""``model(parameters, P, m, segment)``."""


def predict(parameters: Parameters, operation: str, rule: Rule, clients: int, octets: int) -> float:
    """Seconds that the algorithm of ``rule`` takes among so many clients."""
    if clients == 1:
        return 0.0
    return MODELS[operation, rule.algorithm](parameters, clients, octets, rule.segment)


def _floor_log2(n: int) -> int:
    return n.bit_length() - 1


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _cut(m: int, segment: int) -> tuple[int, int]:
    """The size s of a segment, and their number k."""
    return (segment, ceil(m / segment)) if 0 < segment < m else (m, 1)


def _bcast_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    return (p - 1) * net.gap(s) * k + net.hop


def _bcast_chain(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    return (p - 1) * (net.gap(s) + net.hop) + net.gap(s) * (k - 1)


def _bcast_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    s, k = _cut(m, segment)
    return _floor_log2(p) * net.gap(s) * k + _ceil_log2(p) * net.hop


def _scatter_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    return (p - 1) * net.gap(m) + net.hop


def _scatter_chain(net: Parameters, p: int, m: int, segment: int) -> float:
    return sum(net.gap(j * m) for j in range(1, p)) + (p - 1) * net.hop


def _scatter_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    hops = _ceil_log2(p)
    return sum(net.gap((1 << j) * m) for j in range(hops)) + hops * net.hop


def _reduce_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    return (p - 1) * (net.gap(m) + net.combine * m) + net.hop


def _reduce_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    return _ceil_log2(p) * (net.gap(m) + net.hop + net.combine * m)


def _halvings(p: int, m: int, threshold: int) -> list[tuple[int, bool, bool]]:
    """Of each round of an elimination: octets of a message, whether they are half of what was held, whether it is one
    with a triple that costs a further message.

    Each message of a triple after the first overlaps with another's, so that all triples together cost one: the
    largest, which is the first.
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
        # Back to the root in halves, which the eliminated need not have.
        total += net.hop + net.gap(octets) if halved else 0.0
    return total


def _allreduce_elimination(net: Parameters, p: int, m: int, threshold: int) -> float:
    total = _reduce_elimination(net, p, m, threshold)
    return total + sum(net.hop + net.gap(octets) for octets, _, triple in _halvings(p, m, threshold) if triple)


def _allreduce_flat(net: Parameters, p: int, m: int, segment: int) -> float:
    return _reduce_flat(net, p, m, 0) + _bcast_flat(net, p, m, 0)


def _allreduce_binomial(net: Parameters, p: int, m: int, segment: int) -> float:
    return _reduce_binomial(net, p, m, 0) + _bcast_binomial(net, p, m, 0)


MODELS: Final[Mapping[tuple[str, str], Model]] = {
    ("bcast", "flat"): _bcast_flat,
    ("bcast", "chain"): _bcast_chain,
    ("bcast", "binomial"): _bcast_binomial,
    ("scatter", "flat"): _scatter_flat,
    ("scatter", "chain"): _scatter_chain,
    ("scatter", "binomial"): _scatter_binomial,
    ("reduce", "flat"): _reduce_flat,
    ("reduce", "binomial"): _reduce_binomial,
    ("reduce", "elimination"): _reduce_elimination,
    ("allreduce", "flat"): _allreduce_flat,
    ("allreduce", "binomial"): _allreduce_binomial,
    ("allreduce", "elimination"): _allreduce_elimination,
}
"""By operation and algorithm of :data:`impi.decisions.ALGORITHMS`."""
