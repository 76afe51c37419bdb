/* What mpi4py's own tests found over our library: each function here was wrong once. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int errors;

#define CHECK(condition) do { if (!(condition)) { errors++; printf("line %d: %s\n", __LINE__, #condition); } } while (0)

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Messages that Mprobe has matched: their parameter has the name of a function of ours. */
static void matched(void)
{
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int sent = 7, got = 0;
    MPI_Isend(&sent, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request);
    MPI_Mprobe(0, 3, MPI_COMM_SELF, &message, &status);
    CHECK(status.MPI_TAG == 3);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(got == 7 && message == MPI_MESSAGE_NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_SELF, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
}

/* Partitioned messages, whose number of partitions is used twice. */
static void partitioned(void)
{
    MPI_Request requests[2];
    int sent[4] = {1, 2, 3, 4}, got[4] = {0};
    MPI_Psend_init(sent, 2, 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(got, 2, 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 1, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(!memcmp(sent, got, sizeof sent));
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void handlers(void)
{
    MPI_Errhandler handler;
    MPI_Group group;
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_remote_group(MPI_COMM_NULL, &group)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_remote_group(MPI_COMM_WORLD, &group)) == MPI_ERR_COMM);
}

static int query(void *extra, MPI_Status *status) { return MPI_ERR_BUFFER; }
static int release(void *extra) { return MPI_SUCCESS; }
static int cancel(void *extra, int complete) { return MPI_SUCCESS; }

/* A request that is gone although its call has failed, and the status of none. */
static void requests(void)
{
    MPI_Request request;
    MPI_Status status;
    int index, flag;
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_BUFFER);
    CHECK(request == MPI_REQUEST_NULL);
    memset(&status, 0x5a, sizeof status);
    MPI_Testany(1, &request, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED && status.MPI_ERROR == MPI_SUCCESS && status.MPI_SOURCE == MPI_ANY_SOURCE);
}

static void windows(void)
{
    MPI_Win win;
    int *found, flag;
    char region[8], *memory;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &found, &flag);
    CHECK(flag && *found == MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &found, &flag);
    CHECK(flag && (*found == MPI_WIN_UNIFIED || *found == MPI_WIN_SEPARATE));
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &found, &flag);
    CHECK(flag && *found == MPI_WIN_FLAVOR_DYNAMIC);
    MPI_Win_attach(win, region, sizeof region);
    CHECK(MPI_Win_detach(win, region) == MPI_SUCCESS);
    MPI_Win_free(&win);
}

/* Blocks without elements may be displaced to anywhere. */
static void blocks(int size)
{
    int none[16] = {0}, far[16], here = 0;
    for (int i = 0; i < size; i++) far[i] = 1000 + i;
    CHECK(MPI_Alltoallv(&here, none, far, MPI_INT, &here, none, far, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    matched();
    partitioned();
    handlers();
    requests();
    windows();
    blocks(size);
    printf("rank %d: %d errors\n", rank, errors);
    MPI_Finalize();
    return 0;
}
