/* The twin of p2p_order.py. */
#include "report.h"

#define COUNT 48
#define MOST 310000

int main(int argc, char **argv)
{
    int sizes[COUNT], i, got, right = 1;
    unsigned char *into;
    Buffer out[COUNT];
    MPI_Request requests[COUNT];
    MPI_Status status, statuses[COUNT];
    begin(&argc, &argv);

    into = room(MOST);
    for (i = 0; i < COUNT; i++) {
        sizes[i] = i * 7919 % 3000 + (i % 16 == 5 ? 300000 : 4);
        out[i] = buffer(sizes[i]);
        out[i].at[3] = (unsigned char)i;
        MPI_Isend(out[i].at, sizes[i], MPI_BYTE, TO, 33 + i % 3, MPI_COMM_WORLD, &requests[i]);
    }
    for (i = 0; i < COUNT; i++) {
        MPI_Recv(into, MOST, MPI_BYTE, FROM, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        right = right && into[3] == i && status.MPI_TAG == 33 + i % 3 && got == sizes[i];
    }
    check_true("order, tags and lengths", right);
    MPI_Waitall(COUNT, requests, statuses);

    done();
    MPI_Finalize();
    return 0;
}
