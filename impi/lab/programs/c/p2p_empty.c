/* The twin of p2p_empty.py. */
#include "report.h"

int main(int argc, char **argv)
{
    double nothing[1], into[1];
    int i, flag, count, *bound, found[2], tags[16], planned[2] = {0, 0};
    char what[64];
    MPI_Status status;
    begin(&argc, &argv);

    count = parameters("tags", tags, 16);
    for (i = 0; i < count; i++) {
        MPI_Sendrecv(nothing, 0, MPI_DOUBLE, TO, tags[i], into, 0, MPI_DOUBLE, FROM, tags[i], MPI_COMM_WORLD, &status);
        found[0] = status.MPI_TAG;
        MPI_Get_count(&status, MPI_DOUBLE, &found[1]);
        planned[0] = tags[i];
        snprintf(what, sizeof what, "tag %d", tags[i]);
        check_ints(what, found, planned, 2);
    }
    MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    check_true("MPI_TAG_UB", flag && *bound >= tags[count - 1]);

    done();
    MPI_Finalize();
    return 0;
}
