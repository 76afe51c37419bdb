/* The twin of shutdown_exit_code.py. */
#include "report.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    check_int("size of MPI_COMM_WORLD", size, planned_size());
    done();
    MPI_Finalize();
    return rank == size - 1 ? 3 : 0;
}
