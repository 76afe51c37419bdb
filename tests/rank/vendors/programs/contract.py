"""The contract of ``impi.rank.vendors.base``, checked inside one client: JSON lines by rank.

Every check runs on all procs; a check that fails on one of them may hang the others, so every wait
has a deadline.
"""

import json
import os
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from impi.rank.engine.job.join import claim
from impi.rank.vendors import load
from impi.rank.vendors.base import REDUCIBLE, REDUCTIONS

WAIT_S = 20.0
REDUCE: dict[str, Callable[[Any], object]] = {
    "MAX": numpy.max, "MIN": numpy.min, "SUM": numpy.sum, "PROD": numpy.prod, "LAND": numpy.all, "LOR": numpy.any,
    "LXOR": lambda all_of: len(all_of) % 2, "BAND": numpy.bitwise_and.reduce, "BOR": numpy.bitwise_or.reduce,
    "BXOR": numpy.bitwise_xor.reduce,
}  # fmt: skip
claimed = claim()
assert claimed is not None
join = claimed
vendor = load(join)
world = vendor.world
rank, size = world.rank, world.size


def until(condition, what):
    deadline = time.monotonic() + WAIT_S
    while True:
        vendor.progress()
        value = condition()
        if value is not None and value is not False:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank {rank}: {what}")


def next_arrival(comm=world):
    return until(comm.improbe, "no message came")


def take(arrival):
    buffer = bytearray(arrival.nbytes)
    pending = arrival.receive(memoryview(buffer))
    until(pending.test, "a receive did not end")
    return bytes(buffer)


def send(dest, tag, data, comm=world, sync=False):
    return comm.isend(dest, tag, memoryview(data), sync=sync)


def done(*pendings):
    for pending in pendings:
        until(pending.test, "a send did not end")


def meet():
    vendor.allgather(b"")


def the_world_is_the_client():
    assert size == int(join["size"]) and rank in range(size)
    assert (
        len(set(vendor.allgather(f"{socket.gethostname()} {os.getpid()}".encode())))
        == size
    )


def allgather_of_unequal_lengths():
    for lengths in (
        [0] * size,
        [r * 1000 for r in range(size)],
        [5 - r for r in range(size)],
    ):
        assert vendor.allgather(bytes([rank]) * lengths[rank]) == [
            bytes([r]) * lengths[r] for r in range(size)
        ]


def allgather_does_not_meet_messages():
    pending = send((rank + 1) % size, 7, b"before")
    assert vendor.allgather(b"%d" % rank) == [b"%d" % r for r in range(size)]
    arrival = next_arrival()
    assert (arrival.source, arrival.tag, take(arrival)) == (
        (rank - 1) % size,
        7,
        b"before",
    )
    done(pending)


def order_of_each_source():
    """For any tags and lengths, a source's messages come in the order of sending."""
    count = 200
    lengths = [0, 1, 100, 70_000, 3]
    pendings = [
        send(dest, i % 7, b"%06d" % i + bytes(lengths[i % 5]))
        for i in range(count)
        for dest in range(size)
        if dest != rank
    ]
    expected = dict.fromkeys((r for r in range(size) if r != rank), 0)
    for _ in range(count * (size - 1)):
        arrival = next_arrival()
        i = expected[arrival.source]
        assert (arrival.tag, arrival.nbytes) == (i % 7, 6 + lengths[i % 5])
        assert int(take(arrival)[:6]) == i
        expected[arrival.source] += 1
    done(*pendings)


def receives_may_end_later():
    """Several arrivals are taken off the queue before the first of them is received."""
    pendings = [
        send((rank + 1) % size, tag, bytes([tag]) * n)
        for tag, n in ((1, 10), (2, 100_000), (3, 0))
    ]
    arrivals = [next_arrival() for _ in range(3)]
    assert [a.tag for a in arrivals] == [1, 2, 3]
    for arrival in reversed(arrivals):
        assert take(arrival) == bytes([arrival.tag]) * arrival.nbytes
    done(*pendings)


def any_source_brings_all():
    if rank == 0:
        seen = [next_arrival() for _ in range(50 * (size - 1))]
        assert sorted((a.source, a.tag) for a in seen) == sorted(
            (r, t) for r in range(1, size) for t in range(50)
        )
        for arrival in seen:
            assert take(arrival) == b"%d %d" % (arrival.source, arrival.tag)
    else:
        done(*[send(0, tag, b"%d %d" % (rank, tag)) for tag in range(50)])


def collectives_of_its_own():
    """Several under way at a time, beside messages; a vendor may have none."""
    own = world.collectives
    if own is None:
        return
    meet()
    message = send((rank + 1) % size, 9, b"between")
    for n in (0, 1, 5, 70_000):
        for root in range(size):
            pieces = [bytes([r + 1]) * n for r in range(size)]
            whole = b"".join(pieces)
            spread = bytearray(pieces[root] if rank == root else n)
            gathered, handed, shared, turned = (
                bytearray(n * size),
                bytearray(n),
                bytearray(n * size),
                bytearray(n * size),
            )
            done(
                own.barrier(),
                own.bcast(memoryview(spread), root),
                own.gather(
                    memoryview(pieces[rank]),
                    memoryview(gathered) if rank == root else None,
                    root,
                ),
                own.scatter(
                    memoryview(whole) if rank == root else None,
                    memoryview(handed),
                    root,
                ),
                own.allgather(memoryview(pieces[rank]), memoryview(shared)),
                own.alltoall(memoryview(whole), memoryview(turned)),
            )
            assert bytes(spread) == pieces[root] and bytes(handed) == pieces[rank]
            assert bytes(gathered) == (whole if rank == root else bytes(n * size))
            assert bytes(shared) == whole and bytes(turned) == pieces[rank] * size
    assert take(next_arrival()) == b"between"
    done(message)


def reductions_of_its_own():
    own = world.collectives
    if own is None:
        return
    for element in sorted(REDUCIBLE):
        for op in sorted(REDUCTIONS):
            if element[0] in "fc" and (
                op[0] in "LB" or (element[0] == "c" and op in ("MIN", "MAX"))
            ):
                continue  # not defined by MPI
            mine, all_of = (
                numpy.full(3, rank + 1, element),
                numpy.arange(1, size + 1).astype(element),
            )
            expected = numpy.full(3, REDUCE[op](all_of), element)
            everywhere, at_root = numpy.zeros(3, element), numpy.zeros(3, element)
            root = size - 1
            data = mine.data.cast("B")
            done(
                own.allreduce(data, everywhere.data.cast("B"), element, op),
                own.reduce(
                    data,
                    at_root.data.cast("B") if rank == root else None,
                    element,
                    op,
                    root,
                ),
            )
            assert (everywhere == expected).all(), (element, op, everywhere, expected)
            assert (at_root == (expected if rank == root else 0)).all(), (element, op)


def collectives_of_a_subset():
    """Return a communicator of some ranks, in another order; and its duplicate."""
    if size < 2 or world.collectives is None:
        return
    ranks = list(range(size))[::-1]
    part = world.subset(ranks, 40)
    copy, pending = part.duplicate(42)
    done(pending)
    for comm in (part, copy):
        data = bytearray(b"root" if comm.rank == 0 else 4)
        assert comm.collectives is not None
        done(comm.collectives.bcast(memoryview(data), 0))
        assert data == b"root"
        comm.free()


def nothing_is_invented():
    meet()
    for _ in range(1000):
        vendor.progress()
        assert world.improbe() is None
    meet()


def synchronous_means_received():
    """A synchronous send ends when the receiver has called receive(), even of no octets."""
    if size == 1:
        return
    for data in (b"", b"x", bytes(300_000)):
        if rank == 0:
            pending = send(1, 1, data, sync=True)
            done(send(1, 2, b"later"))
            answer = next_arrival()  # both are off rank 1's queue, none is received
            assert answer.tag == 3 and not pending.test()
            take(answer)
            done(send(1, 4, b"go on"), pending)
        elif rank == 1:
            first, second = next_arrival(), next_arrival()
            assert (first.tag, second.tag) == (1, 2)
            done(send(0, 3, b"none received yet"))
            assert take(next_arrival()) == b"go on"
            assert (take(first), take(second)) == (data, b"later")
        meet()


def to_oneself():
    for sync in (False, True):
        for n in (0, 5, 200_000):
            pending = send(rank, 9, bytes([rank]) * n, sync=sync)
            arrival = next_arrival()
            assert (arrival.source, arrival.tag, arrival.nbytes) == (rank, 9, n)
            assert not (sync and pending.test())
            assert take(arrival) == bytes([rank]) * n
            done(pending)


def eight_megabytes_both_ways():
    n = 8 * 2**20
    data = bytes([rank + 1]) * n
    pendings = [send(dest, 0, data) for dest in range(size)]
    for _ in range(size):
        arrival = next_arrival()
        assert arrival.nbytes == n and take(arrival) == bytes([arrival.source + 1]) * n
    done(*pendings)


def a_test_may_be_repeated():
    pending = send(rank, 0, b"again")
    arrival = next_arrival()
    buffer = bytearray(8)  # longer than needed
    receive = arrival.receive(memoryview(buffer))
    for each in (pending, receive):
        done(each)
        assert all(each.test() is True for _ in range(3))
    assert bytes(buffer) == b"again\0\0\0"


def thousand_messages():
    partner = (rank + 1) % size
    pendings = []
    got = 0
    for i in range(1000):
        pendings.append(send(partner, 0, b"%d" % i))
        while (arrival := world.improbe()) is not None:
            assert take(arrival) == b"%d" % got
            got += 1
    while got < 1000:
        assert take(next_arrival()) == b"%d" % got
        got += 1
    done(*pendings)


def tags_up_to_the_limit():
    assert vendor.tag_ub // 2 >= 32767  # 3.9: a job's limit is half of it
    pendings = [
        send(rank, tag, b"") for tag in (0, 32767, 2 * 32767 + 1, vendor.tag_ub)
    ]
    assert [next_arrival().tag for _ in pendings] == [
        0,
        32767,
        65535,
        vendor.tag_ub,
    ] or not pendings


def subset_in_another_order():
    reverse = world.subset(range(size)[::-1], 2)
    assert (reverse.rank, reverse.size) == (size - 1 - rank, size)
    a = send((rank + 1) % size, 5, b"world")
    b = send((reverse.rank + 1) % size, 5, b"subset", reverse)
    arrival = next_arrival(reverse)
    assert (arrival.source, take(arrival)) == ((reverse.rank - 1) % size, b"subset")
    arrival = next_arrival()
    assert (arrival.source, take(arrival)) == ((rank - 1) % size, b"world")
    done(a, b)
    reverse.free()


def subsets_that_overlap():
    """Disjoint ones with the same context id; one that overlaps both; and a subset of a subset."""
    half = world.subset(range(rank % 2, size, 2), 4)
    whole = world.subset(range(size), 6)
    alone = half.subset([half.rank], 8)
    assert (half.rank, half.size) == (rank // 2, len(range(rank % 2, size, 2)))
    assert (alone.rank, alone.size) == (0, 1)
    for comm, text in ((half, b"half"), (whole, b"whole"), (alone, b"alone")):
        pending = send((comm.rank + 1) % comm.size, 0, text, comm)
        arrival = next_arrival(comm)
        assert (arrival.source, take(arrival)) == ((comm.rank - 1) % comm.size, text)
        done(pending)
    meet()
    for comm in (alone, whole, half):
        comm.free()


def duplicates():
    """Two under way at once, of a communicator in another order; each has its own messages."""
    reverse = world.subset(range(size)[::-1], 2)
    started = [reverse.duplicate(cid) for cid in (4, 2**63)]
    done(*(pending for _, pending in started))
    for comm, _ in started:
        assert (comm.rank, comm.size) == (reverse.rank, reverse.size)
    sent = [
        send((reverse.rank + 1) % size, 5, bytes([i]), comm)
        for i, (comm, _) in enumerate(started)
    ]
    for i, (comm, _) in reversed(list(enumerate(started))):
        arrival = next_arrival(comm)
        assert (arrival.source, take(arrival)) == (
            (reverse.rank - 1) % size,
            bytes([i]),
        )
    done(*sent)
    assert reverse.improbe() is None
    meet()
    for comm in (started[1][0], reverse, started[0][0]):
        comm.free()


def large_context_ids():
    for cid in (2**20, 2**40, 2**64 - 16):  # 4.3: the highest
        comm = world.subset(range(size), cid)
        pending = send((rank + 1) % size, 0, b"x", comm)
        assert take(next_arrival(comm)) == b"x"
        done(pending)
        comm.free()


def messages_are_counted():
    before = vendor.messages
    pendings = [
        send(dest, 0, b"x" * n, sync=sync)
        for dest in range(size)
        for n in (0, 100_000)
        for sync in (False, True)
    ]
    assert vendor.messages - before == 4 * size
    for _ in range(4 * size):
        take(next_arrival())
    done(*pendings)
    assert vendor.messages - before == 4 * size


def it_says_what_it_is():
    assert vendor.name == join["vendor"]
    told = vendor.describe()
    assert all(
        isinstance(key, str) and isinstance(value, str) and value
        for key, value in told.items()
    )
    marks = {"pure": "impi", "mpich": "MPICH", "openmpi": "Open MPI"}
    assert marks[vendor.name] in told["library"]
    if vendor.name != "pure":
        assert told["file"] in Path("/proc/self/maps").read_text()


def sends_that_are_taken_back():
    """A cancelled send is taken back, or its message arrives; both sides agree on it."""
    other = (rank + 1) % size
    for data in (b"", b"kept", bytes(300_000)):
        for sync in (True, False):
            pending = send(other, 2, data, sync=sync)
            pending.cancel()
            if vendor.name == "pure":
                done(pending)
                meet()  # nobody takes it off the queue before
            # The library may be unable to take it back, and then it waits for its receive.
            back = pending.test() and pending.cancelled
            told = send(other, 4, bytes([back]))
            arrival = next_arrival()
            if arrival.tag == 2:
                assert take(arrival) == data
                arrival = next_arrival()
                assert take(arrival) == b"\0"
            else:
                assert (arrival.tag, take(arrival)) == (4, b"\1")
            done(pending, told)
            assert pending.cancelled == back
            # Those of pure are in the memory of the receiver at once, if they are short.
            if vendor.name == "pure":
                assert back == (sync or len(data) > 65536)
            meet()


def sends_that_were_received_stay():
    for data in (b"", b"kept", bytes(300_000)):
        pending = send((rank + 1) % size, 2, data, sync=True)
        assert take(next_arrival()) == data
        done(pending)
        pending.cancel()
        assert pending.test() and not pending.cancelled


def a_probed_message_stays():
    """A message that was taken off the queue will be received: its sender waits for that."""
    pending = send((rank + 1) % size, 2, b"probed", sync=True)
    arrival = next_arrival()
    meet()
    pending.cancel()
    meet()
    vendor.progress()
    assert not pending.test()
    meet()
    assert take(arrival) == b"probed"
    done(pending)
    assert not pending.cancelled


CHECKS = [value for value in list(globals().values()) if getattr(value, "__module__", "") == "__main__" and value not in
          (until, next_arrival, take, send, done, meet)]  # fmt: skip


def main():
    for check in CHECKS:
        meet()
        try:
            check()
            wrong = ""
        except BaseException:
            wrong = traceback.format_exc()
        print(
            json.dumps({"check": check.__name__, "rank": rank, "wrong": wrong}),
            flush=True,
        )
        if wrong:
            vendor.abort(1)
    vendor.finalize()
    print(json.dumps({"check": "finalize", "rank": rank, "wrong": ""}), flush=True)


main()
