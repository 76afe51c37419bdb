/* The twin of startup_key.py. */
#include "report.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    check_int("size of MPI_COMM_WORLD", size, planned_size());
    done();
    MPI_Finalize();
    return 0;
}
