/* Constants that are data or functions of a library; each rank prints one line. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("rank %d: wrong: %s\n", rank, what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 9); } } while (0)

static int rank, size;

/* A chain: each rank has an edge to the next one; the first has none in, the last none out. */
static void chains(void)
{
    int before = rank - 1, after = rank + 1, in = rank > 0, out = rank < size - 1;
    int weight_in = 10 * rank, weight_out = 10 * after, found_in = 7, found_out = 7, from = -9, to = -9, flag;
    MPI_Comm chain;
    CHECK("names of weights", MPI_UNWEIGHTED && MPI_WEIGHTS_EMPTY && MPI_UNWEIGHTED != MPI_WEIGHTS_EMPTY);

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, &before, MPI_UNWEIGHTED, out, &after, MPI_UNWEIGHTED,
        MPI_INFO_NULL, 0, &chain);
    int many_in = -1, many_out = -1;
    MPI_Dist_graph_neighbors_count(chain, &many_in, &many_out, &flag);
    CHECK("unweighted", many_in == in && many_out == out && !flag);
    MPI_Dist_graph_neighbors(chain, in, &from, MPI_UNWEIGHTED, out, &to, MPI_UNWEIGHTED);
    CHECK("its neighbours", (!in || from == before) && (!out || to == after));
    MPI_Comm_free(&chain);

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, &before, in ? &weight_in : MPI_WEIGHTS_EMPTY, out, &after,
        out ? &weight_out : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &chain);
    MPI_Dist_graph_neighbors_count(chain, &many_in, &many_out, &flag);
    CHECK("weighted", many_in == in && many_out == out && flag);
    MPI_Dist_graph_neighbors(chain, in, &from, in ? &found_in : MPI_WEIGHTS_EMPTY, out, &to,
        out ? &found_out : MPI_WEIGHTS_EMPTY);
    CHECK("its weights", found_in == (in ? weight_in : 7) && found_out == (out ? weight_out : 7));
    int token = rank, got = -1;
    MPI_Neighbor_alltoall(&token, 1, MPI_INT, &got, 1, MPI_INT, chain);
    CHECK("its message", got == (in ? before : -1));
    MPI_Comm_free(&chain);

    /* Rank 0 knows all edges, the others none. */
    int sources[16], degrees[16], ends[16], weights[16], n = rank ? 0 : size - 1;
    for (int i = 0; i < n; i++) sources[i] = i, degrees[i] = 1, ends[i] = i + 1, weights[i] = 10 * (i + 1);
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, n ? weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
        &chain);
    MPI_Dist_graph_neighbors_count(chain, &many_in, &many_out, &flag);
    CHECK("weighted by one", many_in == in && many_out == out && flag);
    found_in = found_out = 7;
    MPI_Dist_graph_neighbors(chain, in, &from, &found_in, out, &to, &found_out);
    CHECK("its weights", found_in == (in ? weight_in : 7) && found_out == (out ? weight_out : 7));
    MPI_Comm_free(&chain);
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &chain);
    MPI_Dist_graph_neighbors_count(chain, &many_in, &many_out, &flag);
    CHECK("unweighted by one", many_in == in && many_out == out && !flag);
    MPI_Comm_free(&chain);
}

static void statuses(void)
{
    int token = rank, got = -1, gots[2] = {-1, -1};
    MPI_Request requests[3];
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
        MPI_STATUS_IGNORE);
    CHECK("no status", got == (rank + size - 1) % size);
    MPI_Isend(&token, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&gots[0], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&gots[1], 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK("no statuses", gots[0] == got && gots[1] == -1);

    MPI_Status given, back;
    memset(&back, 0, sizeof back);
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 3, gots, 2, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD,
        &given);
    given.MPI_ERROR = 0;
#ifdef FORTRAN
    MPI_Fint numbers[MPI_F_STATUS_SIZE];
    MPI_F08_status record;
    CHECK("to Fortran", MPI_Status_c2f(&given, numbers) == 0 && MPI_Status_f2f08(numbers, &record) == 0);
    CHECK("from Fortran", MPI_Status_f082f(&record, numbers) == 0 && MPI_Status_f2c(numbers, &back) == 0);
    CHECK("its members", back.MPI_SOURCE == given.MPI_SOURCE && back.MPI_TAG == 3);
    memset(&back, 0, sizeof back);
    CHECK("Fortran 2008", MPI_Status_c2f08(&given, &record) == 0 && MPI_Status_f082c(&record, &back) == 0);
    CHECK("statuses of Fortran", MPI_F_STATUS_IGNORE && MPI_F_STATUSES_IGNORE
        && MPI_F_STATUS_IGNORE != MPI_F_STATUSES_IGNORE && MPI_F08_STATUS_IGNORE && MPI_F08_STATUSES_IGNORE);
#else
    back = given;
#endif
    int count = -1;
    MPI_Get_count(&back, MPI_INT, &count);
    CHECK("count", count == 1 && back.MPI_TAG == 3);
}

static void attributes(void)
{
    int key, other, flag = -1, one = 1;
    void *value = NULL;
    MPI_Comm copy;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &one);
    MPI_Comm_set_attr(MPI_COMM_WORLD, other, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK("copied attribute", flag && value == &one);
    MPI_Comm_get_attr(copy, other, &value, &flag);
    CHECK("attribute that stays", !flag);
    MPI_Comm_free(&copy);
    /* Programs may call these functions themselves: the standard says what they do. */
#ifdef CALLS_COPY
    value = NULL, flag = 0;
    CHECK("copy function", MPI_COMM_DUP_FN(MPI_COMM_WORLD, key, NULL, &one, &value, &flag) == 0 && flag && value == &one);
#endif
#ifdef CALLS_OTHERS
    CHECK("null copy", MPI_COMM_NULL_COPY_FN(MPI_COMM_WORLD, key, NULL, &one, &value, &flag) == 0 && !flag);
    CHECK("null delete", MPI_COMM_NULL_DELETE_FN(MPI_COMM_WORLD, key, &one, NULL) == 0);
#endif
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, other);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free_keyval(&other);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK("null arguments", MPI_ARGV_NULL == NULL && MPI_ARGVS_NULL == NULL);
    chains();
    statuses();
    attributes();
    int sum = rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK("in place", sum == size * (size + 1) / 2);
    MPI_Finalize();
    printf("rank %d of %d: right\n", rank, size);
    return 0;
}
