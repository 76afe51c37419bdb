/* A program that is not position-independent has a copy of environ, and libraries see only that. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

int main(int argc, char **argv)
{
    int rank, many = 0;
    setenv("BEFORE", "1", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "N%d", i);
        setenv(name, "1", 1); /* makes other rows of variables */
    }
    while (environ[many]) many++;
    printf("rank %d: %s\n", rank, many > 1000 && getenv("BEFORE") && getenv("N999") ? "right" : "wrong");
    MPI_Finalize();
    return 0;
}
