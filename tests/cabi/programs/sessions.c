/* A program without MPI_Init: sessions alone, one after the other. argv[1] == "open": the last does not end. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int i, rank, size, flag, sum = 0;
    for (i = 0; i < 2; i++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Initialized(&flag);
        if (flag) return 2;
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        MPI_Allreduce(&rank, &flag, 1, MPI_INT, MPI_SUM, comm);
        sum += flag;
        MPI_Group_free(&group);
        MPI_Comm_free(&comm);
        if (i && argc > 1 && !strcmp(argv[1], "open")) break;
        MPI_Session_finalize(&session);
    }
    printf("rank %d of %d: sum %d\n", rank, size, sum);
    return 0;
}
