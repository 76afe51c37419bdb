/* The twin of p2p_sizes.py. */
#include "report.h"

#define MOST 16

int main(int argc, char **argv)
{
    int sizes[MOST], n, i, count;
    char what[64];
    Buffer in[MOST], out[MOST];
    MPI_Request requests[2 * MOST];
    MPI_Status statuses[2 * MOST];
    begin(&argc, &argv);

    n = parameters("sizes", sizes, MOST);
    for (i = 0; i < n; i++) {
        in[i] = buffer(sizes[i]);
        MPI_Irecv(in[i].at, sizes[i], MPI_BYTE, FROM, 20 + i, MPI_COMM_WORLD, &requests[i]);
    }
    for (i = 0; i < n; i++) {
        out[i] = buffer(sizes[i]);
        octets(out[i].at, sizes[i], "sizes/%d/%d", rank, sizes[i]);
        MPI_Isend(out[i].at, sizes[i], MPI_BYTE, TO, 20 + i, MPI_COMM_WORLD, &requests[n + i]);
    }
    MPI_Waitall(2 * n, requests, statuses);
    for (i = 0; i < n; i++) {
        octets(out[i].at, sizes[i], "sizes/%d/%d", FROM, sizes[i]);
        snprintf(what, sizeof what, "%d octets", sizes[i]);
        check_octets(what, in[i].at, out[i].at, sizes[i]);
        snprintf(what, sizeof what, "count of %d octets", sizes[i]);
        MPI_Get_count(&statuses[i], MPI_BYTE, &count);
        check_int(what, count, sizes[i]);
    }

    done();
    MPI_Finalize();
    return 0;
}
