/* The twin of shutdown_finalize.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char data[100];
    int flag;
    begin(&argc, &argv);

    if (rank == 0) {
        octets(data, 100, "finalize/unmatched");
        MPI_Send(data, 100, MPI_BYTE, size - 1, 77, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Initialized(&flag);
    check_true("MPI is initialised", flag);
    done();
    MPI_Finalize();
    return 0;
}
