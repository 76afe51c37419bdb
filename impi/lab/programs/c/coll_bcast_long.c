/* The twin of coll_bcast_long.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int n, root;
    unsigned char *data, *expected;
    begin(&argc, &argv);

    n = parameter("size");
    root = size - 1;
    data = room((size_t)n);
    expected = room((size_t)n);
    octets(expected, n, "long/bcast");
    if (rank == root)
        memcpy(data, expected, (size_t)n);
    MPI_Bcast(data, n, MPI_BYTE, root, MPI_COMM_WORLD);
    check_octets("bcast", data, expected, n);

    done();
    MPI_Finalize();
    return 0;
}
