/* The twin of coll_bcast.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int root, i, values[40];
    double buffer[40], expected[40];
    char what[32];
    begin(&argc, &argv);

    for (root = 0; root < size; root++) {
        numbers(values, 40, "bcast/%d", root);
        for (i = 0; i < 40; i++) {
            expected[i] = values[i];
            buffer[i] = rank == root ? values[i] : 0;
        }
        MPI_Bcast(buffer, 40, MPI_DOUBLE, root, MPI_COMM_WORLD);
        snprintf(what, sizeof what, "bcast from %d", root);
        check_doubles(what, buffer, expected, 40);
    }

    done();
    MPI_Finalize();
    return 0;
}
