"""A channel between two processes (figure 2 of Foster, Kesselman and Snir, 1996).

    impirun ... channel.py        with an even number of processes

The receiver makes an LCO with one receive slot and sends its name. The sender makes an LCO with one
send slot of that name. Both use slot 0 from then on, and no other process takes part.
"""

import array

from mpi4py import MPI

world = MPI.COMM_WORLD
MESSAGES = 10
NAME = 99  # tag


def receiver_side(neighbour: int) -> list[int]:
    receiver = MPI.Create_local()
    receiver.Add_receive_slots(1)
    world.Send([receiver.Get_lco_name(), 1, MPI.CNAME], dest=neighbour, tag=NAME)
    received, value = [], array.array("i", [0])
    while not received or received[-1] != MESSAGES - 1:
        receiver.Recv(value, source=0, tag=NAME)
        received.append(value[0])
    receiver.Free()
    return received


def sender_side(neighbour: int) -> None:
    sender = MPI.Create_local()
    name = bytearray(MPI.CNAME.Get_size())
    world.Recv([name, 1, MPI.CNAME], source=neighbour, tag=NAME)
    sender.Add_send_slots([name], [0])
    for value in range(MESSAGES):
        sender.Send(array.array("i", [value]), dest=0, tag=NAME)
    sender.Free()


half = world.size // 2
lines = None
if world.rank < half:
    sender_side(world.rank + half)
elif world.rank < 2 * half:
    lines = receiver_side(world.rank - half)
everybody = world.gather(lines, root=0)
if world.rank == 0:
    assert everybody is not None
    for rank, received in enumerate(everybody):
        if received is not None:
            print(f"rank {rank - half} to rank {rank}:", *received)
