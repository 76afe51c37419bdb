/* Python as a program sees it that embeds Python itself.

   Our library runs in an interpreter. It may be the only one of the process: CPython has no second one that
   extension modules such as numpy would bear. So a program that asks for Python shares ours, but does not see
   it before it has asked, and cannot end it while MPI needs it:

   * Py_IsInitialized says whether the program has asked, not whether our library has;
   * Py_Initialize takes the lock of an interpreter that runs already, as a start would leave it taken;
   * Py_Finalize writes what Python has buffered and gives the lock back. The interpreter ends with the process.

   A Python that a program has started before MPI_Init is used as it is, with the folders of ours added.

   The rest of the library is compiled with -DPy_IsInitialized=impi_true_Py_IsInitialized and the like
   (compilation.py), so that it, and what cffi generates, speak of the interpreter itself. */
#define _GNU_SOURCE
#include <Python.h>
#include <dlfcn.h>

#undef Py_IsInitialized
#undef Py_Initialize
#undef Py_InitializeEx
#undef Py_InitializeFromConfig
#undef Py_Finalize
#undef Py_FinalizeEx

int Py_IsInitialized(void);
void Py_Initialize(void);
void Py_InitializeEx(int signals);
PyStatus Py_InitializeFromConfig(const PyConfig *config);
int Py_FinalizeEx(void);
void Py_Finalize(void);

/* Set by the start of our library: whether it needs an interpreter, and whether it has started that. */
__attribute__((visibility("hidden"))) int impi_needs_python, impi_began_python;
static int impi_asked;   /* whether the program has asked for Python, and has not ended it */
static int impi_started; /* whether the program has started the interpreter, by a call that came here */

/* The function of the interpreter. A python that is linked statically has its functions in the program, which
   comes before us; a library of Python comes behind us. */
static void *impi_true(const char *name, void *own)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found && found != own ? found : dlsym(RTLD_NEXT, name);
}
#define IMPI_TRUE(name) ((typeof(&name))impi_true(#name, (void *)&name))

/* Calls from inside of Python are about the interpreter, whoever has started it: a libpython that was built
   with semantic interposition calls its own functions by way of us. */
static int impi_is_python(void *caller)
{
    Dl_info from, python;
    return dladdr(caller, &from) && dladdr((void *)&PyRun_SimpleStringFlags, &python) && from.dli_fbase == python.dli_fbase;
}
#define IMPI_IS_PROGRAM (!impi_is_python(__builtin_return_address(0)))

int impi_true_Py_IsInitialized(void) { return IMPI_TRUE(Py_IsInitialized)(); }
void impi_true_Py_InitializeEx(int signals) { IMPI_TRUE(Py_InitializeEx)(signals); }
PyStatus impi_true_Py_InitializeFromConfig(const PyConfig *config) { return IMPI_TRUE(Py_InitializeFromConfig)(config); }
int impi_true_Py_FinalizeEx(void) { return IMPI_TRUE(Py_FinalizeEx)(); }

/* Whether program and library share an interpreter. A program that *is* Python has its own: it ends itself. */
static int impi_is_shared(void) { return impi_needs_python && (impi_began_python || impi_started); }

int Py_IsInitialized(void)
{
    return impi_is_shared() && IMPI_IS_PROGRAM ? impi_asked : impi_true_Py_IsInitialized();
}

/* Whether a start by the program finds the shared interpreter; its lock is taken then. */
static int impi_shares(void)
{
    int had = impi_asked;
    impi_asked = 1;
    if (!impi_is_shared()) {
        impi_started |= !impi_true_Py_IsInitialized();
        return 0;
    }
    /* Not given back here: after Py_Initialize() a program has the lock. */
    if (!had) PyGILState_Ensure();
    return 1;
}

void Py_InitializeEx(int signals)
{
    if (!IMPI_IS_PROGRAM || !impi_shares()) impi_true_Py_InitializeEx(signals);
}

void Py_Initialize(void)
{
    if (!IMPI_IS_PROGRAM || !impi_shares()) impi_true_Py_InitializeEx(1);
}

PyStatus Py_InitializeFromConfig(const PyConfig *config)
{
    return IMPI_IS_PROGRAM && impi_shares() ? PyStatus_Ok() : impi_true_Py_InitializeFromConfig(config);
}

/* The caller has the lock, as it must. */
static int impi_finalize(void)
{
    if (!impi_asked) return 0;
    impi_asked = 0;
    PyRun_SimpleString("import sys\nsys.stdout and sys.stdout.flush()\nsys.stderr and sys.stderr.flush()");
    PyEval_SaveThread();
    return 0;
}

int Py_FinalizeEx(void)
{
    if (!impi_is_shared() || !IMPI_IS_PROGRAM) return impi_true_Py_FinalizeEx();
    return impi_finalize();
}

void Py_Finalize(void)
{
    if (!impi_is_shared() || !IMPI_IS_PROGRAM) impi_true_Py_FinalizeEx();
    else impi_finalize();
}
