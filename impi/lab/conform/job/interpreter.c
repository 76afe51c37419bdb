/* The test interpreter in C, for MPI-1: a program that contains no test (see interpreter.py).
 *
 * Compile it with the compiler of the implementation under test, "mpicc -o interpreter
 * interpreter.c", and give its path to "impi conform --interpreter". Its argument is the rank of
 * MPI_COMM_WORLD that sends lines of tag 30000; each is answered by a message of tag 30001.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT 30000
#define REPORT 30001
#define ROOM 65536
#define MOST 64
#define SHOWN 32

#if MPI_VERSION >= 2
#define RETURN_ERRORS(comm) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
#else
#define RETURN_ERRORS(comm) MPI_Errhandler_set(comm, MPI_ERRORS_RETURN)
#endif
#define TRY(call)                \
    do {                         \
        int error_ = (call);     \
        if (error_ != MPI_SUCCESS) \
            return error_;       \
    } while (0)

typedef struct {
    const char *name;
    MPI_Datatype type;
    int size; /* in memory */
    int wire; /* in external32 */
    char code;
} Kind;

typedef struct {
    char name[32];
    MPI_Request request;
    void *buffer;
    int receives, done;
    const Kind *kind;
} Request;

static Kind kinds[7];
static char text[ROOM], told[ROOM];
static struct { char *key, *value; } pairs[MOST];
static int count_of_pairs;
static struct { char name[32]; MPI_Comm comm; } comms[MOST];
static Request requests[4096];
static MPI_Op chain_op;
static int attached;

static const char *word(const char *key, const char *otherwise)
{
    int i;
    for (i = 0; i < count_of_pairs; i++)
        if (!strcmp(pairs[i].key, key))
            return pairs[i].value;
    return otherwise;
}

static int number(const char *key, int otherwise)
{
    const char *value = word(key, NULL);
    return value ? atoi(value) : otherwise;
}

static int numbers(const char *key, int *list)
{
    const char *value = word(key, "");
    int n = 0;
    while (*value) {
        list[n++] = atoi(value);
        value = strchr(value, ',');
        if (!value)
            break;
        value++;
    }
    return n;
}

static const Kind *kind(void)
{
    const char *name = word("type", "byte");
    int i;
    for (i = 0; i < 7; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return &kinds[0];
}

static MPI_Comm *slot(const char *name)
{
    int i;
    for (i = 0; i < MOST; i++)
        if (!strcmp(comms[i].name, name) || !comms[i].name[0])
            break;
    if (i == MOST)
        i--;
    strncpy(comms[i].name, name, sizeof comms[i].name - 1);
    return &comms[i].comm;
}

static MPI_Comm comm(void) { return *slot(word("comm", "world")); }

static Request *request(void)
{
    const char *name = word("req", "");
    int i, room = -1;
    for (i = 0; i < 4096; i++) {
        if (!strcmp(requests[i].name, name))
            return &requests[i];
        if (!requests[i].name[0] && room < 0)
            room = i;
    }
    memset(&requests[room], 0, sizeof requests[room]);
    strncpy(requests[room].name, name, sizeof requests[room].name - 1);
    return &requests[room];
}

/* -- test data: see test_data.py */

static long element(const Kind *k, int seed, int i)
{
    long value = seed * 37L + i * 11L + i / 23;
    return k->code == 'B' ? value % 256 : k->code == 'b' ? value % 100 : value % 30000;
}

static void put(const Kind *k, void *buffer, int i, long value)
{
    switch (k->code) {
    case 'B': ((unsigned char *)buffer)[i] = (unsigned char)value; break;
    case 'b': ((char *)buffer)[i] = (char)value; break;
    case 'h': ((short *)buffer)[i] = (short)value; break;
    case 'i': ((int *)buffer)[i] = (int)value; break;
    case 'l': ((long *)buffer)[i] = value; break;
    case 'f': ((float *)buffer)[i] = (float)value; break;
    default: ((double *)buffer)[i] = (double)value;
    }
}

static void *room(const Kind *k, int count) { return calloc((size_t)count + 1, (size_t)k->size); }

static void *data(const Kind *k, int count, int seed)
{
    void *buffer = room(k, count);
    int i;
    for (i = 0; i < count; i++)
        put(k, buffer, i, element(k, seed, i));
    return buffer;
}

/* One element in external32: big-endian; a long has four octets. */
static void wire(const Kind *k, const void *buffer, int i, unsigned char *out)
{
    const unsigned char *from = (const unsigned char *)buffer + (size_t)i * (size_t)k->size;
    int probe = 1, j;
    if (k->code == 'l') {
        long value = ((const long *)buffer)[i];
        for (j = 0; j < 4; j++)
            out[j] = (unsigned char)(value >> (24 - 8 * j));
        return;
    }
    for (j = 0; j < k->wire; j++)
        out[j] = *(char *)&probe ? from[k->size - 1 - j] : from[j];
}

static void tell(const char *format, ...);

static void show(const Kind *k, const void *buffer, int count)
{
    unsigned long a = 1, b = 0;
    unsigned char octets[8];
    long total = (long)count * k->wire;
    int i, j;
    tell(" data=");
    for (i = 0; i < count; i++) {
        wire(k, buffer, i, octets);
        for (j = 0; j < k->wire; j++) {
            if (total <= SHOWN)
                tell("%02x", octets[j]);
            a = (a + octets[j]) % 65521;
            b = (b + a) % 65521;
        }
    }
    if (total > SHOWN)
        tell("%ld/%04lx%04lx", total, b, a);
}

#include <stdarg.h>
static void tell(const char *format, ...)
{
    size_t used = strlen(told);
    va_list list;
    va_start(list, format);
    vsprintf(told + used, format, list);
    va_end(list);
}

static int describe(const Kind *k, MPI_Status *status, const void *buffer)
{
    int count;
    TRY(MPI_Get_count(status, k->type, &count));
    tell(" source=%d tag=%d count=%d", status->MPI_SOURCE, status->MPI_TAG, count);
    if (buffer && count != MPI_UNDEFINED)
        show(k, buffer, count);
    return MPI_SUCCESS;
}

static void chain(void *one, void *other, int *count, MPI_Datatype *type)
{
    int *a = (int *)one, *b = (int *)other, i;
    (void)type;
    for (i = 0; i + 1 < *count; i += 2) {
        int m = a[i], c = a[i + 1];
        b[i] = (int)((long)m * b[i] % 30011);
        b[i + 1] = (int)(((long)m * b[i + 1] + c) % 30011);
    }
}

static MPI_Op operation(void)
{
    const char *name = word("op", "sum");
    if (!strcmp(name, "max"))
        return MPI_MAX;
    if (!strcmp(name, "min"))
        return MPI_MIN;
    if (!strcmp(name, "prod"))
        return MPI_PROD;
    if (!strcmp(name, "bor"))
        return MPI_BOR;
    return !strcmp(name, "chain") ? chain_op : MPI_SUM;
}

/* -- point-to-point */

static int send_one(int waits)
{
    const Kind *k = kind();
    int n = number("count", 0), peer = number("peer", 0), tag = number("tag", 0);
    void *buffer = data(k, n, number("seed", 0));
    char mode = *word("mode", "");
    MPI_Comm c = comm();
    Request *r;
    if (waits && mode == 'b' && !attached) {
        attached = 1;
        TRY(MPI_Buffer_attach(malloc(1 << 20), 1 << 20));
    }
    if (waits) {
        int error = mode == 's'   ? MPI_Ssend(buffer, n, k->type, peer, tag, c)
                    : mode == 'b' ? MPI_Bsend(buffer, n, k->type, peer, tag, c)
                    : mode == 'r' ? MPI_Rsend(buffer, n, k->type, peer, tag, c)
                                  : MPI_Send(buffer, n, k->type, peer, tag, c);
        free(buffer);
        return error;
    }
    r = request();
    r->buffer = buffer;
    r->kind = k;
    r->receives = 0;
    return mode == 's'   ? MPI_Issend(buffer, n, k->type, peer, tag, c, &r->request)
           : mode == 'r' ? MPI_Irsend(buffer, n, k->type, peer, tag, c, &r->request)
                         : MPI_Isend(buffer, n, k->type, peer, tag, c, &r->request);
}

static int receive_one(int waits)
{
    const Kind *k = kind();
    int n = number("count", 0), error;
    int peer = number("peer", MPI_ANY_SOURCE), tag = number("tag", MPI_ANY_TAG);
    void *buffer = room(k, n);
    MPI_Status status;
    Request *r;
    if (!waits) {
        r = request();
        r->buffer = buffer;
        r->kind = k;
        r->receives = 1;
        return MPI_Irecv(buffer, n, k->type, peer, tag, comm(), &r->request);
    }
    error = MPI_Recv(buffer, n, k->type, peer, tag, comm(), &status);
    if (error == MPI_SUCCESS)
        error = describe(k, &status, buffer);
    free(buffer);
    return error;
}

static int complete(int waits)
{
    Request *r = request();
    MPI_Status status;
    int flag = 1, cancelled = 0, error;
    if (r->done) {
        tell(waits ? " cancelled=0" : " done=1");
        if (waits)
            memset(r, 0, sizeof *r);
        return MPI_SUCCESS;
    }
    error = waits ? MPI_Wait(&r->request, &status) : MPI_Test(&r->request, &flag, &status);
    if (error != MPI_SUCCESS || !flag) {
        tell(" done=0");
        return error;
    }
    if (!waits)
        tell(" done=1");
    TRY(MPI_Test_cancelled(&status, &cancelled));
    if (cancelled)
        tell(" cancelled=1");
    else if (r->receives)
        TRY(describe(r->kind, &status, r->buffer));
    else if (waits)
        tell(" cancelled=0");
    free(r->buffer);
    r->buffer = NULL;
    r->done = 1;
    if (waits)
        memset(r, 0, sizeof *r);
    return MPI_SUCCESS;
}

static int probe(int waits)
{
    MPI_Status status;
    int peer = number("peer", MPI_ANY_SOURCE), tag = number("tag", MPI_ANY_TAG), flag = 0;
    if (waits) {
        TRY(MPI_Probe(peer, tag, comm(), &status));
        return describe(kind(), &status, NULL);
    }
    do
        TRY(MPI_Iprobe(peer, tag, comm(), &flag, &status));
    while (!flag && number("until", 0));
    tell(" found=%d", flag);
    return flag ? describe(kind(), &status, NULL) : MPI_SUCCESS;
}

static int send_and_receive(void)
{
    const Kind *k = kind();
    int n = number("count", 0), peer = number("peer", 0), tag = number("tag", 0);
    void *out = data(k, n, number("seed", 0)), *in = room(k, n);
    MPI_Status status;
    TRY(MPI_Sendrecv(out, n, k->type, peer, tag, in, n, k->type, number("from", peer), tag, comm(), &status));
    return describe(k, &status, in);
}

/* -- collectives: a rank's seed is "seed" + its rank, but for roots that send */

static int collective(const char *name)
{
    const Kind *k = kind();
    MPI_Comm c = comm();
    int rank, size, n = number("count", 0), root = number("root", 0), seed = number("seed", 0), i, total = 0;
    int counts[256], places[256], back[256], back_places[256];
    void *in, *out;
    TRY(MPI_Comm_rank(c, &rank));
    TRY(MPI_Comm_size(c, &size));
    if (!strcmp(name, "barrier"))
        return MPI_Barrier(c);
    if (numbers("counts", counts))
        for (i = 0; i < size; i++) {
            places[i] = total;
            total += counts[i] + number("gap", 0);
        }
    if (!strcmp(name, "bcast")) {
        in = rank == root ? data(k, n, seed) : room(k, n);
        TRY(MPI_Bcast(in, n, k->type, root, c));
        show(k, in, n);
    } else if (!strcmp(name, "reduce")) {
        in = room(k, n);
        TRY(MPI_Reduce(data(k, n, seed + rank), in, n, k->type, operation(), root, c));
        if (rank == root)
            show(k, in, n);
    } else if (!strcmp(name, "allreduce")) {
        in = room(k, n);
        TRY(MPI_Allreduce(data(k, n, seed + rank), in, n, k->type, operation(), c));
        show(k, in, n);
    } else if (!strcmp(name, "scan")) {
        in = room(k, n);
        TRY(MPI_Scan(data(k, n, seed + rank), in, n, k->type, operation(), c));
        show(k, in, n);
    } else if (!strcmp(name, "reduce_scatter")) {
        in = room(k, counts[rank]);
        for (i = 0, n = 0; i < size; i++)
            n += counts[i];
        TRY(MPI_Reduce_scatter(data(k, n, seed + rank), in, counts, k->type, operation(), c));
        show(k, in, counts[rank]);
    } else if (!strcmp(name, "gather")) {
        in = room(k, n * size);
        TRY(MPI_Gather(data(k, n, seed + rank), n, k->type, in, n, k->type, root, c));
        if (rank == root)
            show(k, in, n * size);
    } else if (!strcmp(name, "allgather")) {
        in = room(k, n * size);
        TRY(MPI_Allgather(data(k, n, seed + rank), n, k->type, in, n, k->type, c));
        show(k, in, n * size);
    } else if (!strcmp(name, "gatherv")) {
        in = room(k, total);
        out = data(k, counts[rank], seed + rank);
        TRY(MPI_Gatherv(out, counts[rank], k->type, in, counts, places, k->type, root, c));
        if (rank == root)
            show(k, in, total);
    } else if (!strcmp(name, "allgatherv")) {
        in = room(k, total);
        out = data(k, counts[rank], seed + rank);
        TRY(MPI_Allgatherv(out, counts[rank], k->type, in, counts, places, k->type, c));
        show(k, in, total);
    } else if (!strcmp(name, "scatter")) {
        in = room(k, n);
        TRY(MPI_Scatter(data(k, n * size, seed), n, k->type, in, n, k->type, root, c));
        show(k, in, n);
    } else if (!strcmp(name, "scatterv")) {
        in = room(k, counts[rank]);
        out = data(k, total, seed);
        TRY(MPI_Scatterv(out, counts, places, k->type, in, counts[rank], k->type, root, c));
        show(k, in, counts[rank]);
    } else if (!strcmp(name, "alltoall")) {
        in = room(k, n * size);
        TRY(MPI_Alltoall(data(k, n * size, seed + rank), n, k->type, in, n, k->type, c));
        show(k, in, n * size);
    } else {
        n = counts[rank];
        for (i = 0; i < size; i++) {
            back[i] = n;
            back_places[i] = n * i;
        }
        in = room(k, n * size);
        out = data(k, total, seed + rank);
        TRY(MPI_Alltoallv(out, counts, places, k->type, in, back, back_places, k->type, c));
        show(k, in, n * size);
    }
    return MPI_SUCCESS;
}

/* -- communicators */

static int made(MPI_Comm new_comm)
{
    int rank, size, inter;
    if (new_comm == MPI_COMM_NULL) {
        tell(" null=1");
        return MPI_SUCCESS;
    }
    RETURN_ERRORS(new_comm);
    *slot(word("new", "")) = new_comm;
    TRY(MPI_Comm_rank(new_comm, &rank));
    TRY(MPI_Comm_size(new_comm, &size));
    tell(" null=0 rank=%d size=%d", rank, size);
    TRY(MPI_Comm_test_inter(new_comm, &inter));
    if (inter) {
        TRY(MPI_Comm_remote_size(new_comm, &size));
        tell(" remote=%d", size);
    }
    return MPI_SUCCESS;
}

static int communicator(const char *name)
{
    MPI_Comm c = comm(), new_comm = MPI_COMM_NULL;
    MPI_Group whole, part;
    int ranks[256], n, color = number("color", 0);
    if (!strcmp(name, "dup"))
        TRY(MPI_Comm_dup(c, &new_comm));
    else if (!strcmp(name, "split"))
        TRY(MPI_Comm_split(c, color < 0 ? MPI_UNDEFINED : color, number("key", 0), &new_comm));
    else if (!strcmp(name, "create")) {
        n = numbers("ranks", ranks);
        TRY(MPI_Comm_group(c, &whole));
        TRY(MPI_Group_incl(whole, n, ranks, &part));
        TRY(MPI_Comm_create(c, part, &new_comm));
        TRY(MPI_Group_free(&part));
        TRY(MPI_Group_free(&whole));
    } else if (!strcmp(name, "intercomm"))
        TRY(MPI_Intercomm_create(c, number("leader", 0), MPI_COMM_WORLD, number("remote", 0), number("tag", 0),
                                 &new_comm));
    else
        TRY(MPI_Intercomm_merge(c, number("high", 0), &new_comm));
    return made(new_comm);
}

static int attributes(void)
{
#ifdef IMPI_CLIENT_SIZE
    static const char *names[] = {"client_size", "client_color", "host_size", "host_color"};
    int keys[4], i, flag;
    void *value;
    keys[0] = IMPI_CLIENT_SIZE;
    keys[1] = IMPI_CLIENT_COLOR;
    keys[2] = IMPI_HOST_SIZE;
    keys[3] = IMPI_HOST_COLOR;
    tell(" known=1");
    for (i = 0; i < 4; i++) {
        TRY(MPI_Attr_get(comm(), keys[i], &value, &flag));
        tell(" %s=%d", names[i], flag ? *(int *)value : -1);
    }
#else
    tell(" known=0");
#endif
    return MPI_SUCCESS;
}

static int place(void)
{
    int rank, size;
    TRY(MPI_Comm_rank(comm(), &rank));
    TRY(MPI_Comm_size(comm(), &size));
    tell(" rank=%d size=%d", rank, size);
    return MPI_SUCCESS;
}

static int perform(const char *name)
{
    static const char *collectives[] = {"barrier", "bcast", "reduce", "allreduce", "scan", "reduce_scatter",
                                        "gather", "allgather", "gatherv", "allgatherv", "scatter", "scatterv",
                                        "alltoall", "alltoallv", NULL};
    static const char *makers[] = {"dup", "split", "create", "intercomm", "merge", NULL};
    int i;
    if (!strcmp(name, "echo") || !strcmp(name, "size"))
        return place();
    if (!strcmp(name, "send") || !strcmp(name, "isend"))
        return send_one(*name == 's');
    if (!strcmp(name, "recv") || !strcmp(name, "irecv"))
        return receive_one(*name == 'r');
    if (!strcmp(name, "wait") || !strcmp(name, "test"))
        return complete(*name == 'w');
    if (!strcmp(name, "probe") || !strcmp(name, "iprobe"))
        return probe(*name == 'p');
    if (!strcmp(name, "cancel"))
        return MPI_Cancel(&request()->request);
    if (!strcmp(name, "sendrecv"))
        return send_and_receive();
    if (!strcmp(name, "free"))
        return MPI_Comm_free(slot(word("comm", "world")));
    if (!strcmp(name, "attributes"))
        return attributes();
    for (i = 0; collectives[i]; i++)
        if (!strcmp(name, collectives[i]))
            return collective(name);
    for (i = 0; makers[i]; i++)
        if (!strcmp(name, makers[i]))
            return communicator(name);
    return MPI_ERR_OTHER;
}

static void kind_is(int i, const char *name, MPI_Datatype type, int size, int external, char code)
{
    kinds[i].name = name;
    kinds[i].type = type;
    kinds[i].size = size;
    kinds[i].wire = external;
    kinds[i].code = code;
}

int main(int argc, char **argv)
{
    int control, length, error;
    char *name, *part;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    control = argc > 1 ? atoi(argv[1]) : 0;
    RETURN_ERRORS(MPI_COMM_WORLD);
    MPI_Op_create(chain, 0, &chain_op);
    *slot("world") = MPI_COMM_WORLD;
    *slot("self") = MPI_COMM_SELF;
    kind_is(0, "byte", MPI_BYTE, 1, 1, 'B');
    kind_is(1, "char", MPI_CHAR, 1, 1, 'b');
    kind_is(2, "short", MPI_SHORT, (int)sizeof(short), 2, 'h');
    kind_is(3, "int", MPI_INT, (int)sizeof(int), 4, 'i');
    kind_is(4, "long", MPI_LONG, (int)sizeof(long), 4, 'l');
    kind_is(5, "float", MPI_FLOAT, (int)sizeof(float), 4, 'f');
    kind_is(6, "double", MPI_DOUBLE, (int)sizeof(double), 8, 'd');
    for (;;) {
        MPI_Recv(text, ROOM - 1, MPI_BYTE, control, SCRIPT, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &length);
        text[length] = 0;
        if (!strcmp(text, "end"))
            break;
        count_of_pairs = 0;
        name = strtok(text, " ");
        while ((part = strtok(NULL, " ")) != NULL && count_of_pairs < MOST) {
            char *equals = strchr(part, '=');
            if (!equals)
                continue;
            *equals = 0;
            pairs[count_of_pairs].key = part;
            pairs[count_of_pairs++].value = equals + 1;
        }
        strcpy(told, "ok");
        error = perform(name ? name : "");
        if (error != MPI_SUCCESS) {
            int class_of_it = error;
            MPI_Error_class(error, &class_of_it);
            sprintf(told, "error class=%d", class_of_it);
        }
        MPI_Send(told, (int)strlen(told), MPI_BYTE, control, REPORT, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
