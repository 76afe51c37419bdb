/* Calls at the edge of MPI's rules: what programs of others do and those of impi's own tests did not. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int errors;

#define CHECK(condition) do { if (!(condition)) { errors++; printf("line %d: %s\n", __LINE__, #condition); } } while (0)

static int refuse_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    *flag = 1;
    return MPI_ERR_OTHER;
}

static int allowed; /* whether values may be deleted */

static int refuse_delete(MPI_Comm comm, int key, void *value, void *extra) { return allowed ? MPI_SUCCESS : MPI_ERR_OTHER; }

static int refuse_delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    return allowed ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Functions of attributes that fail: the value stays, and the new handle is null. */
static void attributes(void)
{
    MPI_Comm comm, other = MPI_COMM_WORLD;
    MPI_Datatype type;
    int key, flag, mark;
    void *found;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(refuse_copy, refuse_delete, &key, NULL);
    MPI_Comm_set_attr(comm, key, &mark);
    CHECK(MPI_Comm_dup(comm, &other) != MPI_SUCCESS);
    CHECK(other == MPI_COMM_NULL);
    CHECK(MPI_Comm_delete_attr(comm, key) != MPI_SUCCESS);
    MPI_Comm_get_attr(comm, key, &found, &flag);
    CHECK(flag && found == &mark);
    allowed = 1;
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    MPI_Comm_free_keyval(&key);

    /* An error without a communicator: MPI_COMM_WORLD's handler, if MPI_COMM_SELF's is fatal. */
    allowed = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, refuse_delete_type, &key, NULL);
    MPI_Type_set_attr(type, key, &mark);
    CHECK(MPI_Type_delete_attr(type, key) != MPI_SUCCESS);
    allowed = 1;
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&key);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Pairs with a gap behind the index: the last one's is not MPI's to touch. */
static void pairs(int rank, int size)
{
    struct pair { double value; int index; } in[2], out[2];
    int i;
    for (i = 0; i < 2; i++) { in[i].value = rank * (i ? -1 : 1); in[i].index = rank; }
    memset(out, 0x55, sizeof out);
    MPI_Allreduce(in, out, 2, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(out[0].value == size - 1 && out[0].index == size - 1);
    CHECK(out[1].value == 0 && out[1].index == 0);
    CHECK(*((int *)&out[1].index + 1) == 0x55555555);
    in[0].value = size + 1;
    MPI_Reduce_local(in, out, 2, MPI_DOUBLE_INT, MPI_MAXLOC);
    CHECK(out[0].value == size + 1 && out[0].index == rank && out[1].index == 0);
    CHECK(*((int *)&out[1].index + 1) == 0x55555555);
}

static void cancelled(int rank)
{
    MPI_Request request;
    MPI_Status status;
    char buffer[MPI_BSEND_OVERHEAD + 64];
    int value = 7, flag, size;
    void *detached;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && request == MPI_REQUEST_NULL);
    /* A buffered send is complete: cancelling it has no effect. */
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Ibsend(&value, 1, MPI_INT, rank, 98, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    if (!flag) MPI_Recv(&value, 1, MPI_INT, rank, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value == 7);
    MPI_Buffer_detach(&detached, &size);
}

static void statuses(void)
{
    const MPI_Count counts[] = {0, 60, 1ll << 31, 0x3654321f71234567, 0x7654321f71234567, 0x7654321ff1234567};
    MPI_Status status;
    MPI_Count found;
    int flag;
    size_t i;
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        MPI_Status_set_cancelled(&status, 0);
        MPI_Status_set_elements_x(&status, MPI_BYTE, counts[i]);
        MPI_Get_elements_x(&status, MPI_BYTE, &found);
        MPI_Test_cancelled(&status, &flag);
        CHECK(found == counts[i] && !flag);
    }
}

/* A communicator inside one client has the client's own collectives: with blocks of several elements. */
static void local(int world_rank)
{
    enum { N = 3, MOST = 16 };
    int mine[N * MOST], all[N * MOST], rank, size, i, root;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, 0, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (i = 0; i < N * size; i++) mine[i] = 100 * rank + i;
    MPI_Allgather(mine, N, MPI_INT, all, N, MPI_INT, comm);
    for (i = 0; i < N * size; i++) CHECK(all[i] == 100 * (i / N) + i % N);
    MPI_Alltoall(mine, N, MPI_INT, all, N, MPI_INT, comm);
    for (i = 0; i < N * size; i++) CHECK(all[i] == 100 * (i / N) + rank * N + i % N);
    MPI_Reduce_scatter_block(mine, all, N, MPI_INT, MPI_MAX, comm);
    for (i = 0; i < N; i++) CHECK(all[i] == 100 * (size - 1) + rank * N + i);
    for (root = 0; root < size; root++) {
        memset(all, 0, sizeof all);
        MPI_Gather(mine, N, MPI_INT, all, N, MPI_INT, root, comm);
        if (rank == root) for (i = 0; i < N * size; i++) CHECK(all[i] == 100 * (i / N) + i % N);
        MPI_Scatter(mine, N, MPI_INT, all, N, MPI_INT, root, comm);
        for (i = 0; i < N; i++) CHECK(all[i] == 100 * root + rank * N + i);
    }
    MPI_Comm_free(&comm);
}

/* A datatype that is freed belongs to a persistent request and to messages under way as before. */
static void freed_types(int rank, int size)
{
    int sent[4] = {rank, -1, rank + 10, -1}, got[4] = {-2, -2, -2, -2}, i;
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Recv_init(got, 1, type, (rank + size - 1) % size, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(sent, 1, type, (rank + 1) % size, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);
    for (i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
    CHECK(got[0] == (rank + size - 1) % size && got[1] == -2 && got[2] == got[0] + 10 && got[3] == -2);
}

static void others(void)
{
    MPI_Comm graph;
    char name[MPI_MAX_OBJECT_NAME];
    int length, in, out, weighted;
    MPI_Type_get_name(MPI_LONG_LONG_INT, name, &length);
    CHECK(!strcmp(name, "MPI_LONG_LONG_INT"));
    int *volatile empty = MPI_WEIGHTS_EMPTY; /* volatile: some headers make compilers doubt the constant */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, empty, 0, NULL, empty, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(!in && !out && weighted);
    MPI_Comm_free(&graph);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    attributes();
    pairs(rank, size);
    cancelled(rank);
    statuses();
    local(rank);
    freed_types(rank, size);
    others();
    MPI_Finalize();
    printf("rank %d: %d errors\n", rank, errors);
    return errors > 0;
}
