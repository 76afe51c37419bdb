/* The usual operations in one job, in C: the measures of usual.py, with the same definitions and options.

   Compiled by each vendor's own mpicc, and by impicc for pure clients. Rank 0 prints one line of JSON. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 8192, MOST_SIZES = 16, MOST_WINDOW = 1024 };

static int iterations = 1000, skip = 100, window = 64;
static int rank, procs, results;

typedef struct {
    int count;
    int of[MOST_SIZES];
} list;

static list numbers(const char *text)
{
    list found = {0, {0}};
    char *end;
    while (*text && found.count < MOST_SIZES) {
        found.of[found.count++] = (int)strtol(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    return found;
}

static void tell(const char *name, int size, double value)
{
    if (rank == 0)
        printf("%s\"%s/%d\": %.9g", results++ ? ", " : "", name, size, value);
}

static double *made(size_t count, double value)
{
    double *array = malloc(count * sizeof *array);
    if (!array)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < count; i++)
        array[i] = value;
    return array;
}

/* Messages of more than LARGE octets are sent a tenth as often. */
static int often(int times, int size)
{
    int fewer = size > LARGE ? times / 10 : times;
    return fewer > 0 ? fewer : 1;
}

static double latency(int size)
{
    int count = size / 8 > 0 ? size / 8 : 1, peer = 1 - rank, skipped = often(skip, size), timed = often(iterations, size);
    double *out = made(count, 1), *into = made(count, 0), begin = 0;
    for (int i = 0; i < skipped + timed; i++) {
        if (i == skipped)
            begin = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(out, count, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(into, count, MPI_DOUBLE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(into, count, MPI_DOUBLE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, count, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD);
        }
    }
    double spent = MPI_Wtime() - begin;
    free(out);
    free(into);
    return spent / timed / 2 * 1e6;
}

static double rate(int size)
{
    int count = size / 8 > 0 ? size / 8 : 1, peer = 1 - rank, skipped = often(skip, size), timed = often(iterations, size);
    double *out = made(count, 1), *into = made(count, 0), begin = 0;
    char word[4] = {0};
    MPI_Request requests[MOST_WINDOW];
    for (int i = 0; i < skipped + timed; i++) {
        if (i == skipped)
            begin = MPI_Wtime();
        for (int k = 0; k < window; k++) {
            if (rank == 0)
                MPI_Isend(out, count, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(into, count, MPI_DOUBLE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[k]);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(word, 4, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(word, 4, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    double spent = MPI_Wtime() - begin;
    free(out);
    free(into);
    return (double)timed * window / spent;
}

static void call(int which, double *one, double *other, double *all, double *into, int count)
{
    switch (which) {
    case 0: MPI_Barrier(MPI_COMM_WORLD); break;
    case 1: MPI_Allreduce(one, other, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case 2: MPI_Bcast(one, count, MPI_DOUBLE, 0, MPI_COMM_WORLD); break;
    case 3: MPI_Allgather(one, count, MPI_DOUBLE, into, count, MPI_DOUBLE, MPI_COMM_WORLD); break;
    case 4: MPI_Alltoall(all, count, MPI_DOUBLE, into, count, MPI_DOUBLE, MPI_COMM_WORLD); break;
    }
}

static double collective(int which, int size)
{
    int count = size / 8 > 0 ? size / 8 : 1, skipped = often(skip, size), timed = often(iterations, size);
    double *one = made(count, 1), *other = made(count, 0), spent = 0, sum;
    double *all = made((size_t)count * procs, 1), *into = made((size_t)count * procs, 0);
    for (int i = 0; i < skipped + timed; i++) {
        double begin = MPI_Wtime();
        call(which, one, other, all, into, count);
        if (i >= skipped)
            spent += MPI_Wtime() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(one);
    free(other);
    free(all);
    free(into);
    return sum / procs / timed * 1e6;
}

static void pin(list cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (rank < cores.count) {
        CPU_SET(cores.of[rank], &set);
        sched_setaffinity(0, sizeof set, &set);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"Barrier", "Allreduce", "Bcast", "Allgather", "Alltoall"};
    list latencies = {0, {0}}, rates = {0, {0}}, sizes = {0, {0}}, cores = {0, {0}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            continue; /* the program always prints JSON */
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--iterations"))
            iterations = atoi(value);
        else if (!strcmp(argv[i], "--skip"))
            skip = atoi(value);
        else if (!strcmp(argv[i], "--latency"))
            latencies = numbers(value);
        else if (!strcmp(argv[i], "--rate"))
            rates = numbers(value);
        else if (!strcmp(argv[i], "--collectives"))
            sizes = numbers(value);
        else if (!strcmp(argv[i], "--pin"))
            cores = numbers(value);
        else {
            fprintf(stderr, "usual: there is no option %s\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        i++;
    }
    pin(cores);
    if (rank == 0)
        printf("IMPI-BENCH {");
    for (int i = 0; i < latencies.count && rank < 2; i++)
        tell("latency", latencies.of[i], latency(latencies.of[i]));
    for (int i = 0; i < rates.count && rank < 2; i++)
        tell("rate", rates.of[i], rate(rates.of[i]));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int which = 0; which < 5 && sizes.count; which++)
        for (int i = 0; i < (which ? sizes.count : 1); i++)
            tell(names[which], which ? sizes.of[i] : 0, collective(which, which ? sizes.of[i] : 8));
    if (rank == 0)
        printf("}\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
