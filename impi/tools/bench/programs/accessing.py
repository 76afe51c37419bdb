"""Accesses to another rank's window: short ones by each kind of synchronisation, and a long one.

Rank 0 is the origin and rank 1 the target; others take part in fences only. Each form is timed in
turns with its naive form and with a round trip of Send and Recv, so that a ratio compares
neighbours in time. The results are medians over ``--turns``. Times are us for an epoch with
``--puts`` accesses; ratios have ``over`` in their names; ``stream`` is 10^6 octets/s.

The naive forms are messages with all the synchronisation that MPI's text suggests, after Thakur,
Gropp and Toonen (2004): a barrier before and after a fence's data; a message for Post and one for
Complete; a round trip each for a lock, an unlock and a flush.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from mpi4py import MPI
from osucommon import arguments, numbers, pin, tell  # type: ignore[import-not-found]

_SHORT = 8
_LONG = 1 << 24
_WINDOW = 8
_TAG = 1
_Step = Callable[[], object]
# The origin's repeated action, and the target's; None: the target waits in a barrier.
_Form = tuple[_Step, _Step | None]


def _nothing() -> None:
    pass


class _Messages:
    """The naive forms, by messages."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.word = [bytearray(_SHORT), MPI.BYTE]

    def give(self) -> None:
        self.comm.Send(self.word, 1, _TAG)

    def take(self) -> None:
        self.comm.Recv(self.word, 0, _TAG)

    def asks(self) -> None:
        self.comm.Send(self.word, 1, _TAG)
        self.comm.Recv(self.word, 1, _TAG)

    def answers(self) -> None:
        self.comm.Recv(self.word, 0, _TAG)
        self.comm.Send(self.word, 0, _TAG)

    def data(self, count: int) -> _Form:
        """Send ``count`` messages without an acknowledgement."""

        comm, word = self.comm, self.word

        def gives() -> None:
            MPI.Request.Waitall([comm.Isend(word, 1, _TAG) for _ in range(count)])

        def takes() -> None:
            MPI.Request.Waitall([comm.Irecv(word, 0, _TAG) for _ in range(count)])

        return (self.give, self.take) if count == 1 else (gives, takes)


def _in_turn(*steps: _Step) -> _Step:
    def run() -> None:
        for step in steps:
            step()

    return run


class _Accesses:
    """The windows of one communicator, and the measured forms by name."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm, self.messages = comm, _Messages(comm)
        self.rank = comm.Get_rank()
        self.memory = np.zeros(_LONG, np.uint8)
        self.source, self.result = np.ones(_LONG, np.uint8), np.zeros(_SHORT, np.uint8)
        self.windows = [MPI.Win.Create(self.memory, 1, comm=comm) for _ in range(4)]
        self.fenced, self.posted, self.locked, self.shared = self.windows
        world = comm.Get_group()
        self.origin, self.target = world.Incl([0]), world.Incl([1])
        self.one, self.old = np.ones(1, np.int64), np.zeros(1, np.int64)

    def puts(self, window: MPI.Win, count: int) -> _Step:
        source = [self.source[:_SHORT], MPI.BYTE]

        def put() -> None:
            for place in range(count):
                window.Put(source, 1, [place * _SHORT, _SHORT, MPI.BYTE])

        return put

    def fences(self, count: int) -> _Form:
        before, after = (
            MPI.MODE_NOPRECEDE,
            MPI.MODE_NOSTORE | MPI.MODE_NOPUT | MPI.MODE_NOSUCCEED,
        )
        put = self.puts(self.fenced, count) if self.rank == 0 else _nothing

        def epoch() -> None:
            self.fenced.Fence(before)
            put()
            self.fenced.Fence(after)

        return epoch, epoch

    def posts(self, count: int) -> _Form:
        put = self.puts(self.posted, count)

        def access() -> None:
            self.posted.Start(self.target)
            put()
            self.posted.Complete()

        def exposure() -> None:
            self.posted.Post(self.origin)
            self.posted.Wait()

        return access, exposure

    def locks(self, count: int) -> _Form:
        put = self.puts(self.locked, count)

        def access() -> None:
            self.locked.Lock(1)
            put()
            self.locked.Unlock(1)

        return access, None

    def flushed(self, step: _Step) -> _Form:
        def access() -> None:
            step()
            self.shared.Flush(1)

        return access, None

    def get(self) -> None:
        self.shared.Get([self.result, MPI.BYTE], 1, [0, _SHORT, MPI.BYTE])

    def fetch(self) -> None:
        self.shared.Fetch_and_op(
            [self.one, MPI.INT64_T], [self.old, MPI.INT64_T], 1, 0, MPI.SUM
        )

    def long_puts(self) -> None:
        """Do as many long puts as plain sockets send messages before they wait."""
        for _ in range(_WINDOW):
            self.shared.Put([self.source, MPI.BYTE], 1, [0, _LONG, MPI.BYTE])

    def forms(self, counts: list[int]) -> dict[str, tuple[_Form, _Form]]:
        messages, barrier = self.messages, self.comm.Barrier
        # Each form beside what MPI's text suggests: the same data, and a message
        # for each act of synchronisation.
        trip = (messages.asks, messages.answers)

        found: dict[str, tuple[_Form, _Form]] = {}
        for count in counts:
            gives, takes = messages.data(count)
            assert takes is not None
            found[f"fence/{count}"] = (
                self.fences(count),
                (_in_turn(barrier, gives, barrier), _in_turn(barrier, takes, barrier)),
            )
            found[f"start-complete/{count}"] = (
                self.posts(count),
                (
                    _in_turn(self._hears, gives, messages.give),
                    _in_turn(self._says, takes, messages.take),
                ),
            )
            found[f"lock-unlock/{count}"] = (
                self.locks(count),
                (_in_turn(trip[0], gives, trip[0]), _in_turn(trip[1], takes, trip[1])),
            )
            found[f"flush/{count}"] = (
                self.flushed(self.puts(self.shared, count)),
                trip
                if count == 1
                else (_in_turn(gives, trip[0]), _in_turn(takes, trip[1])),
            )

        found["get"] = (self.flushed(self.get), trip)
        found["fetch"] = (self.flushed(self.fetch), trip)

        return found

    def _hears(self) -> None:
        self.comm.Recv(self.messages.word, 1, _TAG)

    def _says(self) -> None:
        self.comm.Send(self.messages.word, 0, _TAG)

    def timed(self, form: _Form, iterations: int) -> float:
        # The barriers keep the lock, and the other rank's start, out of the time.
        step = form[0] if self.rank == 0 else form[1] if self.rank == 1 else None
        if self.rank == 0:
            self.shared.Lock_all()

        self.comm.Barrier()

        begin = time.perf_counter()
        if step is not None:
            for _ in range(iterations):
                step()

        seconds = time.perf_counter() - begin

        self.comm.Barrier()
        if self.rank == 0:
            self.shared.Unlock_all()

        return seconds / iterations

    def free(self) -> None:
        for window in self.windows:
            window.Free()


def _compared(
    accesses: _Accesses, forms: list[_Form], iterations: list[int], turns: int
) -> list[list[float]]:
    """Return seconds of each form, turn by turn; the first turn is not counted."""
    rounds = [
        [
            accesses.timed(form, max(n, 1))
            for form, n in zip(forms, iterations, strict=True)
        ]
        for _ in range(turns + 1)
    ]
    return rounds[1:]


def _two(
    accesses: _Accesses, counts: list[int], iterations: int, turns: int
) -> dict[str, float]:
    messages = accesses.messages
    trip: _Form = (messages.asks, messages.answers)

    results: dict[str, float] = {}
    for name, (form, naive) in accesses.forms(counts).items():
        count = int(name.rpartition("/")[2]) if "/" in name else 1
        few = max(iterations // count, 2)
        rounds = _compared(accesses, [form, naive, trip], [few, few, iterations], turns)
        results[name] = median(ours for ours, _, _ in rounds) * 1e6
        results[f"{name}/naive"] = median(theirs for _, theirs, _ in rounds) * 1e6
        results[f"{name} over naive"] = median(
            ours / theirs for ours, theirs, _ in rounds
        )
        results[f"{name} over round trip"] = median(
            ours / plain for ours, _, plain in rounds
        )
        results["round trip"] = median(plain for _, _, plain in rounds) * 1e6

    return results


def _long(accesses: _Accesses, iterations: int, turns: int) -> dict[str, float]:
    rounds = _compared(
        accesses, [accesses.flushed(accesses.long_puts)], [iterations], turns
    )
    return {"stream": median(_LONG * _WINDOW / row[0] for row in rounds) / 1e6}


def _fence(accesses: _Accesses, iterations: int, turns: int) -> dict[str, float]:
    """Time an empty fence beside an Allreduce, of all ranks."""

    fence: _Step = accesses.fenced.Fence
    reduce = accesses.comm.Allreduce
    size = accesses.comm.Get_size()
    ones, sums = np.ones(size, np.int32), np.zeros(size, np.int32)

    # In turns, so that a slow moment of the machine hits both.
    pairs = []
    for _ in range(turns + 1):
        seconds = []
        for step in (fence, lambda: reduce(ones, sums)):
            accesses.comm.Barrier()

            begin = time.perf_counter()
            for _ in range(iterations):
                step()

            seconds.append((time.perf_counter() - begin) / iterations)

        pairs.append(seconds)

    # The last fence has opened an epoch, which must be over before the window is freed.
    accesses.fenced.Fence(MPI.MODE_NOSUCCEED)

    return {
        "empty fence": median(ours for ours, _ in pairs[1:]) * 1e6,
        "empty fence over Allreduce": median(ours / plain for ours, plain in pairs[1:]),
    }


def main() -> None:
    """Measure, and print the results at rank 0."""

    parser = arguments("Measure accesses to another rank's window.")
    parser.add_argument(
        "what",
        choices=("accesses", "long", "fence"),
        help="of two ranks, or empty fences of all",
    )
    parser.add_argument(
        "--puts",
        type=numbers,
        default=[1, 100],
        metavar="LIST",
        help="accesses of an epoch",
    )
    parser.add_argument(
        "--turns", type=int, default=9, help="how often each form is timed"
    )
    options = parser.parse_args()
    pin(options.pin)

    accesses = _Accesses(MPI.COMM_WORLD)
    if options.what == "fence":
        results = _fence(accesses, options.iterations, options.turns)
    elif options.what == "long":
        results = _long(accesses, options.iterations, options.turns)
    else:
        results = _two(accesses, options.puts, options.iterations, options.turns)

    accesses.free()
    if accesses.rank == 0:
        tell(f"windows: {options.what}", "us", results, as_json=options.json)


main()
