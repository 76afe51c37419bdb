/* Heat on a plate of two halves, each a program of its own: left and right, coupled as preCICE does it.

       plate left|right FOLDER [POINTS [STEPS]]        plate whole - [POINTS [STEPS]]

   Each half has its own MPI_COMM_WORLD. Every rank has some rows. A rank of the left half opens a port and
   writes its name into FOLDER; the ranks of the right half that have some of its rows read it and connect. Each
   pair of ranks so has an intercommunicator. "whole" computes both halves in one program: its heat is the sum
   of theirs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int first, end; /* rows that both ranks have */
    MPI_Comm comm;
} Partner;

static int points = 60, steps = 200, rank, size;

static int begin_of(int who, int of) { return who * points / of; }

static void stop(const char *sentence, const char *word)
{
    fprintf(stderr, "plate: %s%s\n", sentence, word);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* The file of a port: another name until it is whole, since the reader waits for this one. */
static void publish(const char *folder, int who, const char *port)
{
    char path[1000], scratch[1010];
    snprintf(path, sizeof path, "%s/port-%d", folder, who);
    snprintf(scratch, sizeof scratch, "%s.new", path);
    FILE *file = fopen(scratch, "w");
    if (!file) stop("cannot write ", scratch);
    fprintf(file, "%d\n%s\n", size, port);
    fclose(file);
    rename(scratch, path);
}

/* Wait for the file of a port; returns how many ranks the other half has. */
static int look_up(const char *folder, int who, char *port)
{
    char path[1000];
    int procs;
    FILE *file;
    snprintf(path, sizeof path, "%s/port-%d", folder, who);
    while (!(file = fopen(path, "r"))) nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (fscanf(file, "%d %s", &procs, port) != 2) stop("no name of a port in ", path);
    fclose(file);
    return procs;
}

/* The left half: a port for each rank, which accepts until all of its rows have a partner. */
static int accept_all(const char *folder, Partner *partners)
{
    char port[MPI_MAX_PORT_NAME];
    int count = 0, rows = begin_of(rank + 1, size) - begin_of(rank, size);
    MPI_Open_port(MPI_INFO_NULL, port);
    publish(folder, rank, port);
    while (rows > 0) {
        MPI_Comm comm;
        int range[2];
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm);
        MPI_Recv(range, 2, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
        partners[count++] = (Partner){range[0], range[1], comm};
        rows -= range[1] - range[0];
    }
    MPI_Close_port(port);
    return count;
}

static int connect_all(const char *folder, Partner *partners)
{
    char port[MPI_MAX_PORT_NAME];
    int count = 0, others = look_up(folder, 0, port);
    for (int who = 0; who < others; who++) {
        int range[2] = {begin_of(rank, size), begin_of(rank + 1, size)};
        if (begin_of(who, others) > range[0]) range[0] = begin_of(who, others);
        if (begin_of(who + 1, others) < range[1]) range[1] = begin_of(who + 1, others);
        if (range[0] >= range[1]) continue;
        MPI_Comm comm;
        look_up(folder, who, port);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm);
        MPI_Send(range, 2, MPI_INT, 0, 0, comm);
        partners[count++] = (Partner){range[0], range[1], comm};
    }
    return count;
}

/* Give the column at the interface to those who have the same rows, and take theirs. */
static void exchange(Partner *partners, int count, const double *mine, double *theirs)
{
    MPI_Request requests[2 * count + 1];
    int first = begin_of(rank, size);
    for (int i = 0; i < count; i++) {
        int at = partners[i].first - first, rows = partners[i].end - partners[i].first;
        MPI_Irecv(theirs + at, rows, MPI_DOUBLE, 0, 1, partners[i].comm, &requests[2 * i]);
        MPI_Isend(mine + at, rows, MPI_DOUBLE, 0, 1, partners[i].comm, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
}

static double compute(int side, int columns, Partner *partners, int count)
{
    int first = begin_of(rank, size), rows = begin_of(rank + 1, size) - first, wide = columns + 2;
    double *now = calloc((size_t)(rows + 2) * wide, sizeof *now), *next = calloc((size_t)(rows + 2) * wide, sizeof *next);
    double mine[rows + 1], theirs[rows + 1], heat = 0, all = 0;
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++) now[i * wide + j] = side <= 0 && j <= points && first + i > points / 2 ? 1.0 : 0.0;
    for (int step = 0; step < steps; step++) {
        MPI_Sendrecv(now + wide, wide, MPI_DOUBLE, up, 2, now + (rows + 1) * wide, wide, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(now + rows * wide, wide, MPI_DOUBLE, down, 3, now, wide, MPI_DOUBLE, up, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int own = side < 0 ? columns : 1, halo = side < 0 ? columns + 1 : 0; /* columns at the interface */
        for (int i = 0; i < rows; i++) mine[i] = now[(i + 1) * wide + own];
        exchange(partners, count, mine, theirs);
        for (int i = 0; side && i < rows; i++) now[(i + 1) * wide + halo] = theirs[i];
        for (int i = 1; i <= rows; i++)
            for (int j = 1; j <= columns; j++) {
                double *at = now + i * wide + j;
                next[i * wide + j] = *at + 0.2 * (at[-1] + at[1] + at[-wide] + at[wide] - 4 * *at);
            }
        double *old = now;
        now = next, next = old;
    }
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++) heat += now[i * wide + j];
    MPI_Allreduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(now), free(next);
    return all;
}

int main(int argc, char **argv)
{
    int level, count = 0, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) stop("give left, right or whole, and the folder for names of ports", "");
    if (argc > 3) points = atoi(argv[3]);
    if (argc > 4) steps = atoi(argv[4]);
    if (points < size || steps < 1) stop("give a row for each rank, and some steps", "");
    int side = !strcmp(argv[1], "left") ? -1 : !strcmp(argv[1], "right");
    Partner *partners = calloc(points, sizeof *partners);
    if (side < 0) count = accept_all(argv[2], partners);
    if (side > 0) count = connect_all(argv[2], partners);
    double heat = compute(side, side ? points : 2 * points, partners, count);
    int connections;
    MPI_Reduce(&count, &connections, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = 0;
    if (!rank) printf("%s: heat %.9f, %d ranks, %d connections; %s\n", argv[1], heat, size, connections, library);
    for (int i = 0; i < count; i++) MPI_Comm_disconnect(&partners[i].comm);
    MPI_Finalize();
    return 0;
}
