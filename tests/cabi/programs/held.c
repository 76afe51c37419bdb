/* An extension that waits, with Python's lock, for a thread of its own that calls MPI. It gives up at last, so that
   the program can end. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <time.h>

static void *talk(void *nothing)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Comm_free(&copy);
    return nothing;
}

int hold(int seconds)
{
    pthread_t thread;
    struct timespec until;
    pthread_create(&thread, NULL, talk, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    return pthread_timedjoin_np(thread, NULL, &until);
}
