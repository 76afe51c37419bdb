from mpi4py import MPI

world = MPI.COMM_WORLD
mine = f"rank {world.rank}: " + MPI.Get_library_version().split(",")[0]
lines = world.gather(mine, root=0)
total = world.allreduce(world.rank, op=MPI.SUM)
if world.rank == 0:
    print(*lines, sep="\n")
    print("the ranks of all libraries add up to", total)
