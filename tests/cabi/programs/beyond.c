/* A status in memory that is too small for it: for the sanitizers to find in our library. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_SELF, malloc(sizeof(MPI_Status) / 2));
    MPI_Finalize();
    return 0;
}
