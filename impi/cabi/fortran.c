/* The part of Open MPI's Fortran library that is not generated: constants by address, texts, and
   functions of the program. fortran_library.py puts it after the declarations and before the
   generated functions.

   A hidden length is an int here: modules of Fortran 2008 pass an int, and other callers a size_t, of
   which the lower half is read. */

/* Variables of Open MPI's common blocks. The loader must find these for the program and its modules
   alike, so this library comes first in LD_PRELOAD: each address may exist once in a process. */
#define SENTINEL(name, words) MPI_Fint mpi_fortran_##name##_[words]
SENTINEL(bottom, 1); SENTINEL(in_place, 1); SENTINEL(unweighted, 1); SENTINEL(weights_empty, 1);
SENTINEL(status_ignore, 6); SENTINEL(statuses_ignore, 6);
SENTINEL(argv_null, 1); SENTINEL(argvs_null, 1); SENTINEL(errcodes_ignore, 1);

#define IS(place, name) ((void *)(place) == (void *)mpi_fortran_##name##_)
#define AT(place) (IS(place, bottom) ? (void *)IMPI_BOTTOM : IS(place, in_place) ? (void *)IMPI_IN_PLACE : (void *)(place))
#define WEIGHTS(place) (IS(place, unweighted) ? (int *)IMPI_UNWEIGHTED : \
    IS(place, weights_empty) ? (int *)IMPI_WEIGHTS_EMPTY : (place))
#define STATUS(place) ((MPI_Status *)(IS(place, status_ignore) || IS(place, statuses_ignore) ? 0 : (place)))
/* C has no arrays of no elements. */
#define ROOM(length) ((length) > 0 ? (length) : 1)

/* Fortran pads a text with blanks. C gets it without the blanks at both ends. */
static char *impi_text(const char *given, int length)
{
    while (length > 0 && given[length - 1] == ' ') length--;
    while (length > 0 && *given == ' ') given++, length--;
    char *made = malloc((size_t)length + 1);
    if (!made) abort();
    memcpy(made, given, (size_t)length);
    made[length] = 0;
    return made;
}

static void impi_fill(char *out, int length, const char *text)
{
    /* Fortran's texts have no final zero: blanks fill the rest, and a longer text is cut. */
    int many = (int)strlen(text);
    memset(out, ' ', (size_t)length);
    memcpy(out, text, (size_t)(many < length ? many : length));
}

/* Length of an array of datatypes in Alltoallw: one for each rank of the other side. */
static int impi_peers(MPI_Comm comm)
{
    int inter = 0, many = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) PMPI_Comm_remote_size(comm, &many); else PMPI_Comm_size(comm, &many);
    return many;
}

/* The same for the neighbours of a topology; a grid has two in each dimension, absent ones too. */
static int impi_neighbors(MPI_Comm comm, int out)
{
    int kind = 0, many = 0, rank, in, to, weighted;
    PMPI_Topo_test(comm, &kind);
    if (kind == IMPI_CART) { PMPI_Cartdim_get(comm, &many); return 2 * many; }
    if (kind == IMPI_GRAPH) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, &many);
    } else if (kind == IMPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &in, &to, &weighted);
        many = out ? to : in;
    }
    return many;
}

/* Indices of requests begin with 1 in Fortran. */
static void impi_count_from_1(MPI_Fint *indices, int many)
{
    for (int i = 0; i < many; i++) if (indices[i] != IMPI_UNDEFINED) indices[i]++;
}

/* ---- attributes: integers of the size of an address, or of an int in functions of MPI 1

   The MPII_ functions are those by which MPICH's Fortran library names the language of a callback
   (language_stubs.py). Open MPI's has nothing like them, so ours uses MPICH's. */

void MPII_Keyval_set_proxy(int, void *, void *);
void MPII_Op_set_fc(MPI_Op);
void MPII_Errhandler_set_fc(MPI_Errhandler);
void MPII_Grequest_set_lang_f77(MPI_Request);

/* The extra state is an integer in Fortran, and C keeps a pointer to a copy. The copy is never freed:
   attributes use a keyval's functions after MPI_Comm_free_keyval. */
static MPI_Aint *impi_kept(MPI_Aint extra)
{
    MPI_Aint *made = malloc(sizeof *made);
    if (!made) abort();
    *made = extra;
    return made;
}

/* C functions that call the program's in Fortran, which gets every argument by address. MPI 1
   has default integers where later functions have integers of the size of an address. */
#define CALLERS(name, handle, kind, integer)                                                            \
static int impi_copy_##name(void (*call)(MPI_Fint *, MPI_Fint *, integer *, integer *, integer *, MPI_Fint *, \
    MPI_Fint *), handle object, int key, MPI_Aint *extra, int language, MPI_Aint value, MPI_Aint *out, int *flag) \
{                                                                                                       \
    MPI_Fint number = PMPI_##kind##_c2f(object), code = 0;                                              \
    integer given = (integer)value, state = (integer)*extra, made = 0;                                  \
    call(&number, &key, &state, &given, &made, flag, &code);                                            \
    *out = made;                                                                                        \
    return code;                                                                                        \
}                                                                                                       \
static int impi_delete_##name(void (*call)(MPI_Fint *, MPI_Fint *, integer *, integer *, MPI_Fint *),   \
    handle object, int key, int language, MPI_Aint value, MPI_Aint *extra)                              \
{                                                                                                       \
    MPI_Fint number = PMPI_##kind##_c2f(object), code = 0;                                              \
    integer given = (integer)value, state = (integer)*extra;                                            \
    call(&number, &key, &given, &state, &code);                                                         \
    return code;                                                                                        \
}
#define FUNCTIONS(name, place)                                                                          \
void mpi_##name##null_copy_fn_(MPI_Fint *object, MPI_Fint *key, place *extra, place *in, place *out,    \
    MPI_Fint *flag, MPI_Fint *code) { *flag = 0; *code = 0; }                                           \
void mpi_##name##dup_fn_(MPI_Fint *object, MPI_Fint *key, place *extra, place *in, place *out,          \
    MPI_Fint *flag, MPI_Fint *code) { *out = *in; *flag = 1; *code = 0; }                               \
void mpi_##name##null_delete_fn_(MPI_Fint *object, MPI_Fint *key, place *in, place *extra,              \
    MPI_Fint *code) { *code = 0; }
#define OWNER(lower, handle, kind, function)                                                            \
int MPII_##function##_set_attr(handle, int, void *, int);                                               \
int MPII_##function##_get_attr(handle, int, void *, int *, int);                                        \
CALLERS(lower, handle, kind, MPI_Aint)                                                                  \
FUNCTIONS(lower##_, MPI_Aint)                                                                           \
void ompi_##lower##_create_keyval_f(void *copy, void *delete, MPI_Fint *key, MPI_Aint *extra, MPI_Fint *ierror) \
{                                                                                                       \
    int code = PMPI_##function##_create_keyval(copy, delete, key, impi_kept(*extra));                   \
    if (!code) MPII_Keyval_set_proxy(*key, impi_copy_##lower, impi_delete_##lower);                     \
    RETURN;                                                                                             \
}                                                                                                       \
void ompi_##lower##_set_attr_f(MPI_Fint *object, MPI_Fint *key, MPI_Aint *value, MPI_Fint *ierror)      \
{                                                                                                       \
    int code = MPII_##function##_set_attr(PMPI_##kind##_f2c(*object), *key, (void *)*value, 1);         \
    RETURN;                                                                                             \
}                                                                                                       \
void ompi_##lower##_get_attr_f(MPI_Fint *object, MPI_Fint *key, MPI_Aint *value, MPI_Fint *flag, MPI_Fint *ierror) \
{                                                                                                       \
    int code = MPII_##function##_get_attr(PMPI_##kind##_f2c(*object), *key, value, flag, 1);            \
    RETURN;                                                                                             \
}
/* Since Fortran 2008 a program may leave this argument out (MPI 4.1, 19.1.2). */
#define RETURN if (ierror) *ierror = code

OWNER(comm, MPI_Comm, Comm, Comm)
OWNER(type, MPI_Datatype, Type, Type)
OWNER(win, MPI_Win, Win, Win)
CALLERS(old, MPI_Comm, Comm, MPI_Fint)
FUNCTIONS(, MPI_Fint)

void ompi_keyval_create_f(void *copy, void *delete, MPI_Fint *key, MPI_Fint *extra, MPI_Fint *ierror)
{
    int code = PMPI_Comm_create_keyval(copy, delete, key, impi_kept(*extra));
    if (!code) MPII_Keyval_set_proxy(*key, impi_copy_old, impi_delete_old);
    RETURN;
}

/* 3 is MPICH's kind of an attribute that is an int; 1, above, that
   of one as large as an address. */
void ompi_attr_put_f(MPI_Fint *comm, MPI_Fint *key, MPI_Fint *value, MPI_Fint *ierror)
{
    int code = MPII_Comm_set_attr(PMPI_Comm_f2c(*comm), *key, (void *)(MPI_Aint)*value, 3);
    RETURN;
}

void ompi_attr_get_f(MPI_Fint *comm, MPI_Fint *key, MPI_Fint *value, MPI_Fint *flag, MPI_Fint *ierror)
{
    MPI_Aint found = 0;
    int code = MPII_Comm_get_attr(PMPI_Comm_f2c(*comm), *key, &found, flag, 3);
    if (!code && *flag) *value = (MPI_Fint)found;
    RETURN;
}

/* ---- other functions of the program */

void ompi_op_create_f(void *function, MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror)
{
    MPI_Op made;
    int code = PMPI_Op_create(function, !!*commute, &made);
    if (!code) { MPII_Op_set_fc(made); *op = PMPI_Op_c2f(made); }
    RETURN;
}

#define HANDLER(name, function)                                                             \
void ompi_##name##_f(void *call, MPI_Fint *errhandler, MPI_Fint *ierror)                    \
{                                                                                           \
    MPI_Errhandler made;                                                                    \
    int code = PMPI_##function(call, &made);                                                \
    if (!code) { MPII_Errhandler_set_fc(made); *errhandler = PMPI_Errhandler_c2f(made); }   \
    RETURN;                                                                                 \
}
HANDLER(comm_create_errhandler, Comm_create_errhandler)
HANDLER(errhandler_create, Comm_create_errhandler)
HANDLER(win_create_errhandler, Win_create_errhandler)
HANDLER(file_create_errhandler, File_create_errhandler)

void ompi_grequest_start_f(void *query, void *end, void *cancel, MPI_Aint *extra, MPI_Fint *request, MPI_Fint *ierror)
{
    MPI_Request made;
    int code = PMPI_Grequest_start(query, end, cancel, impi_kept(*extra), &made);
    if (!code) { MPII_Grequest_set_lang_f77(made); *request = PMPI_Request_c2f(made); }
    RETURN;
}

void mpi_conversion_fn_null_(void) {}

void ompi_register_datarep_f(char *name, void *read, void *write, void *extent, MPI_Aint *extra, MPI_Fint *ierror,
    int length)
{
    char *text = impi_text(name, length);
    int code = PMPI_Register_datarep(text, 0, 0, 0, 0);
    free(text);
    RETURN;
}

/* ---- functions that return a value, and those that C lacks */

double ompi_wtime_f(void) { return PMPI_Wtime(); }
double ompi_wtick_f(void) { return PMPI_Wtick(); }
MPI_Aint ompi_aint_add_f(MPI_Aint *base, MPI_Aint *by) { return PMPI_Aint_add(*base, *by); }
MPI_Aint ompi_aint_diff_f(MPI_Aint *one, MPI_Aint *other) { return PMPI_Aint_diff(*one, *other); }
void ompi_pcontrol_f(MPI_Fint *level) {}
void ompi_f_sync_reg_f(void *buffer) {}
