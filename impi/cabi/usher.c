/* The usher: a small library in every process of a program that may start others, such as a script.

   A process that needs another libmpi than ours begins anew, with ours (impi.launch.start.ushered).
   One that has opened another libmpi itself is told to impirun at its end. Programs that are given
   other variables keep those of the job. In a rank, and below one, it does nothing. It allocates
   nothing where a child of vfork() may be: the memory is its parent's. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MOST 512        /* variables that are kept, and libraries that are looked at */
#define WORDS_MOST 4096 /* arguments of a program, as execl() has them */

static const char *const prefixes[] = {
    "IMPI_", "PMI", "OMPI_", "OPAL_", "PRTE_", "MPI4PY_", "MPIR_CVAR_", "MPICH_", "HYDRA_", "FI_", "UCX_",
    "HOME=", "PATH=", "TMPDIR=", "LD_PRELOAD=", "PYTHONPATH=", NULL};
static char *kept[MOST];
static size_t many;
static int dropped; /* whether another libmpi was there, and was closed */

static int ours(void) { return many && !getenv("IMPI_PARENT"); }

/* ---- whose libmpi is here */

static int same_folder(const char *one, const char *other)
{
    const char *end = strrchr(one, '/');
    return end && !strncmp(one, other, (size_t)(end - one) + 1) && !strchr(other + (end - one) + 1, '/');
}

/* Whether an address is of a library that is not impi's; 2 of impi's marks one before the vendor's. */
static int is_other(void *symbol)
{
    Dl_info found, mark;
    int *kind = dlsym(RTLD_DEFAULT, "impi_library_kind");
    if (!symbol || !dladdr(symbol, &found)) return 0;
    if (!kind || !dladdr(kind, &mark)) return 1;
    return *kind != 2 && !same_folder(mark.dli_fname, found.dli_fname);
}

typedef struct { const char *names[MOST]; size_t many; } listed;

static int list(struct dl_phdr_info *info, size_t size, void *all)
{
    listed *found = all;
    (void)size;
    if (info->dlpi_name && strchr(info->dlpi_name, '/') && found->many < MOST) {
        found->names[found->many++] = info->dlpi_name;
    }
    return 0;
}

static int other_is_here(void)
{
    listed found = {.many = 0};
    if (is_other(dlsym(RTLD_DEFAULT, "PMPI_Init"))) return 1;
    dl_iterate_phdr(list, &found);
    for (size_t i = 0; i < found.many; i++) {
        void *library = dlopen(found.names[i], RTLD_LAZY | RTLD_NOLOAD);
        int other = library && is_other(dlsym(library, "PMPI_Init"));
        if (library) {
            int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
            real(library);
        }
        if (other) return 1;
    }
    return 0;
}

/* ---- the variables of the job, for a program that is given others */

static const char *value_in(char *const *rows, const char *row)
{
    size_t length = (size_t)(strchr(row, '=') - row) + 1;
    for (; rows && *rows; rows++) if (!strncmp(*rows, row, length)) return *rows + length;
    return NULL;
}

static size_t octets_of(char *const *rows)
{
    size_t octets = 0;
    for (size_t i = 0; i < many; i++) {
        const char *given = value_in(rows, kept[i]);
        octets += strlen(kept[i]) + (given ? strlen(given) : 0) + 2;
    }
    return octets;
}

static size_t count(char *const *rows)
{
    size_t found = 0;
    while (rows && rows[found]) found++;
    return found;
}

/* What a script puts in place of these two loses neither this library nor the hook. */
static const char *needed(const char *row)
{
    return !strncmp(row, "LD_PRELOAD=", 11) ? IMPI_USHER : !strncmp(row, "PYTHONPATH=", 11) ? IMPI_HOOK : NULL;
}

static char **filled(char **out, char *text, char *const *rows)
{
    size_t at = 0;
    for (char *const *row = rows; row && *row; row++) {
        size_t i = 0;
        while (i < many && (!needed(kept[i]) || strncmp(*row, kept[i], 11))) i++;
        if (i == many || strstr(*row, needed(kept[i]))) out[at++] = *row;
    }
    for (size_t i = 0; i < many; i++) {
        const char *given = value_in(rows, kept[i]), *must = needed(kept[i]);
        if (given && (!must || strstr(given, must))) continue;
        out[at++] = text;
        /* Tools stand before ours, and the hook before all folders. */
        int tools = given && *given && !strncmp(kept[i], "LD_PRELOAD=", 11);
        text += 1 + (tools ? sprintf(text, "LD_PRELOAD=%s:%s", given, kept[i] + 11)
                     : given && *given ? sprintf(text, "%s:%s", kept[i], given) : sprintf(text, "%s", kept[i]));
    }
    out[at] = NULL;
    return out;
}

#define KEEPING(rows) \
    (ours() ? filled(alloca((count(rows) + many + 1) * sizeof(char *)), alloca(octets_of(rows) + 1), (rows)) \
            : (char **)(rows))

/* Python, below, without tools: a profiler would bring another libmpi to it. */
static char **without_preload(char **rows)
{
    char **out = rows;
    for (char **row = rows; *row; row++) if (strncmp(*row, "LD_PRELOAD=", 11)) *out++ = *row;
    *out = NULL;
    return rows;
}

/* ---- the end of a process */

static void tell(void)
{
    char *argv[] = {IMPI_PYTHON, "-I", "-c", IMPI_TELL, NULL};
    int status;
    pid_t child = fork();
    if (child == 0) {
        char **rows = without_preload(KEEPING(environ));
        int (*real)(const char *, char *const[], char *const[]) =
            (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
        void (*end)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
        real(IMPI_PYTHON, argv, rows);
        end(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) { }
}

/* Whether this process may end as it would: it has not been a job of its own. */
static int may_end(void)
{
    static int told;
    if (!ours() || told || !(dropped || other_is_here())) return 1;
    told = 1;
    fflush(NULL);
    tell();
    return 0;
}

static void end_now(int status)
{
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    real(status);
    abort();
}

void _exit(int status)
{
    end_now(may_end() ? status : 1);
    __builtin_unreachable();
}

void _Exit(int status) { _exit(status); }

/* With --abi: what opens libmpi by any path gets ours of that name. All else must be a jump at the end:
   the loader looks at the folders of the library that calls. */
void *dlopen(const char *name, int mode)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *base = name ? strrchr(name, '/') : NULL;
    base = base ? base + 1 : name;
    if (base && ours() && (!strncmp(base, "libmpi.so", 9) || !strncmp(base, "libmpich.so", 11)
                           || !strncmp(base, "libmpi_abi.so", 13))) {
        static char path[1 << 12];
        int *kind = dlsym(RTLD_DEFAULT, "impi_library_kind");
        Dl_info mark;
        if (kind && *kind == 1 && dladdr(kind, &mark)) {
            snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(mark.dli_fname, '/') - mark.dli_fname),
                     mark.dli_fname, base);
            name = !access(path, R_OK) ? path : !strcmp(strstr(base, ".so"), ".so") ? mark.dli_fname : name;
        }
    }
    return real(name, mode);
}

int dlclose(void *library)
{
    int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
    if (ours() && !dropped) dropped = other_is_here();
    return real(library);
}

__attribute__((destructor)) static void leave(void) { if (!may_end()) end_now(1); }

/* ---- the begin of a program */

#define REAL(name, type) type real = (type)dlsym(RTLD_NEXT, name)
typedef int (*with_rows)(const char *, char *const[], char *const[]);
typedef int (*with_file)(int, char *const[], char *const[]);
typedef int (*spawner)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                       char *const[], char *const[]);

int execve(const char *path, char *const argv[], char *const rows[])
{
    REAL("execve", with_rows);
    return real(path, argv, KEEPING(rows));
}

int execvpe(const char *file, char *const argv[], char *const rows[])
{
    REAL("execvpe", with_rows);
    return real(file, argv, KEEPING(rows));
}

int fexecve(int file, char *const argv[], char *const rows[])
{
    REAL("fexecve", with_file);
    return real(file, argv, KEEPING(rows));
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const rows[])
{
    REAL("posix_spawn", spawner);
    return real(pid, path, actions, attributes, argv, KEEPING(rows));
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const rows[])
{
    REAL("posix_spawnp", spawner);
    return real(pid, file, actions, attributes, argv, KEEPING(rows));
}

#define COLLECT(words, last, first) \
    char *words[WORDS_MOST]; \
    va_list rest; \
    size_t at = 0; \
    va_start(rest, last); \
    words[at++] = (char *)first; \
    while (words[at - 1] && at < WORDS_MOST) words[at++] = va_arg(rest, char *); \
    if (words[at - 1]) { va_end(rest); errno = E2BIG; return -1; }

int execl(const char *path, const char *first, ...)
{
    COLLECT(words, first, first)
    va_end(rest);
    return execve(path, words, environ);
}

int execlp(const char *file, const char *first, ...)
{
    COLLECT(words, first, first)
    va_end(rest);
    return execvpe(file, words, environ);
}

int execle(const char *path, const char *first, ...)
{
    COLLECT(words, first, first)
    char **rows = va_arg(rest, char **);
    va_end(rest);
    return execve(path, words, rows);
}

static int is_kept(const char *row)
{
    for (const char *const *prefix = prefixes; *prefix; prefix++) {
        if (!strncmp(row, *prefix, strlen(*prefix)) && strchr(row, '=')) return 1;
    }
    return 0;
}

__attribute__((constructor)) static void arrive(int argc, char **argv, char **rows)
{
    static char path[1 << 12];
    char **words, number[32];
    const char *asked = getenv("IMPI_USHERED");
    ssize_t length;
    if (!getenv("IMPI_JOIN") || getenv("IMPI_PARENT")) return;
    for (; rows && *rows && many < MOST; rows++) if (is_kept(*rows)) kept[many++] = strdup(*rows);
    /* A program of impicc has ours by itself, but not what keeps ours and the client's own apart. */
    void *init = dlsym(RTLD_DEFAULT, "PMPI_Init");
    if (!init || (!is_other(init) && getenv("IMPI_STANDS_IN"))) return;
    snprintf(number, sizeof number, "%ld", (long)getpid());
    length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0 && !(asked && !strcmp(asked, number))) {
        words = alloca(((size_t)argc + 6) * sizeof *words);
        words[0] = IMPI_PYTHON; words[1] = "-I"; words[2] = "-c"; words[3] = IMPI_BEGIN; words[4] = path;
        memcpy(words + 5, argv, ((size_t)argc + 1) * sizeof *argv);
        int (*real)(const char *, char *const[], char *const[]) =
            (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
        if (getenv("LD_PRELOAD")) setenv("IMPI_PRELOAD", getenv("LD_PRELOAD"), 1);
        real(IMPI_PYTHON, words, without_preload(KEEPING(environ)));
    }
    (void)may_end();
    end_now(1);
}
