/* Constants that come back, and numbers that an int cannot hold: rank 0 prints what is wrong. */
#include <mpi.h>
#include <stdio.h>

static int wrong, rank;

#define CHECK(what, condition) do { if (!(condition)) { wrong++; printf("rank %d: wrong: %s\n", rank, what); } } while (0)

static void combiner(const char *name, MPI_Datatype type, int wanted)
{
    int integers, addresses, types, found = -1;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &found);
    if (found != wanted) { wrong++; printf("rank %d: wrong: combiner of %s is %d, not %d\n", rank, name, found, wanted); }
#if MPI_VERSION >= 4
    MPI_Count large[4];
    found = -1;
    MPI_Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3], &found);
    if (found != wanted) { wrong++; printf("rank %d: wrong: large combiner of %s is %d\n", rank, name, found); }
#endif
}

static void combiners(void)
{
    int ones[2] = {1, 1}, places[2] = {0, 2}, sizes[2] = {4, 4}, starts[2] = {0, 0};
    int ways[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Aint far[2] = {0, 16};
    MPI_Datatype two[2] = {MPI_INT, MPI_DOUBLE}, type;

    combiner("a named type", MPI_INT, MPI_COMBINER_NAMED);
#define MADE(name, call) do { call; combiner(#name, type, MPI_COMBINER_##name); MPI_Type_free(&type); } while (0)
    MADE(DUP, MPI_Type_dup(MPI_INT, &type));
    MADE(CONTIGUOUS, MPI_Type_contiguous(2, MPI_INT, &type));
    MADE(VECTOR, MPI_Type_vector(2, 1, 2, MPI_INT, &type));
    MADE(HVECTOR, MPI_Type_create_hvector(2, 1, 8, MPI_INT, &type));
    MADE(INDEXED, MPI_Type_indexed(2, ones, places, MPI_INT, &type));
    MADE(HINDEXED, MPI_Type_create_hindexed(2, ones, far, MPI_INT, &type));
    MADE(INDEXED_BLOCK, MPI_Type_create_indexed_block(2, 1, places, MPI_INT, &type));
    MADE(HINDEXED_BLOCK, MPI_Type_create_hindexed_block(2, 1, far, MPI_INT, &type));
    MADE(STRUCT, MPI_Type_create_struct(2, ones, far, two, &type));
    MADE(SUBARRAY, MPI_Type_create_subarray(2, sizes, ones, starts, MPI_ORDER_C, MPI_INT, &type));
    MADE(DARRAY, MPI_Type_create_darray(4, 1, 2, sizes, ways, arguments, (int[]){2, 2}, MPI_ORDER_FORTRAN, MPI_INT, &type));
    MADE(RESIZED, MPI_Type_create_resized(MPI_INT, 0, 16, &type));
}

static void numbers(void)
{
    const MPI_Count octets = (MPI_Count)3 << 30;
    MPI_Count found = -1;
    MPI_Datatype type;
    MPI_Status status;
    int n = -1;

    MPI_Status_set_elements_x(&status, MPI_BYTE, octets);
    MPI_Get_count(&status, MPI_BYTE, &n);
    CHECK("Get_count of 3 GiB", n == MPI_UNDEFINED);
    MPI_Get_elements(&status, MPI_BYTE, &n);
    CHECK("Get_elements of 3 GiB", n == MPI_UNDEFINED);
    MPI_Get_elements_x(&status, MPI_BYTE, &found);
    CHECK("Get_elements_x of 3 GiB", found == octets);
#if MPI_VERSION >= 4
    found = -1;
    MPI_Get_count_c(&status, MPI_BYTE, &found);
    CHECK("Get_count_c of 3 GiB", found == octets);
    found = -1;
    MPI_Get_elements_c(&status, MPI_BYTE, &found);
    CHECK("Get_elements_c of 3 GiB", found == octets);
#endif
    MPI_Status_set_elements_x(&status, MPI_BYTE, 0x7fffffff);
    MPI_Get_count(&status, MPI_BYTE, &n);
    CHECK("Get_count at its limit", n == 0x7fffffff);

    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &type);
    MPI_Type_size(type, &n);
    CHECK("Type_size of 8 GiB", n == MPI_UNDEFINED);
    MPI_Type_size_x(type, &found);
    CHECK("Type_size_x of 8 GiB", found == (MPI_Count)8 << 30);
    MPI_Type_free(&type);
    MPI_Pack_size(1 << 30, MPI_DOUBLE, MPI_COMM_WORLD, &n);
    CHECK("Pack_size of 8 GiB", n == MPI_UNDEFINED || n == 0x7fffffff);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    combiners();
    numbers();
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
