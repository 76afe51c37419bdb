/* Ends of a program: argv[1] says how. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "well";
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("printed by rank %d", rank); /* no newline: it stays in C's buffer */
    if (rank == 0 && !strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (rank == 0 && !strcmp(how, "exit")) exit(3);
    if (rank == 0 && !strcmp(how, "return")) return 0;
    if (rank == 0 && !strcmp(how, "fatal")) MPI_Send(NULL, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
    if (rank == 0 && !strcmp(how, "fatal-self")) MPI_Send(NULL, 1, MPI_INT, 0, -5, MPI_COMM_SELF);
    if (rank == 0 && !strcmp(how, "lacking")) { MPI_Abi_set_fortran_info(MPI_INFO_NULL); }
    if (rank == 0 && !strcmp(how, "interrupt")) {
        fflush(stdout);
        raise(SIGINT); /* a program without a handler ends by it, also while it computes */
    }
    if (!strcmp(how, "pipe")) {
        int ends[2];
        if (pipe(ends) || close(ends[0]) || write(ends[1], "x", 1) != -1) return 1;
        /* A child has the default, which ends it by the signal. */
        if (WTERMSIG(system("kill -PIPE $$; exit 0")) != SIGPIPE) return 2;
    }
    MPI_Finalize();
    return !strcmp(how, "after") ? 4 : 0;
}
