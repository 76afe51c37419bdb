/* A profiler, as many are: it counts calls, and goes on by PMPI_. */
#include <mpi.h>

int impilab_counts[3];

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    impilab_counts[0]++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    impilab_counts[1]++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    impilab_counts[2]++;
    return PMPI_Bcast(buf, count, datatype, root, comm);
}
