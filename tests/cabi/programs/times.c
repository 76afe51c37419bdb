/* MPI at odd times: -DIN_CONSTRUCTOR: begun before main, ended after it; -DAT_EXIT: ended by a handler of
   exit, which is registered before MPI_Init with -DEARLY too. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void add(const char *when)
{
    int rank, sum;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %s, sum %d\n", rank, when, sum);
}

#ifdef IN_CONSTRUCTOR
__attribute__((constructor)) static void begin(void) { MPI_Init(NULL, NULL); }
__attribute__((destructor)) static void end(void)
{
    add("last");
    MPI_Finalize();
}

int main(void)
{
    add("main");
    return 0;
}
#else
static void last(void)
{
    add("last");
    MPI_Finalize();
}

int main(int argc, char **argv)
{
#ifdef EARLY
    atexit(last);
#endif
    MPI_Init(&argc, &argv);
#ifndef EARLY
    atexit(last);
#endif
    add("main");
    return 0;
}
#endif
