/* Embeds Python: argv[1] says whether it starts it "before" or "after" MPI_Init, argv[2] whether it ends it
   "before" or "after" MPI_Finalize, or "never"; argv[1] "unasked": it only asks whether there is one. */
#include <Python.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *begin = argv[1], *end = argv[2];
    int rank, sum;
    if (!strcmp(begin, "before")) Py_Initialize();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(begin, "before")) {
        printf("rank %d: there %d\n", rank, Py_IsInitialized());
        fflush(stdout);
    }
    if (!strcmp(begin, "after")) Py_Initialize();
    if (strcmp(begin, "unasked")) {
        char code[200];
        snprintf(code, sizeof code, "x = 6 * 7\nprint('rank %d: Python says', x)", rank); /* no flush: its end writes it */
        PyRun_SimpleString(code);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(end, "before") && Py_IsInitialized()) Py_Finalize();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (!strcmp(end, "after") && Py_IsInitialized()) Py_Finalize();
    printf("rank %d: sum %d, there %d\n", rank, sum, Py_IsInitialized());
    return 0;
}
