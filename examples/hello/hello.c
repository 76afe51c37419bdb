/* The greeting of hello.py in C: impicc -o hello examples/hello/hello.c */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, length, total;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_library_version(library, &length);
    printf("rank %d: %s\n", rank, library);
    MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("the ranks of all libraries add up to %d\n", total);
    MPI_Finalize();
    return 0;
}
