/* The twin of shutdown_abort.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int i;
    char into[8];
    MPI_Status status;
    begin(&argc, &argv);

    check_int("size of MPI_COMM_WORLD", size, planned_size());
    done();
    if (rank < size - 1)
        MPI_Send(into, 0, MPI_BYTE, size - 1, 71, MPI_COMM_WORLD);
    else {
        for (i = 0; i < size - 1; i++) /* all have reported */
            MPI_Recv(into, 0, MPI_BYTE, i, 71, MPI_COMM_WORLD, &status);
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    MPI_Recv(into, 8, MPI_BYTE, size - 1, 70, MPI_COMM_WORLD, &status); /* which will never come */
    return 0;
}
