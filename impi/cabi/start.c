/* The part of a library that is not generated: the start of Python, and the tables for answers
   without Python. emit.py puts this text after the types of an ABI and before its functions.

   The first stub that needs Python starts it, once, and cffi loads the Python side
   (impi.cabi.calls.connection). From then on Python tells C by handle what stubs may answer
   themselves, and C tells Python at exit whether MPI was finalized. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The mark by which the usher knows our library: 1 in stand-in mode, 2 in front mode. */
const int impi_library_kind = IMPI_KIND;

/* ---- numbers by handle: rank, size and kind of a communicator, octets of a datatype

   A hash table with open addressing, which Python fills. Stubs read it without a lock, because
   programs call MPI_Comm_rank in inner loops. So a table that is too small is never freed: another
   thread may be reading it. All old tables together are at most as large as the present one. */

typedef struct { intptr_t key; int first, second, third; } impi_entry;
typedef struct { size_t mask; impi_entry rows[]; } impi_table; /* mask: number of rows - 1 */
static impi_table *impi_handles;
static size_t impi_used;
static pthread_mutex_t impi_filling = PTHREAD_MUTEX_INITIALIZER;
static int impi_state;      /* 0: before MPI_Init, 1: active, 2: finalized */
static int impi_joined;     /* whether a session has begun before MPI_Init: Python must end the process */
static int impi_level;      /* the provided thread level, as the ABI numbers it */

static inline impi_entry *impi_row(impi_table *table, intptr_t key)
{
    /* 2^64 divided by the golden ratio: handles are small numbers or aligned
       addresses, which would fill few rows. */
    size_t slot = ((uintptr_t)key * 0x9e3779b97f4a7c15u >> 20) & table->mask;
    intptr_t found;
    while ((found = __atomic_load_n(&table->rows[slot].key, __ATOMIC_ACQUIRE)) && found != key) {
        slot = (slot + 1) & table->mask;
    }
    return &table->rows[slot];
}

static inline const impi_entry *impi_known(intptr_t key)
{
    impi_table *table = __atomic_load_n(&impi_handles, __ATOMIC_ACQUIRE);
    if (!table) return NULL;
    const impi_entry *entry = impi_row(table, key);
    return entry->key && entry->first >= 0 ? entry : NULL;
}

static void impi_set_row(impi_table *table, intptr_t key, int first, int second, int third)
{
    impi_entry *entry = impi_row(table, key);
    entry->first = first, entry->second = second, entry->third = third;
    __atomic_store_n(&entry->key, key, __ATOMIC_RELEASE); /* last: a reader that finds the key finds its numbers */
}

/* A forgotten handle keeps its entry, with a negative number: removing it would break the chain of
   probes of others, and handles are used again. cffi calls this without Python's lock. */
static void impi_know(intptr_t key, int first, int second, int third)
{
    pthread_mutex_lock(&impi_filling);
    impi_table *table = impi_handles;
    /* At most half full: a probe ends at an empty row, so there must be some, and near. */
    if (!table || 2 * (impi_used + 1) > table->mask) {
        size_t rows = table ? 2 * (table->mask + 1) : 512;
        /* Zeros, since a key of 0 marks an empty row. */
        impi_table *larger = calloc(1, sizeof *larger + rows * sizeof *larger->rows);
        if (!larger) abort();
        larger->mask = rows - 1;
        for (size_t i = 0; table && i <= table->mask; i++) {
            impi_entry *old = &table->rows[i];
            if (old->key) impi_set_row(larger, old->key, old->first, old->second, old->third);
        }
        __atomic_store_n(&impi_handles, larger, __ATOMIC_RELEASE);
        table = larger;
    }
    if (!impi_row(table, key)->key) impi_used++;
    impi_set_row(table, key, first, second, third);
    pthread_mutex_unlock(&impi_filling);
}

static void impi_now(int state, int level) { impi_state = state; impi_level = level; }
static int impi_active(void) { return impi_state == 1; }
/* Before an abort: the output that C buffers must not be lost. MPICH's MPI_Abort calls exit(), and
   the state keeps impi_unfinished from reporting an end without MPI_Finalize there. */
static void impi_flush(void) { impi_state = 2; impi_joined = 0; fflush(NULL); }

/* ---- statuses: cancelled, octets (63 bits), and how C longs were sent (0: native, 4 or 8 octets)

   MPI_Get_elements needs the length of a long on the wire, and a status has room for octets only. So
   where longs were not sent in native form, the 13 highest of the 63 bits are set, the next one means
   longs of 8 octets, and the lowest 48 are the number of octets. No message is that long. */

#define IMPI_EXTERNAL (0x1fffull << 50)
#define IMPI_LONG_8 (1ull << 49)
#define IMPI_IS_EXTERNAL(packed) (((packed) & IMPI_EXTERNAL) == IMPI_EXTERNAL)

static void impi_set_status(intptr_t at, int source, int tag, int error, int cancelled, int64_t octets, int longs)
{
    MPI_Status *status = (MPI_Status *)at;
    uint64_t packed = (uint64_t)octets | (longs ? IMPI_EXTERNAL : 0) | (longs == 8 ? IMPI_LONG_8 : 0);
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    /* Only calls with several statuses may write this member (MPI 4.1, 3.2.5). */
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
extern int impi_needs_python, impi_began_python; /* embedded.c tells programs of Python by these */

static void impi_die(const char *why)
{
    fflush(NULL);
    fprintf(stderr, "impi: %s cannot start Python: %s\n", IMPI_SONAME, why);
    _exit(1);
}

static void impi_stay(int signal) { (void)signal; }

/* ---- Python's lock in the hands of an extension that waits

   A library under an extension may call MPI in a thread of its own, and the extension may wait for that
   thread without giving the lock away: both wait for ever. A call costs nothing for this: one thread takes
   the lock now and then, and another one sees that it does not get it while the process computes nothing.
   Only the two together tell, because an extension may compute for hours with the lock. */

#define IMPI_HELD_S 10
/* Processor time in a second from which on something computes. Python wakes each thread that waits for its lock
   200 times a second, and a wake-up may cost a millisecond in a virtual machine. */
#define IMPI_COMPUTES_S 0.5
static unsigned impi_turns;

static void *impi_take_turns(void *nothing)
{
    while (impi_state < 2) {
        PyGILState_STATE lock = PyGILState_Ensure();
        __atomic_fetch_add(&impi_turns, 1, __ATOMIC_RELAXED);
        PyGILState_Release(lock);
        sleep(2);
    }
    return nothing;
}

static double impi_computed(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void *impi_watch_lock(void *nothing)
{
    static const char told[] =
        "impi: a thread holds Python's lock and has waited for 10 s: if it waits for another thread that calls MPI, "
        "neither goes on; give the library under the extension module one thread, such as SCOTCH_PTHREAD_NUMBER=1\n";
    /* Each second counts by itself: one that a stopped process sleeps for long is one. */
    for (int still = 0; still < IMPI_HELD_S;) {
        unsigned turns = __atomic_load_n(&impi_turns, __ATOMIC_RELAXED);
        double computed = impi_computed();
        sleep(1);
        if (impi_state > 1) return nothing;
        int goes_on = __atomic_load_n(&impi_turns, __ATOMIC_RELAXED) != turns || impi_computed() - computed > IMPI_COMPUTES_S;
        still = goes_on ? 0 : still + 1;
    }
    return write(2, told, sizeof told - 1) < 0 ? nothing : NULL;
}

static void impi_watch(void)
{
    sigset_t every, before;
    pthread_attr_t detached;
    pthread_t thread;
    /* Signals of the program come to threads of the program. */
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &detached, impi_take_turns, NULL);
    pthread_create(&thread, &detached, impi_watch_lock, NULL);
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A program may clear its environment before it uses MPI. Without IMPI_JOIN it would silently be a
   job of its own. */
static void impi_give_back(void)
{
    for (size_t i = 0; i < impi_many; i++) {
        char *value = strchr(impi_rows[i], '=');
        *value++ = 0;
        setenv(impi_rows[i], value, 0);
    }
}

static void impi_begin(void)
{
    /* A Python that is there already has a hook, which does the same. */
    if (!getenv("IMPI_JOIN") && !Py_IsInitialized()) impi_give_back();
    /* Programs that this rank starts are not procs, and must not have our library. It goes from the
       environment before Python starts, because os.environ is a copy. */
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, IMPI_SONAME)) unsetenv("LD_PRELOAD");
    impi_needs_python = 1;
    if (Py_IsInitialized()) {
        /* A program that has started a Python of its own: what cffi imports is in the folders of ours. */
        PyGILState_STATE lock = PyGILState_Ensure();
        if (strncmp(Py_GetVersion(), PY_VERSION, strlen(IMPI_PYTHON_SERIES)))
            impi_die("the program has started another one than " IMPI_PYTHON ", which is of the series " IMPI_PYTHON_SERIES);
        PyRun_SimpleString(IMPI_FOLDERS);
        PyGILState_Release(lock);
        impi_watch();
    } else {
        const char *python = getenv("IMPI_PYTHON");
        PyConfig config;
        PyConfig_InitPythonConfig(&config);
        /* Signals and arguments belong to the program. */
        config.install_signal_handlers = 0;
        config.parse_argv = 0;
        /* Python finds its virtual environment by the path of its executable, which is not ours. */
        PyStatus status = PyConfig_SetBytesString(&config, &config.executable, python ? python : IMPI_PYTHON);
        if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
        if (PyStatus_Exception(status)) impi_die(status.err_msg ? status.err_msg : "unknown");
        PyConfig_Clear(&config);
        /* This import takes SIGINT whatever the configuration says. Python's handler would wait for
           the next byte code, and a C program that computes has none: Ctrl-C must end it. */
        struct sigaction interrupt;
        sigaction(SIGINT, NULL, &interrupt);
        PyRun_SimpleString("import signal");
        sigaction(SIGINT, &interrupt, NULL);
        /* A peer that has closed is an error of MPI, and no end of the program. OpenSSL's writes have
           no flag against this signal. A handler and not SIG_IGN, which children would inherit. */
        struct sigaction broken;
        sigaction(SIGPIPE, NULL, &broken);
        if (broken.sa_handler == SIG_DFL) {
            broken.sa_handler = impi_stay;
            broken.sa_flags = SA_RESTART;
            sigaction(SIGPIPE, &broken, NULL);
        }
        /* Stubs take the lock for each call, in any thread. */
        PyEval_SaveThread();
        impi_began_python = 1;
    }
    /* If the Python side has raised, cffi answers each call with 0, which looks like MPI_SUCCESS. */
    if (impi_py_hello() != 1) impi_die("impi.cabi was not imported; the lines above say why");
    impi_ready = 1;
}

static inline void impi_start(void)
{
    /* The first calls of several threads may come at once, and each
       has to wait for Python's start. */
    if (__builtin_expect(!impi_ready, 0)) pthread_once(&impi_once, impi_begin);
}

/* With --handles an extension module may call MPI when Python has ended (PETSc's end does). */
static inline int impi_gone(void)
{
    return __builtin_expect(impi_state > 1, 0) && !Py_IsInitialized();
}

/* ---- error handlers of the program: called when Python has returned

   They may throw, or jump away. Through Python's frames that ended the process or left Python's lock
   taken. The note is of this thread: another one may fail at the same time. */

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
    impi_later.function = NULL; /* before the call, which may not return */
    function(impi_later.wide ? (void *)&handle : (void *)&narrow, &code);
    return result;
}

#define IMPI_AFTER(call) \
    { int impi_code = call; return __builtin_expect(!!impi_later.function, 0) ? impi_handled(impi_code) : impi_code; }

static void impi_unfinished(int status, void *nothing)
{
    (void)nothing;
    int unfinished = impi_state == 1 || impi_joined;
    /* exit() calls this function for each registration, and after impi_join() there are two. */
    impi_joined = 0;
    if (unfinished && Py_IsInitialized()) impi_py_left(status);
}

/* exit() calls the last registered function first: so ours runs before those of the libraries that
   the client's library has loaded, which a late MPI_Finalize still needs. */
static void impi_join(void)
{
    impi_joined = 1;
    on_exit(impi_unfinished, NULL);
}

__attribute__((constructor)) static void impi_loaded(void)
{
    if (getenv("IMPI_JOIN")) impi_keep(environ);
    on_exit(impi_unfinished, NULL);
}

/* ---- numbers of handles in Fortran, where constants have numbers of their own

   The rows are short and end with -1. All other handles are the same number in both languages. */

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
    /* The clock that no program sets: differences of two times must be right. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
