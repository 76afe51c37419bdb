/* What programs of others have found: each rank prints one line. */
#include <mpi.h>
#include <stdio.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("rank %d: wrong: %s\n", rank, what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 9); } } while (0)

struct gapped { double value; int place; };  /* four octets at its end belong to no element */

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct gapped *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *count; i++) if (a[i].value > b[i].value) b[i] = a[i];
}

int main(int argc, char **argv)
{
    int rank, size, flag;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    MPI_Request none = MPI_REQUEST_NULL, other;
    MPI_Status status;
    for (int i = 0; i < 3; i++) CHECK("wait for nothing", MPI_Wait(&none, &status) == MPI_SUCCESS && none == MPI_REQUEST_NULL);

    int never;
    MPI_Irecv(&never, 1, MPI_INT, rank, 99, MPI_COMM_WORLD, &other);
    CHECK("new request", other != MPI_REQUEST_NULL);
    MPI_Cancel(&other);
    MPI_Wait(&other, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK("cancel", flag && other == MPI_REQUEST_NULL);

    MPI_Message message;
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 98, MPI_COMM_WORLD, &other);
    MPI_Mprobe(MPI_ANY_SOURCE, 98, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&never, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK("matched message", message == MPI_MESSAGE_NULL && never == status.MPI_SOURCE);
    MPI_Wait(&other, MPI_STATUS_IGNORE);

    MPI_Comm half, between;
    int inter = -1, beyond;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 97, &between);
    MPI_Comm_test_inter(half, &flag);
    MPI_Comm_test_inter(between, &inter);
    MPI_Comm_remote_size(between, &beyond);
    CHECK("intercommunicator", flag == 0 && inter == 1 && beyond == (rank > 0 ? 1 : size - 1));
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);

    MPI_Datatype pair;
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, sizeof(double)};
    MPI_Datatype kinds[2] = {MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(2, lengths, places, kinds, &pair);
    MPI_Type_commit(&pair);
    MPI_Op op;
    MPI_Op_create(larger, 1, &op);
    struct gapped mine[2] = {{rank, rank}, {-rank, rank}}, all[2];
    MPI_Allreduce(mine, all, 2, pair, op, MPI_COMM_WORLD);
    CHECK("gapped", all[0].value == size - 1 && all[0].place == size - 1 && all[1].value == 0 && all[1].place == 0);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);

#if defined(OMPI_MAJOR_VERSION) || defined(MPICH_VERSION)
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    CHECK("numbers in Fortran", MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK("number of another", MPI_Comm_f2c(MPI_Comm_c2f(twin)) == twin && MPI_Comm_c2f(twin) > 2);
    CHECK("number of a type", MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
#ifdef OMPI_MAJOR_VERSION
    CHECK("Open MPI's numbers", MPI_Comm_c2f(MPI_COMM_WORLD) == 0 && MPI_Type_c2f(MPI_INTEGER) == 7);
#endif
    MPI_Comm_free(&twin);
#endif

    printf("rank %d of %d: right\n", rank, size);
    return MPI_Finalize();
}
