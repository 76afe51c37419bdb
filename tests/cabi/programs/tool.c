/* A profiler, as many are: it counts calls of all ranks, goes on by PMPI, and tells at the end.

   TITLE is its name. With NEXT it goes on to whoever has the function after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#ifdef NEXT
#define ON(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#else
#define ON(name) P##name
#endif

static int counts[4];

int MPI_Init(int *argc, char ***argv)
{
    counts[0]++;
    return ON(MPI_Init)(argc, argv);
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    counts[1]++;
    return ON(MPI_Send)(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    counts[2]++;
    return ON(MPI_Recv)(buf, count, datatype, source, tag, comm, status);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    counts[3]++;
    return ON(MPI_Allreduce)(in, out, count, datatype, op, comm);
}

int MPI_Finalize(void)
{
    int rank, size, all[4];
    ON(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    ON(MPI_Comm_size)(MPI_COMM_WORLD, &size);
    ON(MPI_Reduce)(counts, all, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank) printf(TITLE ": %d ranks, %d inits, %d sends, %d recvs, %d allreduces\n", size, all[0], all[1], all[2], all[3]);
    fflush(stdout);
    return ON(MPI_Finalize)();
}
