/* MUMPS: a tridiagonal system whose solution is 1, 2, ...; the matrix is spread over all ranks. */
#include <dmumps_c.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 200

int main(int argc, char **argv)
{
    int rank, size, right = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    DMUMPS_STRUC_C id = {.comm_fortran = MPI_Comm_c2f(MPI_COMM_WORLD), .par = 1, .sym = 0, .job = -1};
    dmumps_c(&id);
    static MUMPS_INT row[3 * N], column[3 * N];
    static double value[3 * N], side[N];
    MUMPS_INT8 entries = 0;
    for (int i = 0; i < N; i++) {
        for (int j = i - 1; j <= i + 1; j++) {
            if (j < 0 || j >= N || i % size != rank) continue;
            row[entries] = i + 1, column[entries] = j + 1, value[entries++] = i == j ? 4 : -1;
        }
        side[i] = 4 * (i + 1) - i - (i + 2 <= N ? i + 2 : 0);
    }
    id.n = N, id.nnz_loc = entries, id.irn_loc = row, id.jcn_loc = column, id.a_loc = value;
    if (rank == 0) id.rhs = side;
    id.icntl[0] = id.icntl[1] = id.icntl[2] = -1, id.icntl[3] = 0; /* quiet */
    id.icntl[17] = 3;                                              /* the matrix is spread */
    id.job = 6;
    dmumps_c(&id);
    right = id.infog[0] == 0;
    for (int i = 0; rank == 0 && i < N; i++) right = right && fabs(side[i] - (i + 1)) < 1e-9;
    id.job = -2;
    dmumps_c(&id);
    printf("rank %d of %d: %s\n", rank, size, right ? "right" : "wrong");
    MPI_Finalize();
    return !right;
}
