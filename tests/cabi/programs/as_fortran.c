/* What gfortran makes of calls to Open MPI's Fortran library; each rank prints one line. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("rank %d: wrong: %s\n", rank, what); fflush(stdout); mpi_abort_(&world, &nine, &error); } } while (0)

/* Of mpif.h. */
static int world = 0, two_integers = 25, integers = 7, sum = 3, minloc = 12, any_source = -1, return_errors = 2;
static int null_request = 0, undefined = -32766, tag_ub = 0;
int mpi_fortran_in_place_, mpi_fortran_bottom_, mpi_fortran_status_ignore_[6]; /* common blocks */

void mpi_init_(int *), mpi_finalize_(int *), mpi_abort_(int *, int *, int *);
void mpi_comm_rank_(int *, int *, int *), mpi_comm_size_(int *, int *, int *);
void mpi_allreduce_(void *, void *, int *, int *, int *, int *, int *);
void mpi_isend_(void *, int *, int *, int *, int *, int *, int *, int *);
void mpi_irecv_(void *, int *, int *, int *, int *, int *, int *, int *);
void mpi_send_(void *, int *, int *, int *, int *, int *, int *);
void mpi_recv_(void *, int *, int *, int *, int *, int *, int *, int *);
void mpi_waitany_(int *, int *, int *, int *, int *), mpi_waitsome_(int *, int *, int *, int *, int *, int *);
void mpi_op_create_(void (*)(int *, int *, int *, int *), int *, int *, int *);
void mpi_comm_create_keyval_(void *, void *, int *, intptr_t *, int *);
void mpi_comm_set_attr_(int *, int *, intptr_t *, int *);
void mpi_comm_get_attr_(int *, int *, intptr_t *, int *, int *);
void mpi_comm_delete_attr_(int *, int *, int *);
void mpi_attr_put_(int *, int *, int *, int *), mpi_attr_get_(int *, int *, int *, int *, int *);
void mpi_comm_create_errhandler_(void (*)(int *, int *, ...), int *, int *);
void mpi_comm_set_errhandler_(int *, int *, int *), mpi_comm_set_name_(int *, char *, int *, int);
void mpi_comm_get_name_(int *, char *, int *, int *, int);
void mpi_get_address_(void *, intptr_t *, int *), mpi_type_commit_(int *, int *);
void mpi_type_create_struct_(int *, int *, intptr_t *, int *, int *, int *);
void mpi_type_get_contents_(int *, int *, int *, int *, int *, intptr_t *, int *, int *);
void mpi_alltoallw_(void *, int *, int *, int *, void *, int *, int *, int *, int *, int *);
void mpi_comm_null_copy_fn_(void);

static int rank, procs, error, zero = 0, one = 1, two = 2, nine = 9, deletions, comm_seen = -1, types_right = 1;

static void add(int *in, int *inout, int *many, int *type)
{
    types_right &= *type == integers;
    for (int i = 0; i < *many; i++) inout[i] += in[i];
}
static void deleted(int *comm, int *key, intptr_t *value, intptr_t *extra, int *code)
{
    (void)key;
    deletions += *comm == world && *value == -5 && *extra == 100;
    *code = 0;
}
static void failed(int *comm, int *code, ...) { comm_seen = *code ? *comm : -2; }

static void messages(void)
{
    int tag = 3, next = (rank + 1) % procs, got = -1, index = -1, status[6], requests[2], indices[2], many;
    mpi_irecv_(&got, &one, &integers, &any_source, &tag, &world, &requests[1], &error);
    mpi_send_(&rank, &one, &integers, &next, &tag, &world, &error);
    requests[0] = null_request;
    mpi_waitany_(&two, requests, &index, status, &error);
    CHECK("waitany", index == 2 && got == status[0] && status[1] == tag && requests[1] == null_request);
    mpi_waitany_(&two, requests, &index, mpi_fortran_status_ignore_, &error);
    CHECK("waitany of none", index == undefined);
    mpi_isend_(&rank, &one, &integers, &next, &tag, &world, &requests[0], &error);
    mpi_recv_(&got, &one, &integers, &any_source, &tag, &world, mpi_fortran_status_ignore_, &error);
    int statuses[2][6];
    mpi_waitsome_(&two, requests, &many, indices, statuses[0], &error);
    CHECK("waitsome", many == 1 && indices[0] == 1);
}

static void reductions(void)
{
    int mine[2] = {procs - rank, rank}, found[2], op, all[2] = {1, rank};
    mpi_allreduce_(mine, found, &one, &two_integers, &minloc, &world, &error);
    CHECK("pairs", found[0] == 1 && found[1] == procs - 1);
    mpi_allreduce_(&mpi_fortran_in_place_, all, &two, &integers, &sum, &world, &error);
    CHECK("in place", all[0] == procs && all[1] == procs * (procs - 1) / 2);
    mpi_op_create_(add, &one, &op, &error);
    mpi_allreduce_(mine, found, &two, &integers, &op, &world, &error);
    CHECK("operation", types_right && found[1] == procs * (procs - 1) / 2);
}

static void attributes(void)
{
    int key, flag, small = 77, shown = 0;
    intptr_t value = -5, extra = 100, got = 0;
    mpi_comm_create_keyval_(mpi_comm_null_copy_fn_, deleted, &key, &extra, &error);
    mpi_comm_set_attr_(&world, &key, &value, &error);
    mpi_comm_get_attr_(&world, &key, &got, &flag, &error);
    CHECK("attribute", flag && got == -5);
    mpi_comm_delete_attr_(&world, &key, &error);
    CHECK("deletion", deletions == 1);
    mpi_attr_put_(&world, &key, &small, &error);
    mpi_attr_get_(&world, &key, &shown, &flag, &error);
    CHECK("old attribute", flag && shown == 77);
    mpi_comm_get_attr_(&world, &tag_ub, &got, &flag, &error);
    CHECK("MPI_TAG_UB", flag && got >= 32767);
}

static void types(void)
{
    int lengths[1] = {2}, kinds[1] = {integers}, pair, data[2] = {rank, rank + 1}, contents[2], inner[1] = {-1};
    intptr_t place[1], shown[1];
    mpi_get_address_(data, place, &error);
    mpi_type_create_struct_(&one, lengths, place, kinds, &pair, &error);
    mpi_type_commit_(&pair, &error);
    mpi_type_get_contents_(&pair, &two, &one, &one, contents, shown, inner, &error);
    CHECK("contents", contents[0] == 1 && contents[1] == 2 && shown[0] == place[0] && inner[0] == integers);
    int tag = 8, got[2], status[6], next = (rank + 1) % procs, request;
    mpi_isend_(&mpi_fortran_bottom_, &one, &pair, &next, &tag, &world, &request, &error);
    mpi_recv_(got, &two, &integers, &any_source, &tag, &world, status, &error);
    CHECK("bottom", got[0] == status[0] && got[1] == got[0] + 1);
    int row[8], counts[8], places[8], all[8];
    for (int i = 0; i < procs; i++) { row[i] = 10 * rank + i; counts[i] = 1; places[i] = 4 * i; all[i] = integers; }
    int came[8] = {0};
    mpi_alltoallw_(row, counts, places, all, came, counts, places, all, &world, &error);
    for (int i = 0; i < procs; i++) CHECK("alltoallw", came[i] == 10 * i + rank);
    int statuses[2][6], many, indices[1];
    mpi_waitsome_(&one, &request, &many, indices, statuses[0], &error);
}

int main(void)
{
    char name[12] = "  a name    ", shown[64];
    int length, handler;
    mpi_init_(&error);
    mpi_comm_rank_(&world, &rank, &error);
    mpi_comm_size_(&world, &procs, &error);
    messages();
    reductions();
    attributes();
    types();
    mpi_comm_set_name_(&world, name, &error, 12);
    mpi_comm_get_name_(&world, shown, &length, &error, 64);
    CHECK("name", length == 6 && memcmp(shown, "a name    ", 10) == 0 && shown[63] == ' ');
    mpi_comm_create_errhandler_(failed, &handler, &error);
    mpi_comm_set_errhandler_(&world, &handler, &error);
    mpi_send_(&rank, &one, &integers, &procs, &zero, &world, &error);
    CHECK("error handler", error && comm_seen == world);
    mpi_comm_set_errhandler_(&world, &return_errors, &error);
    printf("rank %d: right\n", rank);
    mpi_finalize_(&error);
    return 0;
}
