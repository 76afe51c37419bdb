"""Random epochs of random accesses, held against a model; each rank prints one word at the end.

All ranks draw the same program from the seed (the first argument), each performs its own part, and
each keeps the memory of all ranks as it must be. Each target has, for each origin, slots that this
origin alone puts to and gets from, and slots that all accumulate into.
"""

import random
import sys

import numpy as np
from mpi4py import MPI

SLOTS, LONG = 16, 6000
comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
draw = random.Random(int(sys.argv[1]))
FLAVORS = ("create", "allocate", "dynamic")
OPS = (
    (MPI.SUM, np.add), (MPI.MAX, np.maximum), (MPI.MIN, np.minimum), (MPI.PROD, np.multiply),
    (MPI.BXOR, np.bitwise_xor), (MPI.BOR, np.bitwise_or), (MPI.BAND, np.bitwise_and),
)  # fmt: skip
AREA = SLOTS + size * 3 * SLOTS + size * LONG
"""Elements of 8 octets at each rank: for all; two halves to put and one to exchange; long ones."""


def made(flavor):
    """Return the window, this rank's memory, its displacement at each rank, and the unit."""
    if flavor == "create":
        memory = np.zeros(AREA, np.int64)
        return MPI.Win.Create(memory, 8, comm=comm), memory, [0] * size, 8
    if flavor == "allocate":
        window = MPI.Win.Allocate(AREA * 8, 8, comm=comm)
        return (
            window,
            np.frombuffer(memoryview(window.tomemory()), np.int64),
            [0] * size,
            8,
        )
    window, memory = MPI.Win.Create_dynamic(comm=comm), np.zeros(AREA, np.int64)
    window.Attach(memory)
    return window, memory, comm.allgather(MPI.Get_address(memory)), 1


def own(origin, part):
    return SLOTS + (origin * 3 + part) * SLOTS


def long_area(origin):
    return SLOTS + size * 3 * SLOTS + origin * LONG


def accesses(epoch, origin, op):
    """Draw what one origin does in an epoch: tuples of kind, target, first element and values."""
    drawn, puts = [], set()
    for _ in range(draw.randrange(7)):
        target = draw.randrange(size)
        kind = draw.choice(("put", "get", "accumulate", "exchange", "vector", "long"))
        values = [draw.randrange(1, 50) for _ in range(draw.randrange(1, 5))]
        if kind in ("put", "vector", "long"):
            if (target, kind == "long") in puts:
                continue  # accesses of one place in one epoch must not overlap
            puts.add((target, kind == "long"))
        first = {
            "put": own(origin, epoch % 2), "vector": own(origin, epoch % 2), "get": own(origin, 1 - epoch % 2),
            "accumulate": 0, "exchange": own(origin, 2), "long": long_area(origin),
        }[kind]  # fmt: skip
        if kind not in ("long", "vector"):
            first += draw.randrange(SLOTS - len(values))
        drawn.append((kind, target, first, values, op))
    return drawn


def model(memories, drawn):
    """Perform accesses on the model; return what those bring that fetch."""
    brought = []
    for kind, target, first, values, op in drawn:
        memory, n = memories[target], len(values)
        if kind == "put":
            memory[first : first + n] = values
        elif kind == "vector":
            memory[first : first + 3 * n : 3] = values
        elif kind == "long":
            memory[first : first + LONG] = np.arange(LONG) * values[0]
        elif kind == "accumulate":
            memory[first : first + n] = op[1](
                np.array(values), memory[first : first + n]
            )
        else:
            brought.append(memory[first : first + n].copy())
            if kind == "exchange":
                memory[first : first + n] += values
    return brought


def perform(window, base, unit, drawn, late):
    """Make the calls; return arrays for what they fetch, and requests."""
    arrays, keep = [], []
    for kind, target, first, values, op in drawn:
        place = base[target] + first * (8 // unit)
        data = np.array(values, np.int64)
        keep.append(data)
        if kind == "put":
            window.Put(data, target, place)
        elif kind == "vector":
            spread = MPI.INT64_T.Create_vector(len(values), 1, 3).Commit()
            window.Put([data, len(values), MPI.INT64_T], target, (place, 1, spread))
            spread.Free()
        elif kind == "long":
            data = np.arange(LONG, dtype=np.int64) * values[0]
            if late:
                window.Rput(data, target, place).Wait()
            else:
                window.Put(data, target, place)
            keep.append(data)
        elif kind == "accumulate":
            window.Accumulate(data, target, place, op[0])
        elif kind == "get":
            arrays.append(np.full(len(values), -1, np.int64))
            if late:
                keep.append(window.Rget(arrays[-1], target, place))
            else:
                window.Get(arrays[-1], target, place)
        else:
            arrays.append(np.full(len(values), -1, np.int64))
            window.Get_accumulate(data, arrays[-1], target, place, MPI.SUM)
    MPI.Request.Waitall([each for each in keep if isinstance(each, MPI.Request)])
    return arrays, keep


def run(window, base, unit, kind, program):
    """Perform this rank's part of an epoch."""
    mine = program[me]
    targets = sorted({access[1] for access in mine})
    if kind == "fence":
        result = perform(window, base, unit, mine, False)
        window.Fence()
        return result
    if kind == "groups":
        world = comm.Get_group()
        origins = [
            origin
            for origin in range(size)
            if any(access[1] == me for access in program[origin])
        ]
        window.Post(world.Incl(origins))
        window.Start(world.Incl(targets))
        result = perform(window, base, unit, mine, False)
        window.Complete()
        window.Wait()
    elif kind == "lock_all":
        window.Lock_all()
        result = perform(window, base, unit, mine, True)
        window.Flush_local_all()
        window.Unlock_all()
    else:
        result = ([], [])
        for access in mine:
            window.Lock(
                access[1],
                MPI.LOCK_EXCLUSIVE if kind == "exclusive" else MPI.LOCK_SHARED,
            )
            arrays, keep = perform(window, base, unit, [access], True)
            if access[3][0] % 2:
                window.Flush(access[1])
            window.Unlock(access[1])
            result[0].extend(arrays)
            result[1].extend(keep)
    comm.Barrier()
    return result


for flavor in FLAVORS:
    window, memory, base, unit = made(flavor)
    memories = [np.zeros(AREA, np.int64) for _ in range(size)]
    fenced = False
    for epoch in range(int(sys.argv[2])):
        kind = draw.choice(("fence", "groups", "lock_all", "exclusive", "shared"))
        if kind == "fence" and not fenced:
            window.Fence(MPI.MODE_NOPRECEDE)
        if kind != "fence" and fenced:
            window.Fence(MPI.MODE_NOSUCCEED)
        fenced = kind == "fence"
        op = draw.choice(OPS)
        program = [accesses(epoch, origin, op) for origin in range(size)]
        arrays, keep = run(window, base, unit, kind, program)
        due = [model(memories, drawn) for drawn in program][me]
        for found, right in zip(arrays, due, strict=True):
            assert (found == right).all(), (
                flavor,
                epoch,
                kind,
                found,
                right,
                program[me],
            )
        window.Lock(me, MPI.LOCK_SHARED) if not fenced else None
        wrong = np.flatnonzero(memory != memories[me])
        window.Unlock(me) if not fenced else None
        assert not len(wrong), (
            flavor,
            epoch,
            kind,
            wrong[:5],
            memory[wrong[:5]],
            memories[me][wrong[:5]],
            program,
        )
        comm.Barrier()
    if fenced:
        window.Fence(MPI.MODE_NOSUCCEED)
    window.Free()

# All increment one counter: no value comes twice, by Fetch_and_op and by Compare_and_swap.
window = MPI.Win.Allocate(16, 8, comm=comm)
values, n = [], 40
window.Lock_all()
for _ in range(n):
    found = np.zeros(1, np.int64)
    window.Fetch_and_op(np.ones(1, np.int64), found, size - 1, 0)
    window.Flush(size - 1)
    values.append(int(found[0]))
for _ in range(n):
    expected, found = np.zeros(1, np.int64), np.full(1, -1, np.int64)
    while True:
        window.Compare_and_swap(expected + 1, expected, found, size - 1, 1)
        window.Flush(size - 1)
        if found[0] == expected[0]:
            break
        expected[0] = found[0]
    values.append(int(found[0]))
window.Unlock_all()
every = sorted(value for each in comm.allgather(values) for value in each)
assert every == sorted([*range(size * n)] * 2), every[:20]
window.Free()
sys.stdout.write("windows\n")
