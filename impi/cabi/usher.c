/* The usher: a small library in every process of a program (a script, say) that may start others.

   LD_PRELOAD brings it into each process, and its constructor runs before main(). A process that is
   linked with another libmpi than ours executes itself again, with ours (impi.launch.start.ushered).
   A process that has opened another libmpi by dlopen cannot be repaired: at its end the usher tells
   impirun, which ends the job with a sentence instead of the wrong result of a job of its own.
   The functions that start programs are replaced, so that a program with other variables (env -i)
   keeps those of the job. In a rank, and below one, the usher does nothing.

   Between vfork() and execve() a child runs in its parent's memory, so the functions that start
   programs use the stack only (alloca): what malloc() takes there, the parent would never free. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

#define MOST 512        /* most libraries that are examined */
#define WORDS_MOST 4096 /* most arguments of execl() and its like */

static int dropped; /* whether another libmpi was open, and was closed */

/* A rank sets IMPI_PARENT when it joins the job. Its children inherit the variable: it says that they
   are not procs. The process stays a rank to its end, even if it clears its environment. Perl clears
   it when it ends. */
static int joined;
static int ours(void) { return impi_many && !joined && !getenv("IMPI_PARENT"); }

int setenv(const char *name, const char *value, int over)
{
    int (*real)(const char *, const char *, int) = (int (*)(const char *, const char *, int))dlsym(RTLD_NEXT, "setenv");
    joined |= name && !strcmp(name, "IMPI_PARENT");
    return real(name, value, over);
}

/* ---- the libmpi of this process: ours, or another one */

static int same_folder(const char *one, const char *other)
{
    const char *end = strrchr(one, '/');
    return end && !strncmp(one, other, (size_t)(end - one) + 1) && !strchr(other + (end - one) + 1, '/');
}

/* Whether an address lies in a library that is not impi's. A kind of 2 is front mode: there the
   vendor's functions are expected. In stand-in mode ours and the one found must share a folder. */
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
    /* Libraries opened with RTLD_LOCAL (extension modules of Python) are not in the default scope.
       The list is made first, because the callback of dl_iterate_phdr() runs under the loader's lock. */
    dl_iterate_phdr(list, &found);
    for (size_t i = 0; i < found.many; i++) {
        /* RTLD_NOLOAD adds a reference. The real dlclose() closes it: the dlclose() of this file
           would come here again. */
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

/* ---- the job's variables, for a program that gets other variables */

static const char *value_in(char *const *rows, const char *row)
{
    size_t length = (size_t)(strchr(row, '=') - row) + 1;
    for (; rows && *rows; rows++) if (!strncmp(*rows, row, length)) return *rows + length;
    return NULL;
}

static size_t octets_of(char *const *rows)
{
    /* For each variable: its name and value, the value that the program has given, a separator
       and the final zero. */
    size_t octets = 0;
    for (size_t i = 0; i < impi_many; i++) {
        const char *given = value_in(rows, impi_rows[i]);
        octets += strlen(impi_rows[i]) + (given ? strlen(given) : 0) + 2;
    }
    return octets;
}

static size_t count(char *const *rows)
{
    size_t found = 0;
    while (rows && rows[found]) found++;
    return found;
}

/* The text that a variable has to contain; NULL: any, so the script's value stands. A script that
   sets LD_PRELOAD or PYTHONPATH itself must lose neither this library nor the hook. */
static const char *needed(const char *row)
{
    return !strncmp(row, "LD_PRELOAD=", 11) ? IMPI_USHER : !strncmp(row, "PYTHONPATH=", 11) ? IMPI_HOOK : NULL;
}

static char **filled(char **out, char *text, char *const *rows)
{
    size_t at = 0;
    /* First the program's own rows, without an LD_PRELOAD or PYTHONPATH that lacks what is
       needed; then all that is missing. */
    for (char *const *row = rows; row && *row; row++) {
        size_t i = 0;
        while (i < impi_many && (!needed(impi_rows[i]) || strncmp(*row, impi_rows[i], 11))) i++;
        if (i == impi_many || strstr(*row, needed(impi_rows[i]))) out[at++] = *row;
    }
    for (size_t i = 0; i < impi_many; i++) {
        const char *given = value_in(rows, impi_rows[i]), *must = needed(impi_rows[i]);
        if (given && (!must || strstr(given, must))) continue;
        out[at++] = text;
        /* In LD_PRELOAD the user's tools come before ours, so that they see MPI calls first. In
           PYTHONPATH the hook comes first: Python takes the first sitecustomize. */
        int tools = given && *given && !strncmp(impi_rows[i], "LD_PRELOAD=", 11);
        text += 1 + (tools ? sprintf(text, "LD_PRELOAD=%s:%s", given, impi_rows[i] + 11)
                     : given && *given ? sprintf(text, "%s:%s", impi_rows[i], given) : sprintf(text, "%s", impi_rows[i]));
    }
    out[at] = NULL;
    return out;
}

#define KEEPING(rows) \
    (ours() ? filled(alloca((count(rows) + impi_many + 1) * sizeof(char *)), alloca(octets_of(rows) + 1), (rows)) \
            : (char **)(rows))

/* impirun's Python gets no LD_PRELOAD: a profiler there would bring another libmpi into it. */
static char **without_preload(char **rows)
{
    char **out = rows;
    for (char **row = rows; *row; row++) if (strncmp(*row, "LD_PRELOAD=", 11)) *out++ = *row;
    *out = NULL;
    return rows;
}

/* ---- the end of a process */

/* A child tells impirun, in Python, since this process may be in any state. It calls the C library's
   execve and _exit: the _exit of this file would come here again. */
static void tell(const char *why)
{
    char *argv[] = {IMPI_PYTHON, "-I", "-c", IMPI_TELL, (char *)why, NULL};
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

/* Whether this process may end with its own exit code. It may not if it had another libmpi: then it
   was a job of its own, and its success says nothing. impirun is told once, although the exit of
   such a process comes here a second time. */
static int may_end(void)
{
    static int told;
    if (!ours() || told || !(dropped || other_is_here())) return 1;
    told = 1;
    fflush(NULL);
    tell(NULL);
    return 0;
}

static void end_now(int status)
{
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    real(status);
    abort();
}

/* Shells and interpreters that end by _exit() run no destructors. */
void _exit(int status)
{
    end_now(may_end() ? status : 1);
    __builtin_unreachable();
}

void _Exit(int status) { _exit(status); }

/* With --abi: a program that opens libmpi, by whatever path, gets our library of that name. All other
   calls must leave by a jump: the real dlopen() searches the RUNPATH of the library that its return
   address lies in, which must be the caller and not this one. Hence -O2. */
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
    /* Look now: at the end of the process, a libmpi that is closed here would not be found. */
    if (ours() && !dropped) dropped = other_is_here();
    return real(library);
}

__attribute__((destructor)) static void leave(void) { if (!may_end()) end_now(1); }

/* ---- functions that start programs */

/* Whether a file names a libmpi. It may be of any length, and malloc() is not allowed here. */
static int names_libmpi(const char *path)
{
    struct stat found;
    int file = open(path, O_RDONLY | O_CLOEXEC), names = 0;
    if (file >= 0 && !fstat(file, &found) && found.st_size > 0) {
        size_t length = (size_t)found.st_size;
        void *text = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
        if (text != MAP_FAILED) {
            names = memmem(text, length, "libmpi", 6) != NULL;
            munmap(text, length);
        }
    }
    if (file >= 0) close(file);
    return names;
}

static uid_t began_as; /* the effective user of this process at its start */

/* Return the errno for which the next program cannot read this library; 0: it can. A process that
   has changed its user may still have capabilities, and loses them with execve(). */
static int why_unread(void)
{
    int status = 0;
    pid_t child;
    if (geteuid() == began_as) return faccessat(AT_FDCWD, IMPI_USHER, R_OK, AT_EACCESS) ? errno : 0;
    child = fork();
    if (child == 0) {
        struct { unsigned version; int pid; } head = {0x20080522, 0};
        unsigned none[6] = {0};
        if (geteuid()) syscall(SYS_capset, &head, none);
        end_now(faccessat(AT_FDCWD, IMPI_USHER, R_OK, AT_EACCESS) ? errno : 0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) { }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Whether a program runs with more rights than this process, as is_privileged() in Python has it
   (impi.cabi.library.program_file). A test holds both to the same files. */
static int is_privileged(const char *path)
{
    struct stat found;
    struct statvfs mount;
    if (stat(path, &found) || !S_ISREG(found.st_mode) || statvfs(path, &mount) || mount.f_flag & ST_NOSUID) return 0;
    return (found.st_mode & S_ISUID && found.st_uid != geteuid())
        || (found.st_mode & S_ISGID && found.st_gid != getegid())
        || (geteuid() && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Return where execvp() finds a program; ``room`` has WORDS_MOST octets. */
static const char *found_in_path(const char *file, char *room)
{
    const char *path = strchr(file, '/') ? NULL : getenv("PATH");
    while (path && *path) {
        int length = (int)strcspn(path, ":");
        snprintf(room, WORDS_MOST, "%.*s%s%s", length, path, length ? "/" : "", file);
        if (!access(room, X_OK)) return room;
        path += length + (path[length] == ':');
    }
    return file;
}

/* The loader ignores LD_PRELOAD in a program that runs with another user's rights, or as a user who may
   not read this library. What uses MPI there would silently be a job of its own. */
static void refuse_unseen(const char *file)
{
    static const char ours_is_hidden[] = " is started where impi's library " IMPI_USHER
        " cannot be read, by another user or below another root, or was purged: set IMPI_CACHE to a folder that "
        "stays there\n";
    static const char has_rights[] = " runs with another user's rights (setuid), so its loader takes no library "
        "of impi: start a copy without that bit\n";
    const char *why = NULL, *path;
    char room[WORDS_MOST];
    int before = errno, unread = ours() ? why_unread() : 0;
    if (!ours()) return;
    path = found_in_path(file, room);
    /* If this library is gone (a purged cache, another root), programs without MPI go on. */
    if (unread && (unread == EACCES || names_libmpi(path))) why = ours_is_hidden;
    else if (is_privileged(path) && names_libmpi(path)) why = has_rights;
    if (why) {
        size_t length = strlen(path) + strlen(why) + 8;
        char *line = alloca(length);
        snprintf(line, length, "impi: %s%s", path, why);
        (void)!write(2, line, strlen(line));
        tell(line + 6);
        end_now(1);
    }
    errno = before;
}

#define REAL(name, type) type real = (type)dlsym(RTLD_NEXT, name)
typedef int (*with_rows)(const char *, char *const[], char *const[]);
typedef int (*with_file)(int, char *const[], char *const[]);
typedef int (*spawner)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                       char *const[], char *const[]);

int execve(const char *path, char *const argv[], char *const rows[])
{
    refuse_unseen(path);
    REAL("execve", with_rows);
    return real(path, argv, KEEPING(rows));
}

int execvpe(const char *file, char *const argv[], char *const rows[])
{
    refuse_unseen(file);
    REAL("execvpe", with_rows);
    return real(file, argv, KEEPING(rows));
}

int fexecve(int file, char *const argv[], char *const rows[])
{
    refuse_unseen("a program");
    REAL("fexecve", with_file);
    return real(file, argv, KEEPING(rows));
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const rows[])
{
    refuse_unseen(path);
    REAL("posix_spawn", spawner);
    return real(pid, path, actions, attributes, argv, KEEPING(rows));
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const rows[])
{
    refuse_unseen(file);
    REAL("posix_spawnp", spawner);
    return real(pid, file, actions, attributes, argv, KEEPING(rows));
}

/* The real execl() and its like call execve() inside the C library, past the function above. So the
   arguments are collected here, on the stack. */
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

/* The start of each process, before main(): glibc gives constructors the arguments of main().

   IMPI_JOIN is set until a rank joins the job, IMPI_PARENT from then on. IMPI_USHERED has the
   process id of a program that has begun anew. If that program still has another libmpi, a further
   attempt would end the same way, so impirun is told. */
__attribute__((constructor)) static void arrive(int argc, char **argv, char **rows)
{
    static char path[1 << 12];
    char **words, number[32];
    const char *asked = getenv("IMPI_USHERED");
    ssize_t length;
    if (!getenv("IMPI_JOIN") || getenv("IMPI_PARENT")) return;
    began_as = geteuid();
    impi_keep(rows);
    /* A program of impicc is linked with ours. It must begin anew if it lacks the variables that
       keep ours and the client's own library apart (impi.cabi.library.vendor_library). */
    void *init = dlsym(RTLD_DEFAULT, "PMPI_Init");
    if (!init || (!is_other(init) && getenv("IMPI_STANDS_IN"))) return;
    snprintf(number, sizeof number, "%ld", (long)getpid());
    length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0 && !(asked && !strcmp(asked, number))) {
        words = alloca(((size_t)argc + 6) * sizeof *words);
        /* -I, so that neither the hook nor the user's variables for Python act in this Python. */
        words[0] = IMPI_PYTHON; words[1] = "-I"; words[2] = "-c"; words[3] = IMPI_BEGIN; words[4] = path;
        memcpy(words + 5, argv, ((size_t)argc + 1) * sizeof *argv);
        int (*real)(const char *, char *const[], char *const[]) =
            (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
        /* The program gets its tools back: Python puts them into its LD_PRELOAD. */
        if (getenv("LD_PRELOAD")) setenv("IMPI_PRELOAD", getenv("LD_PRELOAD"), 1);
        real(IMPI_PYTHON, words, without_preload(KEEPING(environ)));
    }
    /* The process does not begin anew: execve() has failed, or it has begun anew already. impirun
       is told in both cases. */
    (void)may_end();
    end_now(1);
}
