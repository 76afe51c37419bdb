/* The twin of p2p_persistent.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int out[30], into[30], wanted[30], turn, i;
    char what[32];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    begin(&argc, &argv);

    MPI_Recv_init(into, 30, MPI_INT, FROM, 86, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend_init(out, 30, MPI_INT, TO, 86, MPI_COMM_WORLD, &requests[1]);
    for (turn = 0; turn < 3; turn++) {
        numbers(out, 30, "persistent/%d/%d", turn, rank);
        for (i = 0; i < 2; i++)
            MPI_Start(&requests[i]);
        MPI_Waitall(2, requests, statuses);
        numbers(wanted, 30, "persistent/%d/%d", turn, FROM);
        snprintf(what, sizeof what, "turn %d", turn);
        check_ints(what, into, wanted, 30);
    }
    for (i = 0; i < 2; i++)
        MPI_Request_free(&requests[i]);

    done();
    MPI_Finalize();
    return 0;
}
