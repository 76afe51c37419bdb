/* Point-to-point, collectives and types in C: each rank prints one line, the same whatever runs it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("rank %d: wrong: %s\n", rank, what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 9); } } while (0)

static void furthest(void *in, void *inout, int *count, MPI_Datatype *type)
{
    double *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *count; i++) if (a[i] > b[i]) b[i] = a[i];
}

static int copied, deleted;
static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{ (void)comm; (void)key; copied++; *(void **)out = (char *)in + *(int *)extra; *flag = 1; return MPI_SUCCESS; }
static int drop(MPI_Comm comm, int key, void *value, void *extra)
{ (void)comm; (void)key; (void)value; (void)extra; deleted++; return MPI_SUCCESS; }

static int errors;
static void note(MPI_Comm *comm, int *code, ...) { (void)comm; (void)code; errors++; }

int main(int argc, char **argv)
{
    int rank, size, flag, count;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Status status;

    double out[3] = {rank, 0.5, -1}, in[4] = {-9, -9, -9, -9};
    MPI_Sendrecv(out, 3, MPI_DOUBLE, right, 7, in, 4, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK("status", status.MPI_SOURCE == left && status.MPI_TAG == 7 && count == 3 && in[0] == left && in[3] == -9);

    enum { LONG = 200000 };
    int *big = malloc(LONG * sizeof *big), *got = malloc(LONG * sizeof *got);
    for (int i = 0; i < LONG; i++) big[i] = rank * 1000 + i;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(got, LONG, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(big, LONG, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK("long", got[LONG - 1] == left * 1000 + LONG - 1 && requests[0] == MPI_REQUEST_NULL);
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    CHECK("count of long", count == LONG);

    MPI_Datatype column;
    int matrix[4][3] = {{0}}, line[4] = {-1, -1, -1, -1};
    for (int i = 0; i < 4; i++) matrix[i][1] = 10 * rank + i;
    MPI_Type_vector(4, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(&matrix[0][1], 1, column, right, 2, line, 4, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK("vector", line[3] == 10 * left + 3);
    MPI_Type_free(&column);
    CHECK("freed", column == MPI_DATATYPE_NULL);

    long sum = 0, one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK("allreduce", sum == (long)size * (size + 1) / 2);
    MPI_Op op;
    double far = rank, most = -1;
    MPI_Op_create(furthest, 1, &op);
    MPI_Allreduce(&far, &most, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    CHECK("own operation", most == size - 1);

    int *all = malloc(size * sizeof *all), *counts = malloc(size * sizeof *counts), *displs = malloc(size * sizeof *displs);
    for (int i = 0; i < size; i++) counts[i] = 1, displs[i] = size - 1 - i;
    MPI_Allgatherv(&rank, 1, MPI_INT, all, counts, displs, MPI_INT, MPI_COMM_WORLD);
    CHECK("allgatherv", all[size - 1 - rank] == rank && all[0] == size - 1);
    for (int i = 0; i < size; i++) all[i] = rank;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK("alltoall in place", all[right] == right);
    MPI_Gather(&rank, 1, MPI_INT, rank ? NULL : all, rank ? -1 : 1, rank ? MPI_DATATYPE_NULL : MPI_INT, 0, MPI_COMM_WORLD);
    CHECK("gather", rank || all[size - 1] == size - 1);

    MPI_Comm half, twice;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int place, members;
    MPI_Comm_rank(half, &place);
    MPI_Comm_size(half, &members);
    CHECK("split", members == (size + 1 - rank % 2) / 2 && place == members - 1 - rank / 2);
    int key, shift = 4;
    MPI_Comm_create_keyval(copy, drop, &key, &shift);
    MPI_Comm_set_attr(half, key, &matrix[0][0]);
    MPI_Comm_dup(half, &twice);
    void *value = NULL;
    MPI_Comm_get_attr(twice, key, &value, &flag);
    CHECK("attribute", flag && value == (char *)&matrix[0][0] + 4 && copied == 1);
    MPI_Comm_free(&twice);
    MPI_Comm_free(&half);
    CHECK("deleted", deleted == 2 && half == MPI_COMM_NULL);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    CHECK("tag ub", flag && *(int *)value >= 32767);

    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    int code = MPI_Send(&rank, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD), class = 0, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK("own handler", errors == 1 && class == MPI_ERR_RANK && length == (int)strlen(text) && length > 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);

    printf("rank %d of %d: right, sum %ld\n", rank, size, sum);
    free(big), free(got), free(all), free(counts), free(displs);
    MPI_Finalize();
    return 0;
}
