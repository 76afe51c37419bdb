"""The steps that an algorithm of chapter 4 may yield.

An algorithm yields a *list* of steps, never empty, which run concurrently. The value of the
``yield`` is the list of results of the receives and local phases among them, in order. The
generator goes on when all are done, and returns the result of the operation. It knows no buffer,
datatype, socket or library: a value is the caller's (octets for data movement, an array for
reductions) and passes through unchanged.

The driver must:

* put each step on the communicator's *collective* context, with the step's tag (IMPI 4.3, 4.25);
* start the steps of a list in order, and keep messages of one (source, destination, tag) in order;
* hand a received value over for good: it may be changed in place. A value to send is lent;
* run the local phases of one communicator in order, at all processes of a client.

A step never names the process itself.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from impi.base.records import record
from impi.protocol.collectives.reduction import Reduction

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
    whole: bool = False
    """Whether the value is as long as the result of the operation here, and may arrive in its
    place. The algorithm then no longer needs the octets that were there, such as its own value.
    """
    part: tuple[int, int] | None = None
    """The first octet and the length of the value in the result, if it is a part of that alone. It
    may arrive there; the value of this step is None then, and stands for itself in the result.
    """


@record
class Local:
    """A phase that all processes of the caller's client run by collectives of their MPI library.

    The result depends on the operation:

    * ``bcast``, ``scatter``: the caller's value;
    * ``reduce``, ``gather``: at the root the reduction, or the list of all values in rank order;
      None elsewhere;
    * ``allreduce``, ``allgather``, ``alltoall``: that result everywhere;
    * ``reduce_scatter``: the caller's part of the reduction;
    * ``barrier``: None.
    """

    what: Literal[
        "barrier",
        "bcast",
        "scatter",
        "gather",
        "allgather",
        "alltoall",
        "reduce",
        "allreduce",
        "reduce_scatter",
    ]
    root: int = 0
    """The root's rank in the communicator."""
    value: Any = None
    """The caller's contribution: a list of one for each at a scatter's root and in an alltoall."""
    like: Any = None
    """The form of values: of bcast and scatter, the codec's hint for allocation; of allgather,
    sizes by rank where they differ; of reduce_scatter, the sizes of the parts.
    """
    reduction: Reduction[Any] | None = None


Step: TypeAlias = Send | Recv | Local

# The types of values differ between the parts of one operation: hence Any.
Algorithm: TypeAlias = Generator[list[Step], list[Any], R]
"""``Algorithm[R]``: an operation whose result is an ``R``."""


def among(algorithm: Algorithm[R], ranks: Sequence[int], tag: int) -> Algorithm[R]:
    """Run an algorithm on a part of a communicator: its rank i is ``ranks[i]``, its tag ``tag``.

    It has no local phases: the library's communicator has more members.
    """
    try:
        # By hand instead of `yield from`: the ranks of each list must be changed on its way out,
        # and the results go back in as they are.
        steps = next(algorithm)
        while True:
            steps = algorithm.send((yield [_moved(step, ranks, tag) for step in steps]))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _moved(step: Step, ranks: Sequence[int], tag: int) -> Step:
    # The library's communicator has other members, so a library call here would wait
    # for some that never come.
    assert not isinstance(step, Local), "a part of a communicator has no local phases"
    if isinstance(step, Send):
        return Send(ranks[step.dest], step.value, tag)

    return Recv(ranks[step.source], tag, step.whole, step.part)
