"""One-sided operations of all kinds, for a long time (an extension: IMPI 0.0 has none).

Nothing may be lost, doubled, reordered or changed, and memory stays flat. The program runs in
rounds, each with one of five kinds of epochs: fences, groups, shared locks, exclusive locks, and a
lock of all. Each rank knows by the seed what its memory must hold after a round. The first round
with a fault is the last.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from stage import stage  # type: ignore[import-not-found]

stage("init")

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402
from report import Report  # type: ignore[import-not-found]  # noqa: E402
from soak_accesses import (  # type: ignore[import-not-found]  # noqa: E402
    COUNTERS,
    SHAPES,
    Access,
    Plan,
)
from soak_memory import (  # type: ignore[import-not-found]  # noqa: E402
    FILLED,
    Origin,
    Target,
)
from soak_parts import Datatypes, Pace  # type: ignore[import-not-found]  # noqa: E402
from soak_streams import (  # type: ignore[import-not-found]  # noqa: E402
    ROUND,
    Faults,
    flat,
    gather,
    mix,
    scatter,
    space,
)

# Objects of MPI, for which mpi4py has no types here: a window, a request
Handle: TypeAlias = Any

report = Report(MPI, logged=False)
params = report.plan["params"]
world = MPI.COMM_WORLD
me, size = report.rank, report.size
SEED = (
    int.from_bytes(report.octets("soak", 4), "little")
    if params["seed"] is None
    else params["seed"]
)
UNITS = (1, 4, 8, 2)  # displacement units of the created window, by rank
WINDOW_EACH = 64  # rounds after which a window is made and freed
NOTHING = -1  # in place of a value that no counter has given

plan = Plan(SEED, size, params["long"])
faults = Faults()
calls: Counter[str] = Counter()
raised: list[str] = []
types = Datatypes(MPI)
moved = {"operations": 0, "octets": 0, "planned": 0}
doing = ["nothing"]  # the call that this rank waits in
windows: dict[str, Handle] = {
    "allocated": MPI.Win.Allocate(plan.layout.octets, 8, comm=world)
}
memory = np.frombuffer(windows["allocated"].tomemory(), np.uint8)
# The same memory by other handles: only one of them is used in a round.
windows["created"] = MPI.Win.Create(memory, UNITS[me % len(UNITS)], comm=world)
windows["dynamic"] = MPI.Win.Create_dynamic(comm=world)
windows["dynamic"].Attach(memory)
addresses = array("q", bytes(8 * size))
world.Allgather(array("q", [MPI.Get_address(memory)]), addresses)
origin, target = Origin(plan, me, faults), Target(plan, me, memory, faults)
world.Barrier()  # no rank accesses a memory before that rank has filled it


class Held(NamedTuple):
    """An operation that has begun, with the buffers that it uses."""

    access: Access
    data: array[Any]
    result: array[Any] | None
    request: Handle


def wait(window: Handle, call: str, *args: object) -> None:
    """Make a call that may wait for others."""
    calls[call] += 1
    doing[0] = call
    getattr(window, call)(*args)
    pace.moves()


# -- operations


def displacement(name: str, access: Access) -> int:
    """Return the place of an operation in a window, in the target's units."""
    if name == "dynamic":
        return int(addresses[access.target] + access.at)

    unit = UNITS[access.target % len(UNITS)] if name == "created" else 8
    return int(access.at // unit)


def filled(letter: str, octets: int) -> array[Any]:
    """Return a buffer for what is fetched; nothing has been brought into it yet."""
    return array(letter, bytes([FILLED]) * octets)


def begin(name: str, access: Access) -> Held:
    """Begin an operation of the lanes that need no other one."""

    window, near = windows[name], SHAPES[access.near]
    count = access.octets // near.octets
    there = displacement(name, access)

    call = f"R{access.call.lower()}" if access.by_request else access.call
    calls[call] += 1
    moved["operations"] += 1
    moved["octets"] += access.octets
    function = getattr(window, call)
    op = getattr(MPI, access.op) if access.op else None
    if access.call == "Get":
        data = filled(near.letter, space(near, access.octets))
    elif access.call == "Put":
        data = scatter(near, plan.octets(access))
    else:
        data = scatter(near, access.values.tobytes())

    result = (
        filled("q", access.octets) if access.fetches and access.call != "Get" else None
    )
    if access.call == "Compare_and_swap":
        function(data, array("q", [access.compare]), result, access.target, there)
        return Held(access, data, result, None)

    if access.call == "Fetch_and_op":
        function(data, result, access.target, there, op)
        return Held(access, data, result, None)

    far = types[access.far]
    elements = access.octets // access.shape.octets
    if access.whole:
        # A datatype of this operation alone, which is freed before the operation is over
        basic = types["ints" if access.far == "columns" else "longs"]
        far, elements = basic.Create_vector(elements, 1, 2).Commit(), 1

    buffers = [[data, count, types[access.near]]]
    if result is not None:
        buffers.append([result, access.octets // 8, MPI.INT64_T])

    aim = (there, elements, far)
    more = [op] if op is not None else []
    request = function(*buffers, access.target, aim, *more)
    if access.whole:
        far.Free()

    return Held(access, data, result, request)


def scribble(held: list[Held]) -> None:
    """Use the origin's buffers of stores for something else: they must be free by now."""
    for each in held:
        if not each.access.fetches:
            each.data[0] = 0


def finish_some(held: list[Held], turn: int) -> None:
    """Wait for a request, in one of three ways, and take what it has brought."""

    each = held[-1]
    if each.request is None or plan.draw(turn, me, each.access.number) % 2:
        return

    doing[0] = f"{each.access}"
    if plan.draw(turn, me, each.access.number, 1) % 2:
        each.request.Wait()
    else:
        while not each.request.Test():
            time.sleep(0)

    pace.moves()
    scribble([each])
    if each.access.lane == "get":
        take_got([each])


def take_got(held: list[Held]) -> None:
    """Take what gets have brought, which are complete."""
    for each in held:
        if each.access.lane == "get":
            shape = SHAPES[each.access.near]
            origin.take_got(each.access, gather(shape, each.data, each.access.octets))


def count_by_swaps(name: str, access: Access) -> int:
    """Count by swaps until one of them counts; return the value that it has replaced."""

    expected, found = chain.get(access.target, 0), array("q", [NOTHING])
    while True:
        calls["Compare_and_swap"] += 1
        windows[name].Compare_and_swap(
            array("q", [expected + 1]),
            array("q", [expected]),
            found,
            access.target,
            displacement(name, access),
        )
        wait(windows[name], "Flush", access.target)
        if found[0] == expected:
            chain[access.target] = expected + 1
            moved["operations"] += 1
            return expected

        expected = found[0]


def count_in_turn(name: str, access: Access) -> int:
    """Read a counter and store the next value, under an exclusive lock; return what was read."""

    window, there = windows[name], displacement(name, access)
    value = array("q", [NOTHING])
    calls["Get"] += 1
    window.Get(value, access.target, there)
    wait(window, "Flush", access.target)

    seen = value[0]
    value[0] += 1
    calls["Put"] += 1
    window.Put(value, access.target, there)
    wait(window, "Flush_local", access.target)
    value[0] = NOTHING
    moved["operations"] += 2

    return seen


chain: dict[int, int] = {}  # by target: the value that its chain had last


# -- epochs


class Round:
    """One round of this rank: what it does, and what that has brought."""

    def __init__(self, turn: int) -> None:
        self.turn, self.name = turn, plan.window(turn)
        self.window = windows[self.name]
        self.accesses = origin.begin(turn)
        self.held: list[list[Held]] = [[] for _ in range(size)]
        self.told = {name: [NOTHING] * (ROUND * size) for name in COUNTERS}
        # Each rank begins with another target.
        self.targets = [(me + 1 + i) % size for i in range(size)]

    def part(self, rank: int, first: int, last: int) -> None:
        """Perform some of the operations at a target."""
        for access in self.accesses[rank][first:last]:
            if access.lane in ("chain", "turns"):
                count = count_by_swaps if access.lane == "chain" else count_in_turn
                self.told[access.lane][rank * ROUND] = count(self.name, access)
            else:
                self.held[rank].append(begin(self.name, access))
                finish_some(self.held[rank], self.turn)

    def all_parts(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Perform some of the operations at all targets, by turns; yield after each."""
        for i in range(first, last):
            for rank in self.targets:
                self.part(rank, i, i + 1)
                yield i, rank

    # Each kind of epoch has a method of its name.

    def fence(self) -> None:
        wait(self.window, "Fence", MPI.MODE_NOPRECEDE)
        middle = plan.draw(self.turn, 5) % (2 * ROUND)
        for _ in self.all_parts(0, min(middle, ROUND)):
            pass

        if middle < ROUND:
            wait(self.window, "Fence")
            for _ in self.all_parts(middle, ROUND):
                pass

        wait(self.window, "Fence", MPI.MODE_NOSUCCEED)

    def groups(self) -> None:
        everyone = world.Get_group()
        ranks = range(size)
        groups = [
            everyone.Incl([rank for rank in ranks if plan.meet(self.turn, rank, me)]),
            everyone.Incl([rank for rank in ranks if plan.meet(self.turn, me, rank)]),
        ]

        wait(self.window, "Post", groups[0])
        wait(self.window, "Start", groups[1])
        for _ in self.all_parts(0, ROUND):
            pass

        wait(self.window, "Complete")
        if plan.draw(self.turn, 6, me) % 2:
            wait(self.window, "Wait")
        else:
            calls["Test"] += 1
            doing[0] = "Test"
            while not self.window.Test():
                time.sleep(0)

            pace.moves()

        for group in (everyone, *groups):
            group.Free()

    def shared(self) -> None:
        """Lock all targets one by one, then access them by turns."""

        for rank in self.targets:
            wait(self.window, "Lock", rank, MPI.LOCK_SHARED)

        for i, rank in self.all_parts(0, ROUND):
            self.flush(i, rank)

        for rank in self.targets:
            self.end_requests(rank)
            wait(self.window, "Unlock", rank)

    def exclusive(self) -> None:
        """Lock one target at a time, which belongs to this rank alone meanwhile."""
        for rank in self.targets:
            wait(self.window, "Lock", rank, MPI.LOCK_EXCLUSIVE)
            self.part(rank, 0, ROUND + 1)
            self.end_requests(rank)
            wait(self.window, "Unlock", rank)

    def all(self) -> None:
        wait(self.window, "Lock_all")
        for i, rank in self.all_parts(0, ROUND + 1):
            self.flush(i, rank)

        for rank in self.targets:
            self.end_requests(rank)

        wait(self.window, "Unlock_all")

    def flush(self, i: int, rank: int) -> None:
        """Complete what has begun, here or there too, now and then."""

        drawn = plan.draw(self.turn, 7, me, i, rank) % 24
        if drawn < 2:
            wait(self.window, ("Flush", "Flush_local")[drawn], rank)
            take_got(self.held[rank])
            scribble(self.held[rank])
        elif drawn == 2 and rank == me:
            call = ("Flush_all", "Flush_local_all")[plan.draw(self.turn, 8, me) % 2]
            wait(self.window, call)
            for held in self.held:
                take_got(held)
                scribble(held)

    def end_requests(self, rank: int) -> None:
        """Wait for the requests at a target, which the end of an epoch does not free."""
        requests = [
            each.request for each in self.held[rank] if each.request is not None
        ]
        doing[0] = f"requests at rank {rank}"
        calls["Waitall"] += 1
        MPI.Request.Waitall(requests)
        pace.moves()

    # -- the end of a round

    def close(self) -> None:
        """Check what this rank has fetched, and what its memory holds."""

        for rank, held in enumerate(self.held):
            take_got(held)
            fetched = {
                each.access.number: each.result.tobytes()
                for each in held
                if each.result is not None and each.access.lane == "order"
            }
            origin.take_fetched(rank, self.accesses[rank], fetched)
            values = [
                each.result[0]
                for each in held
                if each.result is not None and each.access.lane == "counter"
            ]
            at = rank * ROUND
            self.told["counter"][at : at + len(values)] = values

        # No rank leaves before all have come, so all operations are complete.
        told = {name: exchanged(self.told[name]) for name in COUNTERS}
        passive = plan.epoch(self.turn) not in ("fence", "groups")
        if passive:
            wait(self.window, "Lock", me, MPI.LOCK_SHARED)

        target.check(self.turn, told)
        if passive:
            wait(self.window, "Unlock", me)


def exchanged(values: list[int]) -> list[list[int]]:
    """Give each target the values of its counter; return those of this rank's, by origin."""
    each = array("q", bytes(8 * len(values)))
    wait(world, "Alltoall", array("q", values), each)
    rows = [each[i : i + ROUND].tolist() for i in range(0, len(each), ROUND)]
    return [[value for value in row if value != NOTHING] for row in rows]


def one_round(turn: int) -> bool:
    """Perform a round; return whether any rank has found a fault. Collective."""

    this = Round(turn)
    moved["planned"] += sum(
        1 + (access.lane == "turns") for each in this.accesses for access in each
    )
    getattr(this, plan.epoch(turn))()
    this.close()

    # No rank goes on before all have checked their memory.
    found = array("i", [any(faults.counts.values())])
    wait(world, "Allreduce", array("i", found), found, MPI.MAX)

    return bool(found[0])


def aside(turn: int) -> None:
    """Make and free a window now and then."""
    if turn % WINDOW_EACH == 0:
        octets = 8 * (1 + mix(SEED, turn, 9) % 1000)
        window = MPI.Win.Allocate(octets, 8, comm=world)
        wait(window, "Fence")
        window.Put(array("q", [turn]), (me + 1) % size, octets // 8 - 1)
        wait(window, "Fence", MPI.MODE_NOSUCCEED)
        values: Any = window.tomemory()
        value = memoryview(values).cast("B").cast("q")[-1]
        if value != turn:
            faults.tell("lost", f"{value} for {turn} in a new window of round {turn}")

        calls["Allocate, Free"] += 1
        window.Free()


# -- the whole


def account() -> None:
    """Make the checks, worst first."""

    for kind, sentences in faults.sentences.items():
        report.check(
            f"operations {kind}", (faults.counts[kind], sentences[:3]), (0, [])
        )

    report.check("raised", (len(raised), raised[:3]), (0, []))
    report.check("operations", moved["operations"], moved["planned"])
    late = len(pace.memory) > 2
    report.check("memory", flat(pace.memory, params["memory"]) if late else "", "")


def figures() -> dict[str, object]:
    """Return the figures of the run."""
    return {
        "operations": moved["operations"],
        "octets": moved["octets"],
        "rounds": turn,
        "seed": SEED,
        "seconds": pace.seconds,
        "memory": pace.memory,
        "calls": dict(calls),
    }


def tell_silence() -> None:
    """Report that no call has returned for long: what this rank waits for is lost."""
    faults.tell(
        "lost",
        f"rank {me} waits in {doing[0]} of round {turn}, for {plan.epoch(turn)}",
    )
    account()
    report.leave(**figures())


turn, done, pace = 0, 0, Pace(MPI, params)
stage("case")
finished = pace.watch(tell_silence)
try:
    while not pace.is_over(turn, done):
        over = one_round(turn)
        aside(turn)
        done += plan.operations(turn)
        turn += 1
        pace.read_memory(done)
        if over:
            break
    pace.read_last_memory()
except Exception as error:
    # Such as the error of an operation that does not fit
    raised.append(f"in round {turn}: {error!r}"[:200])
    account()
    report.leave(**figures())
    raise
finished.set()
account()
windows["dynamic"].Detach(memory)
for name in ("dynamic", "created", "allocated"):
    windows[name].Free()
types.free()
report.done(**figures())
