/* The twin of p2p_truncate.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char data[100], small[50], into[50];
    int found;
    MPI_Request request;
    MPI_Status status;
    begin(&argc, &argv);

    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    octets(data, 100, "truncate/%d", rank);
    MPI_Isend(data, 100, MPI_BYTE, TO, 90, MPI_COMM_WORLD, &request);
    found = MPI_Recv(small, 50, MPI_BYTE, FROM, 90, MPI_COMM_WORLD, &status);
    if (found != MPI_SUCCESS)
        MPI_Error_class(found, &found);
    check_int("class of the error", found, MPI_ERR_TRUNCATE);
    MPI_Wait(&request, &status);
    octets(data, 50, "truncate/next/%d", rank);
    MPI_Sendrecv(data, 50, MPI_BYTE, TO, 91, into, 50, MPI_BYTE, FROM, 91, MPI_COMM_WORLD, &status);
    octets(data, 50, "truncate/next/%d", FROM);
    check_octets("the next message", into, data, 50);

    done();
    MPI_Finalize();
    return 0;
}
