/* A program that opens libmpi while it runs: argv[1] is its name, or the path of one. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_GLOBAL);
    if (!library) return printf("%s\n", dlerror()), 3;
    int rank, size;
    ((int (*)(int *, char ***))dlsym(library, "MPI_Init"))(&argc, &argv);
#ifdef OPEN_MPI
    MPI_Comm world = dlsym(library, "ompi_mpi_comm_world");
#else
    MPI_Comm world = MPI_COMM_WORLD;
#endif
    ((int (*)(MPI_Comm, int *))dlsym(library, "MPI_Comm_rank"))(world, &rank);
    ((int (*)(MPI_Comm, int *))dlsym(library, "MPI_Comm_size"))(world, &size);
    printf("rank %d of %d\n", rank, size);
    ((int (*)(void))dlsym(library, "MPI_Finalize"))();
    return 0;
}
