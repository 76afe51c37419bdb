/* The twin of p2p_waitany.py. */
#include "report.h"

#define N 16

static int once(const int *seen, int count)
{
    int i, right = 1;
    for (i = 0; i < count; i++)
        right = right && seen[i] == 1;
    return right;
}

int main(int argc, char **argv)
{
    int i, t, index, flag, n, got = 0, others, *seen, *indices, *who;
    unsigned char (*into)[2][N], (*out)[2][N], wanted[N];
    char what[32];
    MPI_Request *first, *second, *sent;
    MPI_Status *statuses, status;
    begin(&argc, &argv);

    others = size - 1;
    into = room(sizeof *into * (size_t)size);
    out = room(sizeof *out * (size_t)size);
    first = room(sizeof *first * (size_t)size);
    second = room(sizeof *second * (size_t)size);
    sent = room(sizeof *sent * 2 * (size_t)size);
    statuses = room(sizeof *statuses * 2 * (size_t)size);
    seen = room(sizeof *seen * (size_t)size);
    indices = room(sizeof *indices * (size_t)size);
    who = room(sizeof *who * (size_t)size);
    for (i = 0; i < others; i++)
        who[i] = i < rank ? i : i + 1;
    for (i = 0; i < others; i++)
        MPI_Irecv(into[i][0], N, MPI_BYTE, who[i], 44, MPI_COMM_WORLD, &first[i]);
    for (i = 0; i < others; i++)
        MPI_Irecv(into[i][1], N, MPI_BYTE, who[i], 45, MPI_COMM_WORLD, &second[i]);
    for (t = 0; t < 2; t++)
        for (i = 0; i < others; i++) {
            octets(out[i][t], N, "waitany/%d/%d/%d", 44 + t, rank, who[i]);
            MPI_Isend(out[i][t], N, MPI_BYTE, who[i], 44 + t, MPI_COMM_WORLD, &sent[t * others + i]);
        }
    for (i = 0; i < others; i++) {
        MPI_Waitany(others, first, &index, &status);
        if (0 <= index && index < others)
            seen[index]++;
    }
    check_true("each once", once(seen, others));
    MPI_Waitany(others, first, &index, &status);
    check_int("none is left", index, MPI_UNDEFINED);
    memset(seen, 0, sizeof *seen * (size_t)size);
    while (got < others) {
        MPI_Waitsome(others, second, &n, indices, statuses);
        if (n == MPI_UNDEFINED)
            break;
        for (i = 0; i < n; i++)
            seen[indices[i]]++;
        got += n;
    }
    check_true("some and some", once(seen, others));
    for (t = 0; t < 2; t++) {
        int right = 1;
        for (i = 0; i < others; i++) {
            octets(wanted, N, "waitany/%d/%d/%d", 44 + t, who[i], rank);
            right = right && memcmp(into[i][t], wanted, N) == 0;
        }
        snprintf(what, sizeof what, "octets of tag %d", 44 + t);
        check_true(what, right);
    }
    for (flag = 0; !flag;)
        MPI_Testall(2 * others, sent, &flag, statuses);

    done();
    MPI_Finalize();
    return 0;
}
