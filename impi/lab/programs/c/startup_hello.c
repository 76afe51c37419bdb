/* The twin of startup_hello.py. */
#include "report.h"

int main(int argc, char **argv)
{
    int flag, r, *attribute, value[4], mine[2], *seen, *planned, *hosts, nhosts = 0;
    static const int keys[4] = {IMPI_CLIENT_SIZE, IMPI_CLIENT_COLOR, IMPI_HOST_SIZE, IMPI_HOST_COLOR};
    MPI_Status status;
    begin(&argc, &argv);
    printf("%s %d\n", the.nonce, rank);
    fflush(stdout);

    check_int("size of MPI_COMM_WORLD", size, planned_size());
    check_true("rank in range", 0 <= rank && rank < size);
    for (r = 0; r < 4; r++) {
        MPI_Attr_get(MPI_COMM_WORLD, keys[r], &attribute, &flag);
        value[r] = flag ? *attribute : -1;
    }
    check_int("IMPI_CLIENT_SIZE", value[0], the.nclients);
    check_int("IMPI_CLIENT_COLOR", value[1], the.client[rank]);
    hosts = room(sizeof *hosts * (size_t)size);
    parameters("hosts", hosts, size);
    for (r = 0; r < size; r++)
        nhosts = hosts[r] >= nhosts ? hosts[r] + 1 : nhosts;
    check_int("IMPI_HOST_SIZE", value[2], nhosts);
    check_int("IMPI_HOST_COLOR", value[3], hosts[rank]);
    mine[0] = rank;
    mine[1] = the.client[rank];
    seen = room(sizeof *seen * 2 * (size_t)size);
    planned = room(sizeof *planned * 2 * (size_t)size);
    if (rank == 0) {
        memcpy(seen, mine, sizeof mine);
        for (r = 1; r < size; r++)
            MPI_Recv(seen + 2 * r, 2, MPI_INT, r, 6, MPI_COMM_WORLD, &status);
    } else {
        MPI_Send(mine, 2, MPI_INT, 0, 6, MPI_COMM_WORLD);
    }
    MPI_Bcast(seen, 2 * size, MPI_INT, 0, MPI_COMM_WORLD);
    for (r = 0; r < size; r++) {
        planned[2 * r] = r;
        planned[2 * r + 1] = the.client[r];
    }
    check_ints("all ranks, each once, in the order of their clients", seen, planned, 2 * size);
    MPI_Initialized(&flag);
    check_true("MPI is initialised", flag);

    done();
    MPI_Finalize();
    return 0;
}
