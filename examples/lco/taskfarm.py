"""A task farm whose workers are objects, not processes: each object has an LCO.

    impirun ... taskfarm.py [OBJECTS [ROUNDS]]

A matrix is cut into OBJECTS blocks, dealt out to all processes but the first. Rank 0 sends vectors
to blocks without knowing their processes: send slot k leads to block k, and receive slot k gets its
products. No process knows the number of objects in another one. The program then does the same by
ranks and tags, where rank 0 needs a table with the process of each block. You see both times.
"""

import sys
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
N = 64  # rows and columns of a block
WORK, END = 1, 2  # tags
TAGS = 10  # tags of blocks, without LCOs


def block(number: int) -> np.ndarray:
    return np.random.default_rng(number).random((N, N))


def vector(turn: int) -> np.ndarray:
    return np.random.default_rng(1000 + turn).random(N)


def serve(mine: list[int], comms: list[MPI.Comm], tags: list[tuple[int, int]]) -> None:
    """Multiply the vectors for each block until the END, on its communicator and with its tags."""
    blocks = [block(k) for k in mine]
    places = [np.empty(N) for _ in mine]
    wanted = MPI.ANY_TAG if comms[0] is not world else None
    begin = [
        (
            lambda i=i: comms[i].Irecv(
                places[i], 0, tags[i][0] if wanted is None else wanted
            )
        )
        for i in range(len(mine))
    ]
    requests, left, status = [start() for start in begin], len(mine), MPI.Status()
    while left:
        i = MPI.Request.Waitany(requests, status)
        if status.Get_count(MPI.DOUBLE) == 0:  # the end
            left -= 1
            continue
        comms[i].Send(blocks[i] @ places[i], 0, tags[i][1])
        requests[i] = begin[i]()


def farm(
    objects: int,
    rounds: int,
    comm: MPI.Comm,
    place: list[tuple[int, int]],
    number: dict,
) -> np.ndarray:
    """Send each vector to each block, and return the sums of each block's products.

    ``place`` has destination and tag of each block.
    """
    sums, product, status = np.zeros((objects, N)), np.empty(N), MPI.Status()
    turns = [0] * objects
    for dest, tag in place:
        comm.Send(vector(0), dest, tag)
    for _ in range(objects * rounds):
        comm.Recv(product, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        k = number[status.Get_source(), status.Get_tag()]
        sums[k] += product
        turns[k] += 1
        dest, tag = place[k]
        comm.Send(vector(turns[k]) if turns[k] < rounds else np.empty(0), dest, tag)
    return sums


def with_lcos(objects: int, rounds: int, mine: list[int]) -> np.ndarray | None:
    lcos = [MPI.Create_local() for _ in mine]
    for lco in lcos:
        lco.Add_receive_slots(1)
    master = MPI.Create_local() if world.rank == 0 else None
    if master is not None:
        master.Add_receive_slots(objects)
    everybody = world.gather(
        [(k, lco.Get_lco_name()) for k, lco in zip(mine, lcos, strict=True)], root=0
    )
    home = world.bcast(master.Get_lco_name() if master is not None else None, root=0)
    if master is None:
        for k, lco in zip(mine, lcos, strict=True):
            lco.Add_send_slots([home], [k])
        if mine:
            serve(mine, lcos, [(WORK, WORK)] * len(mine))
        world.Barrier()
        return None
    master.Add_send_slots(
        [
            name
            for _, name in sorted(
                (pair for part in everybody for pair in part), key=lambda p: p[0]
            )
        ]
    )
    sums = farm(
        objects,
        rounds,
        master,
        [(k, WORK) for k in range(objects)],
        {(k, WORK): k for k in range(objects)},
    )
    world.Barrier()
    return sums


def with_ranks(objects: int, rounds: int, mine: list[int]) -> np.ndarray | None:
    owner = [1 + k % (world.size - 1) for k in range(objects)]
    if world.rank > 0:
        if mine:
            serve(mine, [world] * len(mine), [(TAGS + k, TAGS + k) for k in mine])
        return None
    place = [(owner[k], TAGS + k) for k in range(objects)]
    return farm(
        objects, rounds, world, place, {pair: k for k, pair in enumerate(place)}
    )


def main() -> None:
    if world.size == 1:
        sys.exit(
            "taskfarm.py: needs a process for rank 0 and one for the objects; start at least 2"
        )
    objects, rounds = (
        (int(text) for text in [*sys.argv[1:], "60", "20"][:2])
        if len(sys.argv) != 2
        else (int(sys.argv[1]), 20)
    )
    mine = list(range(world.rank - 1, objects, world.size - 1)) if world.rank else []
    for name, run in (
        ("one LCO for each object", with_lcos),
        ("ranks and tags", with_ranks),
    ):
        world.Barrier()
        begin = time.perf_counter()
        sums = run(objects, rounds, mine)
        took = time.perf_counter() - begin
        if sums is not None:
            total = sum(vector(turn) for turn in range(rounds))
            right = all(np.allclose(sums[k], block(k) @ total) for k in range(objects))
            each = took / (objects * rounds) * 1e6
            print(
                f"{name}: {objects} objects, {rounds} tasks each, {'right' if right else 'WRONG'}: "
                f"{took:.2f} s, {each:.0f} us a task"
            )


if __name__ == "__main__":
    main()
