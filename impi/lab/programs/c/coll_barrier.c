/* The twin of coll_barrier.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int i, number, out;
    char what[32];
    MPI_Request request;
    MPI_Status status;
    begin(&argc, &argv);

    for (i = 0; i < 3; i++) {
        out = i;
        number = -1;
        MPI_Isend(&out, 1, MPI_INT, RIGHT, 70, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&number, 1, MPI_INT, LEFT, 70, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, &status);
        snprintf(what, sizeof what, "message of barrier %d", i);
        check_int(what, number, i);
    }

    done();
    MPI_Finalize();
    return 0;
}
