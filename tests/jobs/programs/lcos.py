"""LCOs across clients: ``lcos.py PART...``; each rank prints ``ok``, or what was wrong."""

from __future__ import annotations

import array
import pickle
import random
import sys
from collections import defaultdict
from typing import Any

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
LONG = 100_000  # octets of a message that does not travel with its packet


def port(receive_slots: int = 1) -> Any:
    made = MPI.Create_local()
    made.Add_receive_slots(receive_slots)
    return made


def sender(*names: Any, slots: list[int] | None = None) -> Any:
    made = MPI.Create_local()
    made.Add_send_slots(names, slots)
    return made


def refused(call, part: str) -> None:
    try:
        call()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_PORT, failure
        assert part in str(failure), failure
    else:
        raise AssertionError(f"not refused: {part}")


def ring(receive_slots: int = 1) -> tuple[Any, Any]:
    """A receiver here, and a sender to that of the next rank."""
    receiver = port(receive_slots)
    names = world.allgather(receiver.Get_lco_name())
    return receiver, sender(names[(rank + 1) % size])


def names() -> None:
    """Names travel as MPI_CNAME, as pickles and as octets, and what is none is refused."""
    receiver = port(3)
    name = receiver.Get_lco_name()
    assert (
        pickle.loads(pickle.dumps(name)) == name
        and type(pickle.loads(pickle.dumps(name))) is MPI.LcoName
    )
    assert MPI.CNAME.Get_size() == len(name) and name.meaning().key.hex() not in repr(
        name
    )
    all_of_them = bytearray(size * len(name))
    world.Allgather([name, 1, MPI.CNAME], [all_of_them, 1, MPI.CNAME])
    out = MPI.Create_local()
    assert (out.Num_send_slots(), out.Num_receive_slots()) == (0, 0)
    out.Add_send_slots(all_of_them, [2] * size)
    out.Add_send_slots([name], [1])
    assert (
        out.Num_send_slots(),
        out.Num_receive_slots(),
        receiver.Num_receive_slots(),
    ) == (size + 1, 0, 3)
    assert out.Get_size() == size and out.Get_rank() == rank
    assert (
        MPI.Comm() == MPI.COMM_NULL
        and out != receiver
        and out == MPI.Lco.fromhandle(out.handle)
    )
    refused(lambda: out.Add_send_slots([bytes(name)[:-1]]), "not a name of an LCO")
    refused(lambda: MPI.LcoName(b"x" * len(name)), "not a name of an LCO or of a slot")
    foreign = bytearray(name)
    foreign[4:20] = bytes(16)
    refused(lambda: out.Add_send_slots([foreign]), "of no process of this job")
    for wrong in (
        lambda: out.send(1, size + 1),
        lambda: receiver.recv(source=3),
        lambda: out.Probe(0),
    ):
        try:
            wrong()
        except MPI.Exception as failure:
            assert failure.Get_error_class() == MPI.ERR_RANK
        else:
            raise AssertionError("a slot that does not exist was taken")


def point_to_point() -> None:
    """All ways to send and receive, short and long, to the next rank."""
    receiver, out = ring()
    status, left = MPI.Status(), (rank - 1) % size
    for n in (0, 1, 8192, 8193, LONG):
        data, place = bytes([rank]) * n, bytearray(n)
        want = bytes([left]) * n
        for send in (out.Isend, out.Issend):
            request = send(data, 0, n)
            receiver.Recv(place, 0, n, status)
            assert place == want and (
                status.Get_count(),
                status.source,
                status.tag,
            ) == (n, 0, n)
            request.Wait()
        receiving = receiver.Irecv(place, MPI.ANY_SOURCE, MPI.ANY_TAG)
        out.Send_init(data, 0, 5).Start()
        receiving.Wait(status)
        assert status.tag == 5 and place == want
        request = out.Isend(data, 0, 6)
        receiver.Probe(0, MPI.ANY_TAG, status)
        assert (status.tag, status.Get_count()) == (6, n)
        message = receiver.Mprobe(status=status)
        assert receiver.Iprobe() is False
        message.Recv(place)
        request.Wait()
        assert place == want
        world.Barrier()
    values = array.array("d", [rank + 0.5] * 3000)
    request = out.Isend([values, MPI.DOUBLE], 0)
    several = array.array("d", [0.0] * 3000)
    receiver.Recv([several, MPI.DOUBLE], 0, status=status)
    assert (
        several == array.array("d", [left + 0.5] * 3000)
        and status.Get_count(MPI.DOUBLE) == 3000
    )
    request.Wait()
    request = out.isend({"rank": rank}, 0, 1)
    assert receiver.recv(source=0, tag=1) == {"rank": left}
    request.wait()
    MPI.Attach_buffer(bytearray(LONG))
    out.bsend("buffered", 0, 2)
    assert receiver.recv(tag=2) == "buffered"
    MPI.Detach_buffer()
    request = receiver.irecv(source=0, tag=9)
    request.Cancel()
    request.Wait(status)
    assert status.Is_cancelled()
    request = out.Isend(b"12345678", 0, 3)
    try:
        receiver.Recv(bytearray(4), 0, 3)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_TRUNCATE
    else:
        raise AssertionError("a message was cut without a word")
    request.Wait()
    world.Barrier()
    receiver.Free()
    out.Free()


def many_to_one() -> None:
    """Two senders of each rank, one receiver: the source tells the slot, and order is kept."""
    receiver = port(2 * size) if rank == 0 else None
    name = world.bcast(receiver.Get_lco_name() if receiver else None)
    outs = [sender(name, slots=[2 * rank + i]) for i in range(2)]
    for number in range(20):
        for out in outs:
            out.send(number, 0, number)
    if receiver:
        status, came = MPI.Status(), defaultdict(list)
        for _ in range(2 * size * 20):
            came[(status.source, receiver.recv(status=status))[0]] += []
            came[status.source].append(status.tag)
        assert {slot: tags for slot, tags in came.items() if tags} == {
            s: list(range(20)) for s in range(2 * size)
        }
        assert receiver.Num_attached() == 2 * size
    world.Barrier()
    for out in outs:
        out.Free()
    if receiver:
        while receiver.Num_attached():
            pass


def own_message() -> None:
    """A slot that has one remote sender, now mute, gets a message of this proc, too."""
    receiver = port()
    names = world.allgather(receiver.Get_lco_name())
    remote = sender(names[(rank + 1) % size])
    remote.send("from there", 0)
    assert receiver.recv(source=0) == "from there"
    own = sender(receiver.Get_lco_name())
    own.send("from here", 0)
    assert receiver.recv(source=0) == "from here"
    world.Barrier()


def later() -> None:
    """Messages wait for a slot that does not exist yet, up to a bound; the sender hears of more."""
    receiver, out = ring(0)
    for number in range(5):
        out.send(number, 0)
    requests = [out.Isend(bytes(8192), 0) for _ in range(200)]
    results = []
    for request in requests:
        try:
            request.Wait()
            results.append(True)
        except MPI.Exception as failure:
            assert (
                failure.Get_error_class() == MPI.ERR_PORT
                and "does not exist yet" in str(failure)
            )
            results.append(False)
    fit = sum(results)
    assert 100 < fit < 200 and results == [True] * fit + [False] * (200 - fit), fit
    refused(lambda: out.Send(bytes(8192), 0), "does not exist yet")
    world.Barrier()
    receiver.Add_receive_slots(1)
    assert [receiver.recv() for _ in range(5)] == list(range(5))
    for _ in range(fit):
        receiver.Recv(bytearray(8192))
    assert not receiver.Iprobe()
    world.Barrier()
    out.send("late", 0)
    assert receiver.recv(source=0) == "late"


def gone() -> None:
    """A name cannot outlive its LCO unnoticed."""
    receiver, out = ring()
    name = world.sendrecv(
        receiver.Get_lco_name(), (rank - 1) % size, source=(rank + 1) % size
    )
    out.send("received", 0)
    assert receiver.recv() == "received"
    world.Barrier()
    out.send("lost", 0)
    waiting = out.Issend(b"lost", 0)
    world.Barrier()
    receiver.Free()
    refused(
        waiting.Wait, "that LCO was freed; of 3 messages sent there, 1 were received"
    )
    refused(lambda: out.send(1, 0), "was freed")
    refused(lambda: out.Send(bytes(LONG), 0), "was freed")
    refused(lambda: sender(name).send(1, 0), "was freed")
    out.Free()
    try:
        out.send(1, 0)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_COMM
    world.Barrier()


def capabilities() -> None:
    """The name of a slot opens that slot alone; a changed one opens nothing (section 4.1)."""
    receiver = MPI.Create_local()
    first, second = receiver.Add_receive_slots(2)
    slots = world.sendrecv([first, second], (rank - 1) % size, source=(rank + 1) % size)
    out = MPI.Create_local()
    out.Add_send_slot(slots[1])
    out.send("to the second", 0)
    status = MPI.Status()
    assert receiver.recv(status=status) == "to the second" and status.source == 1
    forged = bytearray(slots[0])
    forged[-1] = 1  # the key of slot 0 with the number of slot 1
    out.Add_send_slot(forged)
    refused(lambda: out.send("forged", 1), "its key is wrong")
    guessed = bytearray(receiver.Get_lco_name())
    guessed[-1] ^= 1
    out.Add_send_slots([guessed])
    refused(lambda: out.send("guessed", 2), "its key is wrong")
    world.Barrier()
    assert not receiver.Iprobe()


def collectives() -> None:
    """LCOs that form a communicator do its collectives; Dup and Split make such LCOs."""
    comm = port(size)
    comm.Add_send_slots(world.allgather(comm.Get_lco_name()), [rank] * size)
    again = comm.Dup()
    half = again.Split(rank % 2, -rank)
    none = again.Split(MPI.UNDEFINED if rank else 0, 0)
    assert (none == MPI.COMM_NULL) == bool(rank)
    for each in (comm, again):
        assert each.allreduce(rank) == size * (size - 1) // 2
        data = (
            array.array("d", range(5000))
            if rank == size - 1
            else array.array("d", [0.0] * 5000)
        )
        each.Bcast([data, MPI.DOUBLE], root=size - 1)
        assert data == array.array("d", range(5000))
        into = array.array("i", [0] * size)
        each.Allgather([array.array("i", [rank]), MPI.INT], [into, MPI.INT])
        assert list(into) == list(range(size))
        total = array.array("d", [0.0] * 2)
        each.Allreduce(
            [array.array("d", [rank, 1.0]), MPI.DOUBLE], [total, MPI.DOUBLE], MPI.SUM
        )
        assert list(total) == [size * (size - 1) / 2, size]
        assert each.scan(1) == rank + 1
        assert each.alltoall([(rank, to) for to in range(size)]) == [
            (of, rank) for of in range(size)
        ]
    ranks = [r for r in range(size) if r % 2 == rank % 2]
    assert half.allgather(rank) == ranks[::-1]
    lone = port(2)
    try:
        lone.Barrier()
    except MPI.Exception as failure:
        assert (
            failure.Get_error_class() == MPI.ERR_COMM
            and "that form a communicator" in str(failure)
        )
    else:
        raise AssertionError("a channel had a barrier")
    for each in (half, again, comm):
        each.Barrier()
        each.Free()


def intercommunicator() -> None:
    """Two groups, each LCO with a slot for every member of the other group."""
    side = rank % 2
    groups = [[r for r in range(size) if r % 2 == s] for s in (0, 1)]
    place = groups[side].index(rank)
    comm = port(len(groups[1 - side]))
    everybody = world.allgather(comm.Get_lco_name())
    comm.Add_send_slots(
        [everybody[r] for r in groups[1 - side]], [place] * len(groups[1 - side])
    )
    requests = [
        comm.isend((rank, other), i) for i, other in enumerate(groups[1 - side])
    ]
    assert [comm.recv(source=i) for i in range(len(groups[1 - side]))] == [
        (r, rank) for r in groups[1 - side]
    ]
    MPI.Request.waitall(requests)


def graph() -> None:
    """Random graphs of LCOs, all processes with one seed: each message once, in order."""
    for seed in range(5):
        same = random.Random(seed)
        where = [same.randrange(size) for _ in range(12)]
        edges = [
            (same.randrange(12), same.randrange(12), same.randrange(3))
            for _ in range(40)
        ]
        traffic = [
            (same.randrange(len(edges)), same.choice([0, 10, 5000, 20_000]))
            for _ in range(120)
        ]
        lcos = {i: MPI.Create_local() for i, owner in enumerate(where) if owner == rank}
        parts = world.allgather({i: lco.Get_lco_name() for i, lco in lcos.items()})
        known = {i: name for part in parts for i, name in part.items()}
        if seed % 2:
            for lco in lcos.values():
                lco.Add_receive_slots(3)
        at = {}
        for e, (source, dest, slot) in enumerate(edges):
            if source in lcos:
                at[e] = lcos[source].Num_send_slots()
                lcos[source].Add_send_slots([known[dest]], [slot])
        requests = []
        for number, (e, n) in enumerate(traffic):
            if e in at:
                requests.append(
                    lcos[edges[e][0]].isend((number, bytes(n)), at[e], number % 7)
                )
        if not seed % 2:
            for lco in lcos.values():
                lco.Add_receive_slots(3)
        last = defaultdict(lambda: -1)
        for i, lco in lcos.items():
            due = [(k, e, n) for k, (e, n) in enumerate(traffic) if edges[e][1] == i]
            sizes, status = {k: (e, n) for k, e, n in due}, MPI.Status()
            for _ in due:
                number, data = lco.recv(status=status)
                e, n = sizes.pop(number)
                assert (len(data), status.source, status.tag) == (
                    n,
                    edges[e][2],
                    number % 7,
                )
                assert last[e] < number, "overtaken"
                last[e] = number
            assert not sizes and not lco.Iprobe()
        MPI.Request.waitall(requests)
        world.Barrier()
        for lco in lcos.values():
            lco.Free()


def thousand() -> None:
    """LCOs are cheap: the time of 1000, named."""
    begin = MPI.Wtime()
    made = [MPI.Create_local() for _ in range(1000)]
    assert len({bytes(lco.Get_lco_name()) for lco in made}) == 1000
    took = MPI.Wtime() - begin
    if rank == 0:
        print(f"1000 LCOs made and named in {took:.3f} s", file=sys.stderr)


def strict() -> None:
    """With a client of IMPI 0.0 only there are no LCOs, and nothing is sent."""
    try:
        MPI.Create_local()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION
        assert "one has IMPI 0.0 only" in str(failure)
    else:
        raise AssertionError("there was an LCO")


def unfreed() -> None:
    """A job ends although LCOs are left, with messages that were not received."""
    receiver, out = ring()
    out.send("never received", 0)
    receiver.Irecv(bytearray(3), 0, 77)


for part in sys.argv[1:]:
    globals()[part]()
    world.Barrier()
sys.stdout.write("ok\n")
