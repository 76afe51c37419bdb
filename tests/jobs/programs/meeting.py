"""One of two jobs that meet at a port: ``accept FILE`` or ``connect FILE``."""

import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

role, file = sys.argv[1], Path(sys.argv[2])
world = MPI.COMM_WORLD


def port_name():
    """Return the name that the accepting job has written; only rank 0 needs it."""
    if world.rank:
        return ""
    until = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    return file.read_text()


def opened():
    """Return the name of a new port at rank 0."""
    if world.rank:
        return ""
    name = MPI.Open_port()
    new = file.with_suffix(".new")
    new.write_text(name)
    new.rename(file)
    return name


def meet(name):
    return world.Accept(name) if role == "accept" else world.Connect(name)


name = opened() if role == "accept" else port_name()
if "refused" in sys.argv:
    try:
        meet(name)
    except MPI.Exception as failure:
        if world.rank == 0:
            print(failure)
    sys.exit()
for turn in range(2):  # the second time, all that the first one made is gone
    inter = meet(name)
    theirs = inter.allgather((role, world.rank))
    other = "connect" if role == "accept" else "accept"
    assert theirs == [(other, rank) for rank in range(inter.Get_remote_size())], theirs
    merged = inter.Merge(role == "connect")
    assert merged.size == world.size + len(theirs)
    assert merged.allgather(merged.rank) == list(range(merged.size))
    assert merged.allreduce(merged.rank + 1) == merged.size * (merged.size + 1) // 2
    sent = np.arange(200_000, dtype="d") * merged.rank
    received = np.empty_like(sent)
    before = (merged.rank - 1) % merged.size
    merged.Sendrecv(sent, (merged.rank + 1) % merged.size, 5, received, before, 5)
    assert np.array_equal(received, np.arange(200_000, dtype="d") * before)
    part = merged.Split(merged.rank % 2, -merged.rank)
    assert part.allgather(merged.rank) == sorted(
        range(merged.rank % 2, merged.size, 2), reverse=True
    )
    halves = inter.Split(0, -world.rank)
    assert halves.allgather(world.rank) == list(
        reversed(range(inter.Get_remote_size()))
    )
    group = inter.Get_group()
    some = inter.Create(group.Incl([0]))
    if world.rank == 0:
        assert some.Get_remote_size() == 1
        assert some.allgather(role) == [other]
        some.Free()
    assert world.allreduce(1) == world.size  # the job goes on as before
    equal = inter.Merge()  # no flag: an order that all agree on
    assert equal.bcast(equal.rank == 0 and role, 0) in ("accept", "connect")
    assert sorted(equal.allgather((role, world.rank))) == sorted(
        theirs + [(role, r) for r in range(world.size)]
    )
    for comm in (equal, halves, part, merged):
        comm.Free()
    inter.Disconnect()
if role == "accept" and world.rank == 0:
    MPI.Close_port(name)
print(role, world.rank)
