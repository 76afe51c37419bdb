"""MPI_Comm_dup, made of LCOs (figure 3 of Foster, Kesselman and Snir, 1996).

    impirun ... comm_dup.py

Each process makes an LCO, and all processes gather the names. Send slot i leads to the LCO of rank
i, and there to the receive slot of the sender's rank. The barrier comes last, as in the paper. You
can use collectives on the new communicator, and duplicate it again.
"""

from mpi4py import MPI


def comm_dup(comm: MPI.Comm, size: int, rank: int) -> MPI.Comm:
    new = MPI.Create_local()
    new.Add_receive_slots(size)
    names = bytearray(size * MPI.CNAME.Get_size())
    comm.Allgather([new.Get_lco_name(), 1, MPI.CNAME], [names, 1, MPI.CNAME])
    new.Add_send_slots(names, [rank] * size)
    comm.Barrier()
    return new


world = MPI.COMM_WORLD
size, rank = world.size, world.rank
first = comm_dup(world, size, rank)
second = comm_dup(first, size, rank)
for name, comm in (("first", first), ("second", second)):
    left = comm.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
    total = comm.allreduce(rank, op=MPI.SUM)
    neighbours = comm.gather(left, root=0)
    if rank == 0:
        print(f"{name}: sum of ranks {total}, left neighbours", *neighbours)
second.Free()
first.Free()
