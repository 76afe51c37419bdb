/* The twin of p2p_buffered.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char data[500], into[500];
    void *space;
    int i, length = 3 * (500 + MPI_BSEND_OVERHEAD);
    char what[32];
    MPI_Request request;
    MPI_Status status;
    begin(&argc, &argv);

    MPI_Buffer_attach(room((size_t)length), length);
    for (i = 0; i < 3; i++) {
        octets(data, 500, "buffered/%d/%d", i, rank);
        MPI_Bsend(data, 500, MPI_BYTE, TO, 88, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 3; i++) {
        MPI_Recv(into, 500, MPI_BYTE, FROM, 88, MPI_COMM_WORLD, &status);
        octets(data, 500, "buffered/%d/%d", i, FROM);
        snprintf(what, sizeof what, "buffered %d", i);
        check_octets(what, into, data, 500);
    }
    MPI_Buffer_detach(&space, &length);
    MPI_Irecv(into, 40, MPI_BYTE, FROM, 89, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    octets(data, 40, "ready/%d", rank);
    MPI_Rsend(data, 40, MPI_BYTE, TO, 89, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    octets(data, 40, "ready/%d", FROM);
    check_octets("ready", into, data, 40);

    done();
    MPI_Finalize();
    return 0;
}
