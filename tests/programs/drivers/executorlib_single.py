"""executorlib: a function of several ranks, whose mpiexec it starts itself."""

from executorlib import SingleNodeExecutor


def ranks(n):
    from mpi4py import MPI

    return n, MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank), MPI.COMM_WORLD.size


if __name__ == "__main__":
    with SingleNodeExecutor(resource_dict={"cores": 2}) as executor:
        print(executor.submit(ranks, 7).result())
