/* Some threads of each process in blocking calls at once: messages between equal threads of all
   processes, collectives and communicators, each thread on a communicator of its own. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 6, LONG = 50000 };
static int rank, size, wrong;
static MPI_Comm comms[THREADS];

static void check(int right) { if (!right) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST); }

static void *work(void *argument)
{
    int number = (int)(long)argument;
    int *out = calloc(LONG, sizeof *out), *in = calloc(LONG, sizeof *in);
    for (int round = 0; round < ROUNDS; round++) {
        int count = round % 3 ? 1 : LONG;
        for (int other = 0; other < size; other++) {
            MPI_Request request;
            MPI_Status status;
            out[0] = out[count - 1] = 1000 * number + round;
            MPI_Isend(out, count, MPI_INT, other, number, MPI_COMM_WORLD, &request);
            MPI_Recv(in, count, MPI_INT, other, number, MPI_COMM_WORLD, &status);
            check(in[0] == 1000 * number + round && in[count - 1] == in[0] && status.MPI_SOURCE == other);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        int mine = rank + number, sum = 0, ranks;
        MPI_Comm made, part;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[number]);
        check(sum == size * (size - 1) / 2 + size * number);
        MPI_Comm_dup(comms[number], &made);
        MPI_Comm_split(comms[number], rank % 2, 0, &part);
        MPI_Comm_size(part, &ranks);
        sum = 0;
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, part);
        check(sum == number * ranks);
        MPI_Bcast(&mine, 1, MPI_INT, 0, made);
        check(mine == number);
        MPI_Barrier(made);
        MPI_Comm_free(&part);
        MPI_Comm_free(&made);
    }
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check(level == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(long)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    printf("rank %d of %d: %d wrong\n", rank, size, wrong);
    MPI_Finalize();
    return wrong != 0;
}
