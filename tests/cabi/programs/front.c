/* What a program meets where some communicators, types and requests are the library's and some ours.

   Two clients of two ranks. "local" has the ranks of one client, in reverse order. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(what) do { if (!(what)) { printf("rank %d line %d: %s\n", rank, __LINE__, #what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank, size, called, ranks_in_op;

static void larger(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    int octets, me;
    MPI_Type_size(*datatype, &octets);
    MPI_Comm_rank(MPI_COMM_WORLD, &me); /* the program's world, from wherever it is called */
    if (me == rank && octets == sizeof(int)) ranks_in_op++;
    for (int i = 0; i < *count; i++) if (((int *)in)[i] > ((int *)inout)[i]) ((int *)inout)[i] = ((int *)in)[i];
}

static void noted(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    called += *comm != MPI_COMM_NULL && class == MPI_ERR_RANK;
}

int main(int argc, char **argv)
{
    MPI_Comm local, other;
    int local_rank, local_size, color;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    color = rank / 2;
    MPI_Comm_split(MPI_COMM_WORLD, color, -rank, &local);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &other);
    MPI_Comm_rank(local, &local_rank);
    MPI_Comm_size(local, &local_size);
    NEED(local_size == 2 && local_rank == 1 - rank % 2);
    const int mate = color * 2 + 1 - rank % 2, across = (rank + 2) % 4;

    /* one Waitall, Waitany and Testsome of requests of both kinds */
    int got[4] = {-1, -1, -1, -1}, number, index, indices[4], done = 0;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    for (int how = 0; how < 3; how++) {
        MPI_Irecv(&got[0], 1, MPI_INT, 1 - local_rank, 5, local, &requests[0]);
        MPI_Irecv(&got[1], 1, MPI_INT, across, 6, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&rank, 1, MPI_INT, 1 - local_rank, 5, local, &requests[2]);
        MPI_Isend(&rank, 1, MPI_INT, across, 6, MPI_COMM_WORLD, &requests[3]);
        if (how == 0) {
            MPI_Waitall(4, requests, statuses);
            NEED(statuses[0].MPI_SOURCE == 1 - local_rank && statuses[0].MPI_TAG == 5);
            NEED(statuses[1].MPI_SOURCE == across && statuses[1].MPI_TAG == 6);
            MPI_Get_count(&statuses[0], MPI_INT, &number);
            NEED(number == 1);
        } else if (how == 1) {
            for (int i = 0; i < 4; i++) { MPI_Waitany(4, requests, &index, statuses); NEED(index >= 0 && index < 4); }
        } else {
            while (done < 4) { MPI_Testsome(4, requests, &number, indices, statuses); done += number; }
        }
        for (int i = 0; i < 4; i++) NEED(requests[i] == MPI_REQUEST_NULL);
        NEED(got[0] == mate && got[1] == across);
    }

    /* persistent ones stay, in one Startall and Waitall */
    MPI_Recv_init(&got[0], 1, MPI_INT, 1 - local_rank, 7, local, &requests[0]);
    MPI_Recv_init(&got[1], 1, MPI_INT, across, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Send_init(&rank, 1, MPI_INT, 1 - local_rank, 7, local, &requests[2]);
    MPI_Send_init(&rank, 1, MPI_INT, across, 8, MPI_COMM_WORLD, &requests[3]);
    for (int i = 0; i < 3; i++) {
        got[0] = got[1] = -1;
        MPI_Startall(4, requests);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        NEED(got[0] == mate && got[1] == across);
    }
    for (int i = 0; i < 4; i++) { NEED(requests[i] != MPI_REQUEST_NULL); MPI_Request_free(&requests[i]); }

    /* a type of the library on both kinds of communicators; one of its handles used again */
    int matrix[4][4], column[4];
    for (int i = 0; i < 16; i++) matrix[i / 4][i % 4] = 100 * rank + i;
    for (int turn = 0; turn < 2; turn++) {
        MPI_Datatype vector, indexed, pair;
        MPI_Type_vector(4, 1, 4, MPI_INT, &vector);
        MPI_Type_create_resized(vector, 0, sizeof(int), &indexed);
        MPI_Type_commit(&indexed);
        MPI_Type_free(&vector);
        for (int way = 0; way < 2; way++) {
            MPI_Comm comm = way ? MPI_COMM_WORLD : local;
            int peer = way ? across : 1 - local_rank;
            MPI_Sendrecv(&matrix[0][1], 1, indexed, peer, 1, column, 4, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE);
            for (int i = 0; i < 4; i++) NEED(column[i] == 100 * (way ? across : mate) + 4 * i + 1);
        }
        MPI_Type_free(&indexed);
        MPI_Type_contiguous(2, MPI_SHORT, &pair); /* may have the handle of one that was freed */
        MPI_Type_commit(&pair);
        short two[2] = {(short)rank, 7}, theirs[2];
        MPI_Sendrecv(two, 1, pair, across, 2, theirs, 1, pair, across, 2, MPI_COMM_WORLD, &statuses[0]);
        MPI_Get_count(&statuses[0], pair, &number);
        NEED(number == 1 && theirs[0] == across && theirs[1] == 7);
        MPI_Type_free(&pair);
    }

    /* an operation of the program, an error handler, a buffered send */
    MPI_Op op;
    int most;
    MPI_Op_create(larger, 1, &op);
    MPI_Allreduce(&rank, &most, 1, MPI_INT, op, local);
    NEED(most == color * 2 + 1);
    MPI_Allreduce(&rank, &most, 1, MPI_INT, op, MPI_COMM_WORLD);
    NEED(most == size - 1);
    MPI_Op_free(&op);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(noted, &handler);
    MPI_Comm_set_errhandler(local, handler);
    MPI_Comm_set_errhandler(other, handler);
    MPI_Errhandler_free(&handler);
    MPI_Send(&rank, 1, MPI_INT, 99, 0, local);
    MPI_Send(&rank, 1, MPI_INT, 99, 0, other);
    NEED(called == 2);
    char room[4096], *detached;
    MPI_Buffer_attach(room, sizeof room);
    MPI_Bsend(&rank, 1, MPI_INT, 1 - local_rank, 3, local);
    MPI_Bsend(&rank, 1, MPI_INT, across, 3, MPI_COMM_WORLD);
    MPI_Recv(&got[0], 1, MPI_INT, 1 - local_rank, 3, local, MPI_STATUS_IGNORE);
    MPI_Recv(&got[1], 1, MPI_INT, across, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    NEED(got[0] == mate && got[1] == across);
    MPI_Buffer_detach(&detached, &number);
    NEED(detached == room && number == sizeof room);

    /* a rank that blocks in the library goes on serving: a long message across needs its sender */
    const int long_count = 1 << 20;
    int *octets = calloc(long_count, sizeof *octets);
    if (rank == 0) {
        octets[long_count - 1] = 11;
        MPI_Isend(octets, long_count, MPI_INT, 2, 9, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv(&got[0], 1, MPI_INT, 1 - local_rank, 9, local, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else if (rank == 2) {
        MPI_Recv(octets, long_count, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        NEED(octets[long_count - 1] == 11);
        MPI_Send(&rank, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&got[0], 1, MPI_INT, 2, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, 1 - local_rank, 9, local);
    }
    free(octets);

    /* groups, names, duplicates and attributes of a communicator that is the library's */
    MPI_Group world_group, local_group;
    int zero = 0, at, keyval, value = 3, *read, flag;
    MPI_Comm again;
    MPI_Comm_group(MPI_COMM_WORLD, &world_group);
    MPI_Comm_group(local, &local_group);
    MPI_Group_translate_ranks(local_group, 1, &zero, world_group, &at);
    NEED(at == color * 2 + 1);
    MPI_Group_free(&world_group);
    MPI_Group_free(&local_group);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(local, keyval, &value);
    MPI_Comm_dup(local, &again);
    MPI_Comm_get_attr(again, keyval, &read, &flag);
    NEED(flag && read == &value);
    MPI_Comm_compare(local, again, &flag);
    NEED(flag == MPI_CONGRUENT);
    MPI_Bcast(&value, 1, MPI_INT, 0, again);
    MPI_Comm_free(&again);
    MPI_Barrier(MPI_COMM_SELF);
    char *memory, text[8];
    MPI_Info info;
    MPI_Alloc_mem(64, MPI_INFO_NULL, &memory);
    memory[63] = 1;
    NEED(MPI_Free_mem(memory) == MPI_SUCCESS);
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Comm_dup_with_info(local, info, &again);
    MPI_Info_get(info, "key", 7, text, &flag);
    NEED(flag && !strcmp(text, "value"));
    MPI_Info_free(&info);
    MPI_Comm_free(&again);
    MPI_Win window;
    int *shared;
    MPI_Win_allocate_shared(sizeof *shared, sizeof *shared, MPI_INFO_NULL, local, &shared, &window);
    *shared = rank;
    MPI_Win_fence(0, window);
    MPI_Get(&got[0], 1, MPI_INT, 1 - local_rank, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    NEED(got[0] == mate);
    MPI_Win_free(&window);
    MPI_Comm_free(&local);
    MPI_Comm_free(&other);
    MPI_Finalize();
    printf("rank %d: right, %s\n", rank, ranks_in_op ? "operation called" : "operation not called");
    return 0;
}
