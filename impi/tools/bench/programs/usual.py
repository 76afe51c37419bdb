"""The usual operations in one job: messages, their rate, and collectives, with numpy arrays.

``--latency``, ``--rate`` and ``--collectives`` take the octets of messages; without its option a
measure is left out. Arrays are of float64. Results are named ``latency/8``, ``rate/8``,
``Allreduce/8``, and defined as in ``pointtopoint.py`` and ``collective.py``. ``usual.c`` is the
same program in C.
"""

from __future__ import annotations

from functools import partial

from collective import operands, reduced, timed  # type: ignore[import-not-found]
from mpi4py import MPI
from osucommon import arguments, numbers, pin, tell  # type: ignore[import-not-found]
from pointtopoint import DATA, Pair  # type: ignore[import-not-found]

_COLLECTIVES = ("Barrier", "Allreduce", "Bcast", "Allgather", "Alltoall")


def main() -> None:
    """Measure, and print the results at rank 0."""

    parser = arguments("Measure what people do.")
    for what in ("latency", "rate", "collectives"):
        parser.add_argument(
            f"--{what}",
            type=numbers,
            default=[],
            metavar="LIST",
            help="octets of a message",
        )

    parser.add_argument(
        "--data", choices=DATA, default="array", help="what messages of two ranks are"
    )
    parser.add_argument("--window", type=int, default=64, help="messages of a window")
    options = parser.parse_args()
    pin(options.pin)
    comm: MPI.Intracomm = MPI.COMM_WORLD

    results: dict[str, float] = {}
    if comm.Get_rank() < 2:
        results |= {
            f"latency/{size}": Pair(comm, size, 0, options).latency()
            for size in options.latency
        }
        results |= {
            f"rate/{size}": Pair(comm, size, 0, options).rate() for size in options.rate
        }

    comm.Barrier()
    for name in _COLLECTIVES if options.collectives else ():
        for size in options.collectives if name != "Barrier" else [0]:
            call = partial(getattr(comm, name), *operands(name, comm, size))
            results[f"{name}/{size}"] = reduced(comm, timed(comm, call, size, options))[
                0
            ]

    if comm.Get_rank() == 0:
        tell("what people do", "us, or messages/s", results, as_json=options.json)

    comm.Barrier()


if __name__ == "__main__":
    main()
