"""What an algorithm of chapter 4 may ask for: the vocabulary of its generator.

An algorithm yields a *list* of steps, never an empty one; they run concurrently, and the value of the ``yield``
is the list of what the receives and local phases among them brought, in their order. The generator goes on when
all of them are done, and what it returns is the result of the operation. It knows no buffer, datatype, socket or
library: a value is whatever the caller gave (octets for data movement, an array for reductions), and passes
through unchanged.

What the driver must do:

* put every step on the *collective* context of the communicator, with the tag of the step (IMPI 4.3, 4.25);
* start the steps of one list in their order, and keep messages of one (source, destination, tag) in order;
* hand a received value over for good: the algorithm may change it in place. A value to send is only lent;
* run the local phases of one communicator in their order, at all processes of a client.

A step never names the process itself.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from impi.collectives.reduction import Reduction
from impi.records import record

__all__ = ["Algorithm", "Local", "Recv", "Send", "Step", "among"]

R = TypeVar("R")


@record
class Send:
    """Send ``value`` to rank ``dest`` of the communicator."""

    dest: int
    value: Any
    tag: int


@record
class Recv:
    """Receive one value from rank ``source`` of the communicator."""

    source: int
    tag: int


@record
class Local:
    """A phase that all processes of the caller's client run together, by the collectives of their own MPI library.

    What it brings: of ``bcast`` and ``scatter`` the value for the caller; of ``reduce`` and ``gather`` the reduction,
    or the list of all values in rank order, at the root, and None elsewhere; of ``allreduce``, ``allgather`` and
    ``alltoall`` that everywhere; of ``reduce_scatter`` the caller's part of the reduction; of ``barrier`` None.
    """

    what: Literal[
        "barrier", "bcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter"
    ]
    root: int = 0
    """Its rank in the communicator."""
    value: Any = None
    """What the caller contributes: at the root of a scatter, and everywhere in an alltoall, a list of one for each."""
    like: Any = None
    """Of bcast and scatter: what the codec of the values makes room for one by (see there). Of allgather: the sizes of
    the values by rank, where they differ; of reduce_scatter those of the parts.
    """
    reduction: Reduction[Any] | None = None


Step: TypeAlias = Send | Recv | Local

# The values of the steps are the caller's business and differ between the parts of one operation: hence Any.
Algorithm: TypeAlias = Generator[list[Step], list[Any], R]
"""``Algorithm[R]``: an operation whose result is an ``R``."""


def among(algorithm: Algorithm[R], ranks: Sequence[int], tag: int) -> Algorithm[R]:
    """An algorithm of some processes on a communicator of more: its rank i is ``ranks[i]``, its only tag ``tag``.

    It has no local phases: the library's communicator has more members.
    """
    try:
        steps = next(algorithm)
        while True:
            steps = algorithm.send((yield [_moved(step, ranks, tag) for step in steps]))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _moved(step: Step, ranks: Sequence[int], tag: int) -> Step:
    assert not isinstance(step, Local)
    return Send(ranks[step.dest], step.value, tag) if isinstance(step, Send) else Recv(ranks[step.source], tag)
