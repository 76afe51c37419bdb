"""A program for ``impirun`` that times messages, collectives and start-up; rank 0 prints JSON.

:mod:`impi.tools.simulate.real_job` runs it as ``probe TIMES NAMES SIZES``; without names only
start-up is measured. All processes share one machine and clock. Data are octets (MPI_SIGNED_CHAR),
which need no conversion. Processes stay awake, and the lowest tenth of times counts, because the
model has neither sleep nor other load. Only in start-up do processes sleep and wake.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from impi.protocol.collectives import Algorithm, Recv, Send
from impi.rank.engine.job import bootstrap
from impi.tools.simulate.sleepers import sleepers

_WARM: Final = 20
_LARGE: Final = 1 << 16
_CHUNK: Final = 10
_AHEAD_S: Final = 2e-3
_TAG: Final = 99  # a tag that no collective uses

_Ways = dict[str, Callable[[], Any]]


def _low(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 10] if times else 0.0


def _watched(stamps: dict[str, float]) -> None:
    """Record the times of this process's start-up steps in ``stamps``."""

    # The engine has no hooks for this. Both functions are wrapped before the import of
    # impi.MPI, which joins the job.
    module: Any = bootstrap
    ask, dance = module._ask, module.connect_hosts

    def asking(*args: object) -> bytes:
        answer: bytes = ask(*args)
        stamps.update(
            answered=time.monotonic(),
            submitted=json.loads(answer).get("submitted", 0.0),
        )
        return answer

    def dancing(*args: object, **named: object) -> Any:
        sockets = dance(*args, **named)
        stamps["danced"] = time.monotonic()
        return sockets

    module._ask, module.connect_hosts = asking, dancing


def _start(comm: Any, stamps: dict[str, float]) -> dict[str, float]:
    """Return seconds from the last client's labels until all have the job, and until all danced."""
    everybody = comm.allgather(stamps)
    begin, answered, danced = (
        max(one.get(name, 0.0) for one in everybody)
        for name in ("submitted", "answered", "danced")
    )

    return {"labels": answered - begin, "ready": danced - begin}


def _trips(
    rank: int, peer: int, size: int, times: int, taken: list[float]
) -> Algorithm[None]:
    octets = bytes(size)
    for _ in range(times):
        start = time.monotonic()
        if rank == 0:
            yield [Send(peer, octets, _TAG)]
            yield [Recv(peer, _TAG)]
            taken.append((time.monotonic() - start) / 2)
        elif rank == peer:
            yield [Recv(0, _TAG)]
            yield [Send(0, octets, _TAG)]


def _handling(rank: int, peer: int, times: int, taken: list[float]) -> Algorithm[None]:
    """Time a Send at rank 0, and at ``peer`` a Recv of a message that is there (Kielmann)."""
    octets = bytes(8)
    for _ in range(times):
        if rank == 0:
            start = time.monotonic()
            yield [Send(peer, octets, _TAG)]
            taken.append(time.monotonic() - start)
            yield [Recv(peer, _TAG)]
        elif rank == peer:
            # Until the message is there for certain: only its handling is timed.
            time.sleep(0.002)
            start = time.monotonic()
            yield [Recv(0, _TAG)]
            taken.append(time.monotonic() - start)
            yield [Send(0, octets, _TAG)]


def _tier(comm: Any, peer: int, times: int) -> dict[str, float]:
    """Time steps of collectives between rank 0 and ``peer``, sent by the engine."""

    def timed(algorithm: Callable[..., Algorithm[None]], *args: int) -> list[float]:
        taken: list[float] = []
        comm._begin(
            algorithm(comm.rank, peer, *args, _WARM + times, taken), blocking=True
        ).Wait()
        return taken[_WARM:]

    small, large = (_low(timed(_trips, size)) for size in (8, _LARGE))
    handling = comm.allgather(_low(timed(_handling)))

    return {
        "small": small,
        "large": large,
        "send": handling[0],
        "receive": handling[peer],
        "octets": _LARGE - 8,
    }


def _call(pair: Any, times: int) -> float:
    taken, data = [], np.zeros(8, "i1")

    pair.Barrier()
    for _ in range(_WARM + times):
        start = time.monotonic()
        # There and back, so that neither rank can run ahead of the other.
        pair.Bcast(data, 0)
        pair.Bcast(data, 1)
        taken.append((time.monotonic() - start) / 2)

    return _low(taken[_WARM:])


def _combining(mpi: Any, times: int) -> float:
    small, large = (
        _low(
            [
                _timed(
                    partial(mpi.SUM.Reduce_local, np.ones(n, "i1"), np.ones(n, "i1"))
                )
                for _ in range(_WARM + times)
            ]
        )
        for n in (8, _LARGE)
    )
    return max(large - small, 0.0) / (_LARGE - 8)


def _timed(call: Callable[[], Any]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def _at_once(comm: Any, call: Callable[[], Any], times: int) -> float:
    """Time ``call`` from an agreed common start until the last process has ended it."""

    for _ in range(_CHUNK):
        call()

    # Long enough that every process has ended a call before the next one begins.
    period = 3 * comm.allreduce(max(_timed(call) for _ in range(_CHUNK)), max) + 1e-4

    taken: list[float] = []
    while len(taken) < times:
        # A time to come, which all processes know before it is over: they share one clock.
        begin = comm.bcast(time.monotonic() + _AHEAD_S)
        for turn in range(min(_CHUNK, times - len(taken))):
            at = begin + turn * period
            while time.monotonic() < at:
                # Awake, as the model has no sleep, but others on this machine may run.
                os.sched_yield()

            call()
            taken.append(time.monotonic() - at)

    # A collective is over when its last process has ended it.
    return _low([max(one) for one in zip(*comm.allgather(taken), strict=True)])


def _ways(mpi: Any, size: int) -> _Ways:
    """Return each collective on MPI_COMM_WORLD, with sizes of :class:`.catalogue.Case`; root 0."""

    comm = mpi.COMM_WORLD
    n = comm.Get_size()
    one, other = np.zeros(size, "i1"), np.zeros(size, "i1")
    many, more = np.zeros(size * n, "i1"), np.zeros(size * n, "i1")
    ordered = mpi.Op.Create(_first, commute=False)

    return {
        "barrier": comm.Barrier,
        "bcast": partial(comm.Bcast, one, 0),
        "gather": partial(comm.Gather, one, many, 0),
        "gatherv": partial(comm.Gatherv, one, [many, [size] * n], 0),
        "scatter": partial(comm.Scatter, many, one, 0),
        "allgather": partial(comm.Allgather, one, many),
        "alltoall": partial(comm.Alltoall, many, more),
        "reduce": partial(comm.Reduce, one, other, mpi.SUM, 0),
        "reduce-ordered": partial(comm.Reduce, one, other, ordered, 0),
        "allreduce": partial(comm.Allreduce, one, other, mpi.SUM),
        "reduce_scatter": partial(comm.Reduce_scatter, many, one, [size] * n, mpi.SUM),
        "scan": partial(comm.Scan, one, other, mpi.SUM),
        "exscan": partial(comm.Exscan, one, other, mpi.SUM),
    }


def _first(invec: Any, inoutvec: Any, _datatype: Any) -> None:
    inoutvec[:] = invec


def _round(
    mpi: Any, names: Sequence[str], sizes: Sequence[int], times: int
) -> dict[str, Any]:
    """Measure all but start-up, once."""

    comm = mpi.COMM_WORLD
    clients = comm.allgather(comm.Get_attr(mpi.IMPI_CLIENT_COLOR))
    # The nearest rank of another client stands for all pairs between
    # clients, and `pair` for both of these.
    peer = next(rank for rank, client in enumerate(clients) if client != clients[0])
    pair = comm.Split(0 if comm.rank in (0, peer) else mpi.UNDEFINED, comm.rank)

    result: dict[str, Any] = {
        "wide": _tier(comm, peer, times),
        "combine": _combining(mpi, times),
    }
    if clients.count(clients[0]) > 1:
        result["local"] = _tier(comm, clients.index(clients[0], 1), times)

    if pair != mpi.COMM_NULL:
        result["call"] = _call(pair, times)
        result["sleepers"] = sleepers(pair, times)
        pair.Free()

    result["rows"] = rows = []
    for size in sizes:
        ways = _ways(mpi, size)
        for name in names:
            # A barrier has no size, and is measured once.
            if name in ways and not (name == "barrier" and size != sizes[0]):
                rows.append(
                    {
                        "name": name,
                        "size": size,
                        "time": _at_once(comm, ways[name], times),
                    }
                )

    return result


def _least(one: Any, other: Any) -> Any:
    """Return the lower one of each pair of numbers in two results of the same form."""
    if isinstance(one, dict):
        return {name: _least(value, other[name]) for name, value in one.items()}

    if isinstance(one, list):
        return [_least(*both) for both in zip(one, other, strict=True)]

    return min(one, other)


def main() -> None:
    """Measure, and print the results at rank 0."""

    times, names, sizes = (
        int(sys.argv[1]),
        sys.argv[2],
        [int(s) for s in sys.argv[3].split(",")],
    )
    stamps: dict[str, float] = {}
    _watched(stamps)
    import impi.MPI  # joins the job

    # Its names come from many modules, so that no checker knows them
    mpi: Any = impi.MPI

    result: dict[str, Any] = {"start": _start(mpi.COMM_WORLD, stamps)}
    if names:
        # Two rounds, because other load comes and goes.
        half = (times + 1) // 2
        result |= _least(
            *(_round(mpi, names.split(","), sizes, half) for _ in range(2))
        )

    if mpi.COMM_WORLD.Get_rank() == 0:
        print("measured " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
