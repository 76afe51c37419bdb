/* The twin of coll_reduce.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int root, r, i, mine[12], other[12], sum[12], result[12];
    char what[32];
    begin(&argc, &argv);

    numbers(mine, 12, "reduce/%d", rank);
    memset(sum, 0, sizeof sum);
    for (r = 0; r < size; r++) {
        numbers(other, 12, "reduce/%d", r);
        for (i = 0; i < 12; i++)
            sum[i] += other[i];
    }
    for (root = 0; root < size; root++) {
        memset(result, 0, sizeof result);
        MPI_Reduce(mine, result, 12, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        snprintf(what, sizeof what, "sum to %d", root);
        if (rank == root)
            check_ints(what, result, sum, 12);
    }

    done();
    MPI_Finalize();
    return 0;
}
