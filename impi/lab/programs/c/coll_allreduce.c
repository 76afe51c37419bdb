/* The twin of coll_allreduce.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int r, i, mine[8], other[8], sum[8], result[8];
    double own[8], largest[8], most[8];
    begin(&argc, &argv);

    numbers(mine, 8, "allreduce/%d", rank);
    memset(sum, 0, sizeof sum);
    for (i = 0; i < 8; i++)
        most[i] = -1;
    for (r = 0; r < size; r++) {
        numbers(other, 8, "allreduce/%d", r);
        for (i = 0; i < 8; i++) {
            sum[i] += other[i];
            most[i] = other[i] > most[i] ? other[i] : most[i];
        }
    }
    MPI_Allreduce(mine, result, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check_ints("sum", result, sum, 8);
    for (i = 0; i < 8; i++)
        own[i] = mine[i];
    MPI_Allreduce(own, largest, 8, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    check_doubles("maximum", largest, most, 8);

    done();
    MPI_Finalize();
    return 0;
}
