/* The part of a library that is not generated: start of Python, and the answers that need none.
   emit.py puts it between the types of an ABI and its functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Whose library this is, for the usher: 1 stands in, 2 stands before the vendor's. */
const int impi_library_kind = IMPI_KIND;

/* ---- numbers that are known by handle: rank, size and kind of a communicator, octets of a datatype */

typedef struct { intptr_t key; int first, second, third; } impi_entry;
static impi_entry *impi_entries;
static size_t impi_mask;    /* number of entries - 1 */
static size_t impi_used;
static int impi_state;      /* 0: before MPI_Init, 1: active, 2: finalized */
static int impi_joined;     /* whether a session has begun before MPI_Init: Python must end the process */
static int impi_level;      /* the provided thread level, as the ABI numbers it */

static inline size_t impi_slot(intptr_t key)
{
    size_t slot = ((uintptr_t)key * 0x9e3779b97f4a7c15u >> 20) & impi_mask;
    while (impi_entries[slot].key && impi_entries[slot].key != key) slot = (slot + 1) & impi_mask;
    return slot;
}

static inline const impi_entry *impi_known(intptr_t key)
{
    if (!impi_entries) return NULL;
    const impi_entry *entry = &impi_entries[impi_slot(key)];
    return entry->key && entry->first >= 0 ? entry : NULL;
}

/* A forgotten handle keeps its entry, with a negative number: handles are used again. */
static void impi_know(intptr_t key, int first, int second, int third)
{
    if (2 * (impi_used + 1) > impi_mask) {
        impi_entry *old = impi_entries;
        size_t many = old ? impi_mask + 1 : 0;
        impi_mask = many ? 2 * many - 1 : 511;
        impi_entries = calloc(impi_mask + 1, sizeof *impi_entries);
        if (!impi_entries) abort();
        for (size_t i = 0; i < many; i++) if (old[i].key) impi_entries[impi_slot(old[i].key)] = old[i];
        free(old);
    }
    impi_entry *entry = &impi_entries[impi_slot(key)];
    if (!entry->key) impi_used++;
    *entry = (impi_entry){key, first, second, third};
}

static void impi_now(int state, int level) { impi_state = state; impi_level = level; }
static int impi_active(void) { return impi_state == 1; }
/* Before an abort; MPICH's calls exit(), which is no end without MPI_Finalize then. */
static void impi_flush(void) { impi_state = 2; impi_joined = 0; fflush(NULL); }

/* ---- statuses: cancelled, octets (63 bits), and how longs were sent (0: native, 4 or 8 octets)

   Where they were not sent in native form, 13 bits are set above one for longs of 8 octets and 48 of octets. */

#define IMPI_EXTERNAL (0x1fffull << 50)
#define IMPI_LONG_8 (1ull << 49)
#define IMPI_IS_EXTERNAL(packed) (((packed) & IMPI_EXTERNAL) == IMPI_EXTERNAL)

static void impi_set_status(intptr_t at, int source, int tag, int error, int cancelled, int64_t octets, int longs)
{
    MPI_Status *status = (MPI_Status *)at;
    uint64_t packed = (uint64_t)octets | (longs ? IMPI_EXTERNAL : 0) | (longs == 8 ? IMPI_LONG_8 : 0);
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    if (error >= 0) status->MPI_ERROR = error;
    IMPI_PUT(status, packed, cancelled);
}

static int64_t impi_status_octets(intptr_t at)
{
    uint64_t packed = IMPI_PACKED((MPI_Status *)at);
    return IMPI_IS_EXTERNAL(packed) ? packed & 0xffffffffffff : packed;
}

static int impi_status_longs(intptr_t at)
{
    uint64_t packed = IMPI_PACKED((MPI_Status *)at);
    return IMPI_IS_EXTERNAL(packed) ? (packed & IMPI_LONG_8 ? 8 : 4) : 0;
}

static int impi_status_cancelled(intptr_t at) { return IMPI_CANCELLED((MPI_Status *)at); }
static int impi_status_source(intptr_t at) { return ((MPI_Status *)at)->MPI_SOURCE; }
static int impi_status_tag(intptr_t at) { return ((MPI_Status *)at)->MPI_TAG; }
static int impi_status_error(intptr_t at) { return ((MPI_Status *)at)->MPI_ERROR; }
static void impi_cancel_status(intptr_t at, int flag)
{
    uint64_t packed = IMPI_PACKED((MPI_Status *)at);
    IMPI_PUT((MPI_Status *)at, packed, flag);
}

/* ---- Python */

static int impi_py_hello(void);
static int impi_py_left(int status);
static pthread_once_t impi_once = PTHREAD_ONCE_INIT;
static int impi_ready;

static void impi_die(const char *why)
{
    fflush(NULL);
    fprintf(stderr, "impi: %s cannot start Python: %s\n", IMPI_SONAME, why);
    _exit(1);
}

static void impi_begin(void)
{
    /* Programs that this one starts are no procs; those that started it were none. os.environ is a copy. */
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, IMPI_SONAME)) unsetenv("LD_PRELOAD");
    if (!Py_IsInitialized()) {
        const char *python = getenv("IMPI_PYTHON");
        PyConfig config;
        PyConfig_InitPythonConfig(&config);
        config.install_signal_handlers = 0;
        config.parse_argv = 0;
        /* The interpreter's own path: it finds its virtual environment by that. */
        PyStatus status = PyConfig_SetBytesString(&config, &config.executable, python ? python : IMPI_PYTHON);
        if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
        if (PyStatus_Exception(status)) impi_die(status.err_msg ? status.err_msg : "unknown");
        PyConfig_Clear(&config);
        /* This import takes SIGINT whatever the configuration says: a program that computes must end by it. */
        struct sigaction interrupt;
        sigaction(SIGINT, NULL, &interrupt);
        PyRun_SimpleString("import signal");
        sigaction(SIGINT, &interrupt, NULL);
        PyEval_SaveThread();
    }
    /* cffi answers 0 where the code of the start has raised: that must not look like MPI_SUCCESS. */
    if (impi_py_hello() != 1) impi_die("impi.cabi was not imported; the lines above say why");
    impi_ready = 1;
}

static inline void impi_start(void)
{
    if (__builtin_expect(!impi_ready, 0)) pthread_once(&impi_once, impi_begin);
}

/* Extension modules of a program in Python may end after Python. */
static inline int impi_gone(void)
{
    return __builtin_expect(impi_state > 1, 0) && !Py_IsInitialized();
}

/* ---- error handlers of the program: called when Python has returned

   They may throw, or jump away: that must not pass through Python. */

typedef void impi_handler(void *, int *, ...);
static __thread struct { impi_handler *function; int wide, code; intptr_t handle; } impi_later;

static void impi_handle_later(intptr_t function, intptr_t handle, int wide, int code)
{
    impi_later.handle = handle;
    impi_later.wide = wide;
    impi_later.code = code;
    impi_later.function = (impi_handler *)function;
}

static __attribute__((noinline)) int impi_handled(int result)
{
    impi_handler *function = impi_later.function;
    intptr_t handle = impi_later.handle;
    int narrow = (int)handle, code = impi_later.code;
    impi_later.function = NULL;
    function(impi_later.wide ? (void *)&handle : (void *)&narrow, &code);
    return result;
}

#define IMPI_AFTER(call) \
    { int impi_code = call; return __builtin_expect(!!impi_later.function, 0) ? impi_handled(impi_code) : impi_code; }

static void impi_unfinished(int status, void *nothing)
{
    (void)nothing;
    int unfinished = impi_state == 1 || impi_joined;
    impi_joined = 0;
    if (unfinished && Py_IsInitialized()) impi_py_left(status);
}

/* The last registered is called first: before the ends of what the client's library has loaded. */
static void impi_join(void)
{
    impi_joined = 1;
    on_exit(impi_unfinished, NULL);
}

__attribute__((constructor)) static void impi_loaded(void)
{
    on_exit(impi_unfinished, NULL);
}

/* ---- numbers of handles in Fortran, where constants have their own */

typedef struct { intptr_t handle; int number; } impi_number;

static int impi_number_of(const impi_number *row, intptr_t handle)
{
    for (; row->number >= 0; row++) if (row->handle == handle) return row->number;
    return (int)handle;
}

static intptr_t impi_handle_of(const impi_number *row, int number)
{
    for (; row->number >= 0; row++) if (row->number == number) return row->handle;
    return number;
}

static double impi_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
