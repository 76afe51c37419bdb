/* The twin of reduce_ops.py. */
#include "report.h"

enum { MAX, MIN, SUM, PROD, LAND, BAND, LOR, BOR, LXOR, BXOR, OPS };

static int combined(int op, int a, int b)
{
    switch (op) {
    case MAX: return a > b ? a : b;
    case MIN: return a < b ? a : b;
    case SUM: return a + b;
    case PROD: return a * b;
    case LAND: return a && b;
    case BAND: return a & b;
    case LOR: return a || b;
    case BOR: return a | b;
    case LXOR: return !a != !b;
    default: return a ^ b;
    }
}

int main(int argc, char **argv)
{
    static const char *const names[OPS] = {"MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR"};
    const MPI_Op ops[OPS] = {MPI_MAX,  MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND,
                             MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR};
    int op, r, i, (*every)[6], mine[6], total[6], expected[6];
    begin(&argc, &argv);

    every = room(sizeof *every * (size_t)size);
    for (op = 0; op < OPS; op++) {
        for (r = 0; r < size; r++) {
            numbers(every[r], 6, "ops/%d", r);
            for (i = 0; i < 6; i++) {
                every[r][i] = op == PROD ? every[r][i] % 7 : every[r][i];
                expected[i] = r ? combined(op, expected[i], every[r][i]) : every[r][i];
            }
        }
        memcpy(mine, every[rank], sizeof mine);
        memset(total, 0, sizeof total);
        MPI_Allreduce(mine, total, 6, MPI_INT, ops[op], MPI_COMM_WORLD);
        check_ints(names[op], total, expected, 6);
    }

    done();
    MPI_Finalize();
    return 0;
}
