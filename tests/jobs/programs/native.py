"""Prints the form of user data between several clients: "native" or "external32".

The argument is what this client says of its memory (as hex) in place of the truth; "-" is the
truth. Rank 0 prints.
"""

import sys

if sys.argv[1] != "-":
    from impi.protocol.semantics.values import representation

    representation.own = lambda: bytes.fromhex(sys.argv[1])

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size
right, left = (me + 1) % size, (me - 1) % size
VALUE = 0x01020304


def raw() -> str:
    """How an int of rank 0 looks to the last rank, which is of another client."""
    if me == 0:
        world.Send(np.array([VALUE], "i"), size - 1, 1)
    if me == size - 1:
        octets = bytearray(4)
        world.Recv([octets, 4, MPI.BYTE], 0, 1)
        return (
            "native" if int.from_bytes(octets, sys.byteorder) == VALUE else "external32"
        )
    return ""


def around(code: str, datatype: MPI.Datatype) -> None:
    """Every form of send and receive keeps values, and counts them right."""
    mine, got = np.array([me + 1, 2, 3], code), np.zeros(3, code)
    status = MPI.Status()
    world.Sendrecv([mine, datatype], right, 2, [got, datatype], left, 2, status)
    assert got.tolist() == [left + 1, 2, 3] and status.Get_count(datatype) == 3, (
        code,
        got,
    )
    assert status.Get_elements(datatype) == 3
    request = world.Isend([mine, datatype], right, 3)
    world.Probe(left, 3, status)
    assert status.Get_count(datatype) == 3, code
    world.Recv([got, datatype], left, 3)
    request.Wait()
    world.Sendrecv_replace([got, datatype], right, 4, left, 4)
    assert got[0] == (left - 1) % size + 1
    MPI.Attach_buffer(bytearray(1000 + MPI.BSEND_OVERHEAD))
    world.Bsend([mine, datatype], right, 5)
    world.Recv([got, datatype], left, 5)
    MPI.Detach_buffer()
    assert got.tolist() == [left + 1, 2, 3]
    # A persistent request goes on without the handle
    pair = datatype.Create_contiguous(1).Commit()
    sending, receiving = (
        world.Send_init([mine, 3, pair], right, 6),
        world.Recv_init([got, 3, pair], left, 6),
    )
    pair.Free()
    for i in range(2):
        mine[1] = i
        MPI.Prequest.Startall([receiving, sending])
        MPI.Request.Waitall([receiving, sending])
        assert got[1] == i


def collectives(code: str, datatype: MPI.Datatype) -> None:
    long = 300  # octets over XSIZE
    for count in (1, long):
        everywhere = np.full(count, 7 if me == 1 % size else 0, code)
        world.Bcast([everywhere, datatype], 1 % size)
        assert (everywhere == 7).all()
        gathered = np.zeros(size * count, code)
        world.Allgather([np.full(count, me, code), datatype], [gathered, datatype])
        assert (gathered.reshape(size, count) == np.arange(size)[:, None]).all()
        swapped = np.zeros(size * count, code)
        world.Alltoall(
            [np.repeat(np.arange(size) + 10 * me, count).astype(code), datatype],
            [swapped, datatype],
        )
        assert (
            swapped.reshape(size, count) == (10 * np.arange(size) + me)[:, None]
        ).all()
        world.Alltoall(MPI.IN_PLACE, [swapped, datatype])
        assert (
            swapped.reshape(size, count) == (10 * me + np.arange(size))[:, None]
        ).all()
        total = np.zeros(count, code)
        world.Allreduce([np.full(count, me, code), datatype], [total, datatype])
        assert (total == size * (size - 1) // 2).all()
        piece = np.zeros(count, code)
        world.Scatter([gathered, datatype] if me == 0 else None, [piece, datatype])
        assert (piece == me).all()


def packed_and_typed() -> None:
    """Packed data is received as its type, and sent data can be unpacked (MPI 4.1, 5.2)."""
    ints = np.array([me, -5], "i")
    buffer = bytearray(MPI.INT.Pack_size(2, world))
    assert MPI.INT.Pack(ints, buffer, 0, world) == len(buffer)
    got = np.zeros(2, "i")
    world.Sendrecv([buffer, MPI.PACKED], right, 7, got, left, 7)
    # Else the neighbour may be of the same client, where messages are native anyway
    if size == 2:
        assert got.tolist() == [left, -5]
    into = bytearray(len(buffer))
    world.Sendrecv(ints, right, 8, [into, MPI.PACKED], left, 8)
    MPI.INT.Unpack(into, 0, got, world)
    if size == 2:
        assert got.tolist() == [left, -5]
    external = bytearray(8)
    MPI.INT.Pack_external("external32", ints, external, 0)
    assert external[4:].hex() == "fffffffb"


def pairs_and_records() -> None:
    extreme = np.zeros(1, [("value", "d"), ("index", "i4")])
    mine = np.array([(float(me), me)], extreme.dtype)
    aligned = np.dtype(
        {
            "names": ["value", "index"],
            "formats": ["f8", "i4"],
            "offsets": [0, 8],
            "itemsize": 16,
        }
    )
    best = np.zeros(1, aligned)
    world.Allreduce(
        [mine.astype(aligned), 1, MPI.DOUBLE_INT], [best, 1, MPI.DOUBLE_INT], MPI.MAXLOC
    )
    assert best["index"][0] == size - 1
    column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()
    table, got = np.arange(12.0) + 100 * me, np.zeros(12)
    world.Sendrecv([table, 1, column], right, 9, [got, 1, column], left, 9)
    assert (
        got[::4].tolist() == [100 * left, 100 * left + 4, 100 * left + 8]
        and not got[1:4].any()
    )
    column.Free()


form = world.bcast(raw(), size - 1)
for code, datatype in (
    ("i", MPI.INT),
    ("d", MPI.DOUBLE),
    ("l", MPI.LONG),
    ("g", MPI.LONG_DOUBLE),
    ("b", MPI.INT8_T),
):
    around(code, datatype)
    collectives(code, datatype)
packed_and_typed()
pairs_and_records()
assert world.allreduce(me) == size * (size - 1) // 2
if me == 0:
    print(form)
