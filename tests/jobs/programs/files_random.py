"""Random views and accesses beside a model in memory: ``files_random.py PATH SEED TURNS [CLIENT]``.

In each turn all procs choose views of one file, and write what no other proc writes; a model of the
file, kept by every proc from what all say they have written, must then be the file. With CLIENT
its procs access the file for all, so only collective calls are made.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

path, seed, turns, client = (
    sys.argv[1],
    int(sys.argv[2]),
    int(sys.argv[3]),
    "".join(sys.argv[4:]),
)
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
alike, mine = random.Random(seed), random.Random(1000 * seed + rank)


def chosen() -> tuple[MPI.Datatype, list[int], int]:
    """The share of this proc in blocks of all procs: a file type of octets, its places, where."""
    length, blocks = alike.choice([1, 3, 8, 700]), alike.randint(1, 4)
    row, start = length * size, 0
    kind = alike.choice(["vector", "indexed", "subarray"])
    if kind == "vector":
        tile = MPI.BYTE.Create_vector(blocks, length, row).Create_resized(
            0, blocks * row
        )
        start = rank * length
        firsts = [b * row for b in range(blocks)]
    elif kind == "indexed":
        firsts = [b * row + (rank + b) % size * length for b in range(blocks)]
        tile = MPI.BYTE.Create_indexed([length] * blocks, firsts).Create_resized(
            0, blocks * row
        )
    else:
        tile = MPI.BYTE.Create_subarray(
            [blocks, row], [blocks, length], [0, rank * length]
        )
        firsts = [b * row + rank * length for b in range(blocks)]
    return tile.Commit(), [first + i for first in firsts for i in range(length)], start


model = np.zeros(0, "B")
hints = MPI.Info.Create({"impi_io_client": client} if client else {})
file = MPI.File.Open(comm, path, MPI.MODE_RDWR | MPI.MODE_CREATE, hints)
for turn in range(turns):
    shift = alike.randint(0, 5)
    tile, places, start = chosen()
    shift += start
    hint = alike.choice(["enable", "disable", "automatic"])
    file.Set_view(shift, MPI.BYTE, tile, info=MPI.Info.Create({"romio_cb_write": hint}))
    begin, count = mine.randint(0, 3 * len(places)), mine.randint(0, 3 * len(places))
    data = np.frombuffer(mine.randbytes(count), "B")
    way = alike.randrange(2 if client else 4)
    if way == 0:
        file.Write_at_all(begin, data)
    elif way == 1:
        file.Write_at_all_begin(begin, data)
        file.Write_at_all_end(data)
    elif way == 2:
        file.Seek(begin)
        file.Write(data)
    else:
        file.Iwrite_at(begin, data).Wait()
    where = [
        shift + (i // len(places)) * tile.extent + places[i % len(places)]
        for i in range(begin, begin + count)
    ]
    for at, octets in comm.allgather((where, data.tobytes())):
        end = max(at, default=-1) + 1
        model = np.concatenate([model, np.zeros(max(0, end - len(model)), "B")])
        model[at] = np.frombuffer(octets, "B")
    comm.Barrier()
    found = np.fromfile(path, "B")
    assert found.tobytes() == model.tobytes(), (turn, way, len(found), len(model))
    begin, count = mine.randint(0, 3 * len(places)), mine.randint(0, 3 * len(places))
    where = [
        shift + (i // len(places)) * tile.extent + places[i % len(places)]
        for i in range(begin, begin + count)
    ]
    expected = model[[at for at in where if at < len(model)]]
    room, status = np.full(count, 0, "B"), MPI.Status()
    (file.Read_at_all if client or way % 2 else file.Read_at)(begin, room, status)
    assert status.Get_count(MPI.BYTE) == len(expected), (
        turn,
        status.Get_count(MPI.BYTE),
        len(expected),
    )
    assert (room[: len(expected)] == expected).all(), turn
    comm.Barrier()
    if alike.random() < 0.2:
        file.Set_size(alike.randint(0, len(model)))
        model = model[: Path(path).stat().st_size]
        comm.Barrier()
    tile.Free()
file.Close()
print("random")
