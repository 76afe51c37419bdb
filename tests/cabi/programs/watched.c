/* What a profiler counts: messages and collectives of all ranks, and of two neighbours alone. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, sum, got = 0, total = 0;
    MPI_Comm two;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &two);
    for (int turn = 0; turn < 5; turn++) {
        if (rank % 2) MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, turn, MPI_COMM_WORLD);
        if (!(rank % 2)) MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        total += got;
        MPI_Allreduce(&total, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank % 2) MPI_Send(&rank, 1, MPI_INT, 0, 9, two);
    else MPI_Recv(&got, 1, MPI_INT, 1, 9, two, MPI_STATUS_IGNORE);
    MPI_Allreduce(&got, &total, 1, MPI_INT, MPI_SUM, two);
    MPI_Comm_free(&two);
    printf("rank %d of %d: sums %d, %d\n", rank, size, sum, total);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
