/* One rank's account, for programs in C: what report.py is for those in Python.

   The same files in the cell's folder, the same gate, the same octets from the nonce. An MPI that speaks IMPI
   itself cannot run mpi4py's programs over ours, so a case that it shall take part in has a program here. Nothing
   beyond MPI-1.2 and C89 with snprintf: the oldest implementation of IMPI has no more. */
#ifndef IMPILAB_REPORT_H
#define IMPILAB_REPORT_H

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define GATE_S 60.0
#define NO_GATE 97
#define LABEL 256
#define MOST_RANKS 1024
#define SHOWN 64

static int rank, size;
static struct {
    char folder[1024], nonce[65], node_nonce[65];
    char *plan, *failures;
    size_t used;
    int performed, nclients, client[MOST_RANKS];
} the;

/* -- octets from the nonce: SHAKE128 (FIPS 202), as payload.py has them */

typedef unsigned long long lane;

static lane turned(lane x, int n) { return n == 0 ? x : (x << n) | (x >> (64 - n)); }

static void keccak(lane a[25])
{
    static const lane rounds[24] = {
        0x0000000000000001ULL, 0x0000000000008082ULL, 0x800000000000808aULL, 0x8000000080008000ULL,
        0x000000000000808bULL, 0x0000000080000001ULL, 0x8000000080008081ULL, 0x8000000000008009ULL,
        0x000000000000008aULL, 0x0000000000000088ULL, 0x0000000080008009ULL, 0x000000008000000aULL,
        0x000000008000808bULL, 0x800000000000008bULL, 0x8000000000008089ULL, 0x8000000000008003ULL,
        0x8000000000008002ULL, 0x8000000000000080ULL, 0x000000000000800aULL, 0x800000008000000aULL,
        0x8000000080008081ULL, 0x8000000000008080ULL, 0x0000000080000001ULL, 0x8000000080008008ULL};
    static const int turns[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                  25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
    int round, x, y;
    for (round = 0; round < 24; round++) {
        lane c[5], b[25];
        for (x = 0; x < 5; x++)
            c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
        for (x = 0; x < 25; x++)
            a[x] ^= c[(x + 4) % 5] ^ turned(c[(x + 1) % 5], 1);
        for (x = 0; x < 5; x++)
            for (y = 0; y < 5; y++)
                b[y + 5 * ((2 * x + 3 * y) % 5)] = turned(a[x + 5 * y], turns[x + 5 * y]);
        for (y = 0; y < 25; y += 5)
            for (x = 0; x < 5; x++)
                a[x + y] = b[x + y] ^ (~b[(x + 1) % 5 + y] & b[(x + 2) % 5 + y]);
        a[0] ^= rounds[round];
    }
}

static void shake128(const char *text, unsigned char *out, size_t wanted)
{
    lane a[25];
    size_t i, place = 0, n = strlen(text);
    memset(a, 0, sizeof a);
    for (i = 0; i < n; i++) {
        a[place / 8] ^= (lane)(unsigned char)text[i] << (8 * (place % 8));
        if (++place == 168) {
            keccak(a);
            place = 0;
        }
    }
    a[place / 8] ^= (lane)0x1f << (8 * (place % 8));
    a[20] ^= 0x8000000000000000ULL;
    for (i = 0; i < wanted; i++) {
        if (i % 168 == 0)
            keccak(a);
        out[i] = (unsigned char)(a[i % 168 / 8] >> (8 * (i % 8)));
    }
}

static void labelled(unsigned char *into, size_t count, const char *format, va_list arguments)
{
    char text[LABEL], whole[LABEL + 80];
    vsnprintf(text, sizeof text, format, arguments);
    snprintf(whole, sizeof whole, "%s/%s", the.nonce, text);
    shake128(whole, into, count);
}

/* The cell's own octets under that label. */
static void octets(void *into, int count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    labelled(into, (size_t)count, format, arguments);
    va_end(arguments);
}

/* The cell's own integers of 0 to 65535 under that label. */
static void numbers(int *into, int count, const char *format, ...)
{
    unsigned char *raw = malloc(2 * (size_t)count + 1);
    int i;
    va_list arguments;
    va_start(arguments, format);
    labelled(raw, 2 * (size_t)count, format, arguments);
    va_end(arguments);
    for (i = 0; i < count; i++)
        into[i] = raw[2 * i] << 8 | raw[2 * i + 1];
    free(raw);
}

/* -- files of the cell */

static char *content(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (file == NULL || text == NULL || fread(text, 1, (1 << 20) - 1, file) == 0) {
        fprintf(stderr, "rank %d: %s cannot be read\n", rank, path);
        exit(2);
    }
    fclose(file);
    return text;
}

/* The place after "key": in text that the lab wrote. */
static const char *value_of(const char *text, const char *key)
{
    char quoted[80];
    const char *found;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    found = strstr(text, quoted);
    if (found == NULL) {
        fprintf(stderr, "rank %d: the cell's plan has no %s\n", rank, key);
        exit(2);
    }
    return found + strlen(quoted);
}

static void word_of(const char *text, const char *key, char *into, size_t room)
{
    const char *begin = value_of(text, key) + 1;
    size_t length = strcspn(begin, "\"");
    length = length < room ? length : room - 1;
    memcpy(into, begin, length);
    into[length] = 0;
}

/* A parameter of the case that is a number. */
static int parameter(const char *key) { return atoi(value_of(the.plan, key)); }

/* A parameter of the case that is a list of numbers; returns how many there are. */
static int parameters(const char *key, int *into, int room)
{
    const char *at = value_of(the.plan, key) + 1;
    int count = 0;
    while (*at != ']' && count < room) {
        char *end;
        into[count++] = (int)strtol(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    return count;
}

/* "clients": [[0, 1], [2, 3]] as the client of each rank. */
static void read_clients(void)
{
    const char *at = value_of(the.plan, "clients") + 1;
    for (; *at != ']'; at += strspn(at, ", ")) {
        at++;
        while (*at != ']') {
            char *end;
            long who = strtol(at, &end, 10);
            if (who >= 0 && who < MOST_RANKS)
                the.client[who] = the.nclients;
            at = end + strspn(end, ", ");
        }
        at++;
        the.nclients++;
    }
}

/* Size of MPI_COMM_WORLD by the plan. */
static int planned_size(void)
{
    const char *at = value_of(the.plan, "order");
    const char *end = strstr(at, "]]");
    int count = 0;
    for (at++; at != NULL && at < end; at++)
        count += *at == '[';
    return count;
}

/* -- the account */

static double now(void)
{
    struct timeval time;
    gettimeofday(&time, NULL);
    return (double)time.tv_sec + time.tv_usec / 1e6;
}

static void tell(const char *kind, const char *more)
{
    char path[1200], part[1200];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s-%d.json", the.folder, kind, (int)getpid());
    snprintf(part, sizeof part, "%s/%s-%d.part", the.folder, kind, (int)getpid());
    file = fopen(part, "w");
    if (file == NULL) {
        fprintf(stderr, "rank %d: %s cannot be written\n", rank, part);
        exit(2);
    }
    fprintf(file, "{\"pid\": %d, \"at\": %.6f, \"rank\": %d, \"size\": %d, ", (int)getpid(), now(), rank, size);
    fprintf(file, "\"nonce\": \"%s\", \"node_nonce\": \"%s\", \"local\": null, %s}", the.nonce, the.node_nonce, more);
    fclose(file);
    rename(part, path);
}

static void wait_at_gate(void)
{
    char path[1200];
    double deadline = now() + GATE_S;
    snprintf(path, sizeof path, "%s/gate", the.folder);
    while (access(path, F_OK) != 0) {
        if (now() > deadline) {
            fprintf(stderr, "rank %d: the gate stayed shut for %.0f s\n", rank, GATE_S);
            _exit(NO_GATE);
        }
        usleep(10000);
    }
}

static void library_name(char *into, size_t room)
{
#ifdef MPI_MAX_LIBRARY_VERSION_STRING
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n\"\\")] = 0;
    snprintf(into, room, "%s", text);
#elif defined(LAM_MPI)
    snprintf(into, room, "LAM/MPI %d.%d.%d", LAM_MAJOR_VERSION, LAM_MINOR_VERSION, LAM_RELEASE_VERSION);
#else
    snprintf(into, room, "unknown");
#endif
}

/* Initialise MPI, say who this is, wait for the witness. */
static void begin(int *argc, char ***argv)
{
    char path[1200], name[512], more[600];
    const char *folder;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    folder = getenv("IMPILAB_CELL");
    snprintf(the.folder, sizeof the.folder, "%s", folder == NULL ? "." : folder);
    snprintf(path, sizeof path, "%s/cell.json", the.folder);
    the.plan = content(path);
    word_of(the.plan, "nonce", the.nonce, sizeof the.nonce);
    snprintf(path, sizeof path, "%s/../node.json", the.folder);
    word_of(content(path), "nonce", the.node_nonce, sizeof the.node_nonce);
    read_clients();
    the.failures = calloc(1, 1 << 16);
    library_name(name, sizeof name);
    snprintf(more, sizeof more, "\"library\": \"%s\", \"sources\": {}", name);
    tell("init", more);
    wait_at_gate();
}

/* Make one of the planned checks; expected and actual are text without quotes. */
static void check(int right, const char *expected, const char *actual, const char *format, ...)
{
    char what[LABEL];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    the.performed++;
    if (!right && the.used < (1 << 16) - 1024)
        the.used += (size_t)snprintf(
            the.failures + the.used, 1024, "%s{\"check\": \"%s\", \"expected\": \"%s\", \"actual\": \"%s\"}",
            the.used ? ", " : "", what, expected, actual);
}

static void check_true(const char *what, int right) { check(right, "True", right ? "True" : "False", "%s", what); }

static void check_ints(const char *what, const int *actual, const int *expected, int count)
{
    char texts[2][200];
    int i, side, right = count == 0 || memcmp(actual, expected, sizeof(int) * (size_t)count) == 0;
    for (side = 0; side < 2; side++) {
        int used = 0;
        texts[side][0] = 0;
        for (i = 0; i < count && used < 180; i++)
            used += snprintf(texts[side] + used, 200 - (size_t)used, "%s%d", i ? ", " : "",
                             (side ? actual : expected)[i]);
    }
    check(right, texts[0], texts[1], "%s", what);
}

static void check_int(const char *what, int actual, int expected) { check_ints(what, &actual, &expected, 1); }

static void check_octets(const char *what, const void *actual, const void *expected, int count)
{
    char texts[2][2 * SHOWN + 40];
    const unsigned char *one = actual, *other = expected;
    int i, first = 0, side;
    while (first < count && one[first] == other[first])
        first++;
    for (side = 0; side < 2; side++) {
        int used = first && first < count ? snprintf(texts[side], 40, "from octet %d: ", first) : 0;
        texts[side][used] = 0;
        for (i = first; i < count && i < first + SHOWN; i++)
            used += snprintf(texts[side] + used, 3, "%02x", (side ? one : other)[i]);
    }
    check(first == count, texts[0], texts[1], "%s", what);
}

static void check_doubles(const char *what, const double *actual, const double *expected, int count)
{
    char texts[2][64];
    int i = 0;
    while (i < count && actual[i] == expected[i])
        i++;
    snprintf(texts[0], sizeof texts[0], "element %d: %.17g", i, i < count ? expected[i] : 0.0);
    snprintf(texts[1], sizeof texts[1], "element %d: %.17g", i, i < count ? actual[i] : 0.0);
    check(i == count, texts[0], texts[1], "%s", what);
}

/* Report after the last check and before MPI_Finalize; collective. */
static void done(void)
{
    size_t room = the.used + 100;
    char *more = malloc(room);
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(more, room, "\"performed\": %d, \"failures\": [%s]", the.performed, the.failures);
    tell("done", more);
    free(more);
}

/* -- the partners of most cases: half the job away, and the next */

#define TO ((rank + size / 2) % size)
#define FROM ((rank - size / 2 + size) % size)
#define RIGHT ((rank + 1) % size)
#define LEFT ((rank - 1 + size) % size)

/* Octets of the heap. */
static void *room(size_t count)
{
    void *found = calloc(1, count + 1);
    if (found == NULL)
        exit(2);
    return found;
}

/* One of several buffers of unequal length. */
typedef struct {
    unsigned char *at;
    int count;
} Buffer;

static Buffer buffer(int count)
{
    Buffer made;
    made.at = room((size_t)count);
    made.count = count;
    return made;
}

#endif
