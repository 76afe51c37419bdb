/* The twin of p2p_null_self.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int zeros[3] = {0, 0, 0}, into[3] = {7, 7, 7}, own[3], wanted[3], found[5], planned[5] = {7, 7, 7, MPI_PROC_NULL, 0};
    MPI_Status status;
    begin(&argc, &argv);

    MPI_Sendrecv(zeros, 3, MPI_INT, MPI_PROC_NULL, 5, into, 3, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
    memcpy(found, into, sizeof into);
    found[3] = status.MPI_SOURCE;
    MPI_Get_count(&status, MPI_INT, &found[4]);
    check_ints("message of MPI_PROC_NULL", found, planned, 5);
    numbers(own, 3, "self/%d", rank);
    MPI_Sendrecv(own, 3, MPI_INT, rank, 5, into, 3, MPI_INT, rank, 5, MPI_COMM_WORLD, &status);
    check_ints("own message", into, own, 3);
    memset(into, 0, sizeof into);
    MPI_Sendrecv(own, 3, MPI_INT, 0, 5, into, 3, MPI_INT, 0, 5, MPI_COMM_SELF, &status);
    check_ints("on MPI_COMM_SELF", into, own, 3);
    MPI_Sendrecv(own, 3, MPI_INT, TO, 5, into, 3, MPI_INT, FROM, 5, MPI_COMM_WORLD, &status);
    numbers(wanted, 3, "self/%d", FROM);
    check_ints("across", into, wanted, 3);

    done();
    MPI_Finalize();
    return 0;
}
