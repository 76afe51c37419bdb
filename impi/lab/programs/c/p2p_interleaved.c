/* The twin of p2p_interleaved.py. */
#include "report.h"

int main(int argc, char **argv)
{
    static const int turn[4] = {3, 1, 2, 0};
    int n, i;
    char what[32];
    Buffer in[4], out[4];
    MPI_Request requests[8];
    MPI_Status statuses[8];
    begin(&argc, &argv);

    n = parameter("size");
    for (i = 0; i < 4; i++) {
        in[i] = buffer(n);
        out[i] = buffer(n);
        octets(out[i].at, n, "interleaved/%d/%d", i, rank);
    }
    for (i = 0; i < 4; i++)
        MPI_Irecv(in[turn[i]].at, n, MPI_BYTE, FROM, 40 + turn[i], MPI_COMM_WORLD, &requests[i]);
    for (i = 0; i < 4; i++)
        MPI_Isend(out[i].at, n, MPI_BYTE, TO, 40 + i, MPI_COMM_WORLD, &requests[4 + i]);
    MPI_Waitall(8, requests, statuses);
    for (i = 0; i < 4; i++) {
        octets(out[i].at, n, "interleaved/%d/%d", i, FROM);
        snprintf(what, sizeof what, "message %d", i);
        check_octets(what, in[i].at, out[i].at, n);
    }

    done();
    MPI_Finalize();
    return 0;
}
