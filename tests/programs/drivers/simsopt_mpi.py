"""simsopt: groups of ranks divide evaluations of a function."""

from simsopt.util import MpiPartition

mpi = MpiPartition(ngroups=2)
sums = mpi.comm_groups.allreduce(mpi.comm_world.rank)
leaders = mpi.comm_leaders.allgather(mpi.group) if mpi.proc0_groups else None
print(mpi.rank_world, mpi.group, mpi.rank_groups, sums, leaders)
