/* The twin of p2p_flood.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int count, i, right = 1, (*out)[2], into[2];
    MPI_Request *requests;
    MPI_Status *statuses, status;
    begin(&argc, &argv);

    count = parameter("count");
    out = room(sizeof *out * (size_t)count);
    requests = room(sizeof *requests * (size_t)count);
    statuses = room(sizeof *statuses * (size_t)count);
    for (i = 0; i < count; i++) {
        out[i][0] = rank;
        out[i][1] = i;
        MPI_Isend(out[i], 2, MPI_INT, TO, 36, MPI_COMM_WORLD, &requests[i]);
    }
    for (i = 0; i < count; i++) {
        MPI_Recv(into, 2, MPI_INT, FROM, 36, MPI_COMM_WORLD, &status);
        right = right && into[0] == FROM && into[1] == i;
    }
    check_true("all, in their order", right);
    MPI_Waitall(count, requests, statuses);

    done();
    MPI_Finalize();
    return 0;
}
