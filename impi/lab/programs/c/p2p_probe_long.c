/* The twin of p2p_probe_long.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int length, told[2], expected[2];
    unsigned char *out, *into, *wanted;
    MPI_Request request;
    MPI_Status status;
    begin(&argc, &argv);

    length = parameter("size");
    out = room((size_t)length);
    into = room((size_t)length);
    wanted = room((size_t)length);
    octets(out, length, "probe/long/%d", rank);
    octets(wanted, length, "probe/long/%d", FROM);
    MPI_Isend(out, length, MPI_BYTE, TO, 98, MPI_COMM_WORLD, &request);
    MPI_Probe(FROM, 98, MPI_COMM_WORLD, &status);
    told[0] = status.MPI_SOURCE;
    MPI_Get_count(&status, MPI_BYTE, &told[1]);
    expected[0] = FROM;
    expected[1] = length;
    check_ints("what MPI_Probe tells", told, expected, 2);
    MPI_Recv(into, length, MPI_BYTE, FROM, 98, MPI_COMM_WORLD, &status);
    check_true("octets", memcmp(into, wanted, (size_t)length) == 0);
    MPI_Wait(&request, &status);

    done();
    MPI_Finalize();
    return 0;
}
