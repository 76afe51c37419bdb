/* Processes that come later: rank 0 spawns this program; two halves of the job meet at a port. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int errors, rank, size;

#define CHECK(condition) do { if (!(condition)) { errors++; printf("line %d: %s\n", __LINE__, #condition); } } while (0)

/* The new processes: their arguments, their parents, and a sum with these. */
static int child(int argc, char **argv, MPI_Comm parents)
{
    MPI_Comm again, all;
    int one = 1, sum = 0;
    CHECK(argc == 3 && !strcmp(argv[1], "child") && !strcmp(argv[2], "with a space"));
    MPI_Comm_get_parent(&again);
    CHECK(again == parents);
    CHECK(!MPI_Intercomm_merge(parents, 1, &all));
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Reduce(&errors, NULL, 1, MPI_INT, MPI_SUM, 0, parents);
    MPI_Comm_disconnect(&parents);
    MPI_Finalize();
    return errors != 0;
}

static void spawning(char *program)
{
    char *more[] = {"child", "with a space", NULL};
    char *absent = "/no/such/program";
    MPI_Comm children, all;
    int codes[2] = {-1, -1}, theirs = 0, one = 1, sum = 0, remote;
    /* What counts at the root alone may be anything elsewhere. */
    int code = MPI_Comm_spawn(rank ? NULL : program, rank ? NULL : more, rank ? -1 : 2, MPI_INFO_NULL, 0,
                              MPI_COMM_WORLD, &children, codes);
    CHECK(!code && codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
    CHECK(!MPI_Comm_remote_size(children, &remote) && remote == 2);
    CHECK(!MPI_Intercomm_merge(children, 0, &all));
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == size + 2);
    MPI_Comm_free(&all);
    MPI_Reduce(NULL, &theirs, 1, MPI_INT, MPI_SUM, rank ? MPI_PROC_NULL : MPI_ROOT, children);
    CHECK(!theirs);
    MPI_Comm_disconnect(&children);
    CHECK(children == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn(absent, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    MPI_Error_class(code, &code);
    CHECK(code == MPI_ERR_SPAWN && children == MPI_COMM_NULL && (rank || codes[0] != MPI_SUCCESS));
}

static void meeting(void)
{
    char name[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, other;
    int second = rank >= size / 2, mine = rank, got = -1, code;
    MPI_Comm_split(MPI_COMM_WORLD, second, rank, &half);
    if (!rank) CHECK(!MPI_Open_port(MPI_INFO_NULL, name));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (second) code = MPI_Comm_connect(name, MPI_INFO_NULL, 0, half, &other);
    else code = MPI_Comm_accept(name, MPI_INFO_NULL, 0, half, &other);
    CHECK(!code);
    MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_MIN, other);
    CHECK(got == (second ? 0 : size / 2));
    MPI_Comm_disconnect(&other);
    MPI_Comm_free(&half);
    if (!rank) CHECK(!MPI_Close_port(name));
    if (!rank) MPI_Error_class(MPI_Close_port(name), &code);
    if (!rank) CHECK(code == MPI_ERR_PORT);
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) return child(argc, argv, parents);
    spawning(argv[0]);
    meeting();
    printf("rank %d: %d errors\n", rank, errors);
    MPI_Finalize();
    return errors != 0;
}
