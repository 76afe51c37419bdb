/* The twin of p2p_ring.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char out[256], into[256], wanted[256];
    double doubles[32], received[32], expected[32];
    int ints[32], whole[9], wanted_ints[32], found[3], planned[3], i;
    MPI_Status status;
    begin(&argc, &argv);

    octets(out, 256, "ring/%d", rank);
    memset(into, 0, 256);
    MPI_Sendrecv(out, 256, MPI_BYTE, RIGHT, 7, into, 256, MPI_BYTE, LEFT, 7, MPI_COMM_WORLD, &status);
    octets(wanted, 256, "ring/%d", LEFT);
    check_octets("octets from the left", into, wanted, 256);
    found[0] = status.MPI_SOURCE;
    found[1] = status.MPI_TAG;
    MPI_Get_count(&status, MPI_BYTE, &found[2]);
    planned[0] = LEFT;
    planned[1] = 7;
    planned[2] = 256;
    check_ints("source, tag, count", found, planned, 3);

    numbers(ints, 32, "ring/double/%d", rank);
    numbers(wanted_ints, 32, "ring/double/%d", LEFT);
    for (i = 0; i < 32; i++) {
        doubles[i] = ints[i];
        expected[i] = wanted_ints[i];
    }
    MPI_Sendrecv(doubles, 32, MPI_DOUBLE, RIGHT, 8, received, 32, MPI_DOUBLE, LEFT, 8, MPI_COMM_WORLD, &status);
    check_doubles("doubles from the left", received, expected, 32);

    numbers(ints, 9, "ring/int/%d", rank);
    MPI_Sendrecv(ints, 9, MPI_INT, RIGHT, 9, whole, 9, MPI_INT, LEFT, 9, MPI_COMM_WORLD, &status);
    numbers(wanted_ints, 9, "ring/int/%d", LEFT);
    check_ints("ints from the left", whole, wanted_ints, 9);

    done();
    MPI_Finalize();
    return 0;
}
