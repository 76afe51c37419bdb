/* The twin of p2p_ssend.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char out[64], into[64], again[64], wanted[64];
    int flag, half, right, left;
    MPI_Request request;
    MPI_Status status;
    begin(&argc, &argv);

    octets(out, 64, "ssend/%d", rank);
    octets(wanted, 64, "ssend/%d", FROM);
    MPI_Issend(out, 64, MPI_BYTE, TO, 50, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Test(&request, &flag, &status);
    check_true("not complete while no proc receives", !flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(into, 64, MPI_BYTE, FROM, 50, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, &status);
    check_octets("octets", into, wanted, 64);

    memset(again, 0, 64);
    for (half = 0; half < 2; half++) {
        if ((rank < size / 2) == (half == 0))
            MPI_Ssend(out, 64, MPI_BYTE, TO, 51, MPI_COMM_WORLD);
        else
            MPI_Recv(again, 64, MPI_BYTE, FROM, 51, MPI_COMM_WORLD, &status);
    }
    check_octets("octets of Ssend", again, wanted, 64);

    /* Inside a client it waits, too. */
    for (right = (rank + 1) % size; the.client[right] != the.client[rank]; right = (right + 1) % size)
        ;
    for (left = (rank + size - 1) % size; the.client[left] != the.client[rank]; left = (left + size - 1) % size)
        ;
    octets(wanted, 64, "ssend/%d", left);
    MPI_Issend(out, 64, MPI_BYTE, right, 52, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Test(&request, &flag, &status);
    check_true("not complete inside the client while no proc receives", !flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(into, 64, MPI_BYTE, left, 52, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, &status);
    check_octets("octets inside the client", into, wanted, 64);

    done();
    MPI_Finalize();
    return 0;
}
