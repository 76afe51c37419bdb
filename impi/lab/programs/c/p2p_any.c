/* The twin of p2p_any.py. */
#include "report.h"

int main(int argc, char **argv)
{
    unsigned char into[MOST_RANKS + 16], wanted[MOST_RANKS + 16];
    int i, r, t, count, right = 1, ordered = 1, first[MOST_RANKS][2];
    MPI_Status status, replies[2];
    MPI_Request posted[2];
    begin(&argc, &argv);

    if (rank == 0) {
        memset(first, -1, sizeof first);
        for (i = 0; i < 2 * (size - 1); i++) {
            int source, tag;
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            source = status.MPI_SOURCE;
            tag = status.MPI_TAG;
            MPI_Get_count(&status, MPI_BYTE, &count);
            MPI_Recv(into, count, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
            octets(wanted, count, "any/%d/%d", source, tag);
            check_octets("octets", into, wanted, count);
            if ((tag != 30 && tag != 31) || first[source][tag - 30] != -1 || count != 10 + source)
                right = 0;
            else
                first[source][tag - 30] = i;
        }
        for (r = 1; r < size; r++)
            for (t = 0; t < 2; t++)
                right = right && first[r][t] != -1;
        check_true("who, which tag, how long", right);
        for (r = 1; r < size; r++)
            ordered = ordered && first[r][0] < first[r][1];
        check_true("order", ordered);
        for (r = 1; r < size; r++) {
            for (t = 40; t < 42; t++) {
                octets(wanted, 16, "any/reply/%d/%d", r, t);
                MPI_Send(wanted, 16, MPI_BYTE, r, t, MPI_COMM_WORLD);
            }
        }
    } else {
        for (t = 0; t < 2; t++)
            MPI_Irecv(into + 16 * t, 16, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &posted[t]);
        for (t = 30; t < 32; t++) {
            octets(wanted, 10 + rank, "any/%d/%d", rank, t);
            MPI_Send(wanted, 10 + rank, MPI_BYTE, 0, t, MPI_COMM_WORLD);
        }
        MPI_Waitall(2, posted, replies);
        for (t = 0; t < 2; t++) {
            octets(wanted, 16, "any/reply/%d/%d", rank, 40 + t);
            check_octets(t ? "reply 41" : "reply 40", into + 16 * t, wanted, 16);
        }
    }

    done();
    MPI_Finalize();
    return 0;
}
