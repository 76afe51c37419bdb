// An error handler that throws, and one that jumps away: calls of MPI after both are as before.
#include <csetjmp>
#include <cstdio>
#include <mpi.h>
#include <stdexcept>

static std::jmp_buf back;

static void throws(MPI_Comm *comm, int *code, ...)
{
    int kind;
    MPI_Error_class(*code, &kind);
    throw std::runtime_error(*comm == MPI_COMM_WORLD && kind == MPI_ERR_RANK ? "thrown" : "thrown, but wrong");
}

static void jumps(MPI_Comm *, int *, ...) { std::longjmp(back, 7); }

int main(int argc, char **argv)
{
    int rank, sum = 0;
    const char *told = "nothing";
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(throws, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    try { MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD); }
    catch (const std::exception &error) { std::printf("rank %d: %s\n", rank, error.what()); }
    MPI_Comm_create_errhandler(jumps, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (setjmp(back) == 7) told = "jumped";
    else MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    std::printf("rank %d: %s, sum %d\n", rank, told, sum);
    MPI_Finalize();
    return 0;
}
