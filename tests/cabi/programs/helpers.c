/* What a Fortran library of MPICH's family does with our library; each rank prints one line. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("rank %d: wrong: %s\n", rank, what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 9); } } while (0)

enum { POINTER = 0, ADDRESS = 1, INTEGER = 3 };
typedef int copy_caller(MPI_Comm_copy_attr_function *, int, int, void *, int, void *, void **, int *);
typedef int delete_caller(MPI_Comm_delete_attr_function *, int, int, int, void *, void *);
int MPII_Comm_set_attr(MPI_Comm, int, void *, int);
int MPII_Comm_get_attr(MPI_Comm, int, void *, int *, int);
int MPII_Type_set_attr(MPI_Datatype, int, void *, int);
int MPII_Type_get_attr(MPI_Datatype, int, void *, int *, int);
void MPII_Keyval_set_proxy(int, copy_caller *, delete_caller *);
void MPII_Grequest_set_lang_f77(MPI_Request);

static int rank, copies, deletions, asked;

static int calls_copy(MPI_Comm_copy_attr_function *function, int handle, int key, void *extra, int kind, void *value,
    void **made, int *flag)
{
    (void)function, (void)handle, (void)key;
    copies += kind == ADDRESS;
    *made = (char *)value + (intptr_t)extra;
    *flag = 1;
    return 0;
}

static int calls_delete(MPI_Comm_delete_attr_function *function, int handle, int key, int kind, void *value, void *extra)
{
    (void)function, (void)handle, (void)key, (void)value, (void)extra;
    deletions += kind == ADDRESS;
    return 0;
}

static int never(void) { return 99; }

/* Of Fortran: all parameters are addresses, the last one is the error. */
static void query(intptr_t *extra, MPI_Status *status, int *error) { asked += *extra; status->MPI_TAG = 17; *error = 0; }
static void release(intptr_t *extra, int *error) { asked += *extra; *error = 0; }
static void cancel(intptr_t *extra, int *complete, int *error) { asked += 10 * (*extra + *complete); *error = 0; }

int main(int argc, char **argv)
{
    int key, flag;
    intptr_t value, minus = -5, one = 1;
    int *shown;
    MPI_Comm copy;
    MPI_Request request;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Comm_create_keyval((MPI_Comm_copy_attr_function *)never, (MPI_Comm_delete_attr_function *)never, &key, (void *)100);
    MPII_Keyval_set_proxy(key, calls_copy, calls_delete);
    MPII_Comm_set_attr(MPI_COMM_WORLD, key, (void *)minus, ADDRESS);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPII_Comm_get_attr(copy, key, &value, &flag, ADDRESS);
    CHECK("copied", flag && value == 95 && copies == 1);
    MPI_Comm_get_attr(copy, key, &shown, &flag);
    CHECK("address in C", flag && *(intptr_t *)shown == 95);
    MPI_Comm_free(&copy);
    CHECK("deleted", deletions == 1);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK("deleted twice", deletions == 2);
    MPII_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB + 1, &value, &flag, ADDRESS);
    CHECK("predefined", flag && value >= 32767);
    MPI_Comm_free_keyval(&key);

    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPII_Type_set_attr(MPI_INT, key, (void *)(intptr_t)7, INTEGER);
    MPI_Type_get_attr(MPI_INT, key, &shown, &flag);
    CHECK("integer in C", flag && *shown == 7);
    MPI_Type_set_attr(MPI_INT, key, &one);
    MPII_Type_get_attr(MPI_INT, key, &value, &flag, ADDRESS);
    CHECK("pointer in Fortran", flag && value == (intptr_t)&one);
    MPI_Type_delete_attr(MPI_INT, key);
    MPI_Type_free_keyval(&key);

    MPI_Grequest_start((MPI_Grequest_query_function *)query, (MPI_Grequest_free_function *)release,
        (MPI_Grequest_cancel_function *)cancel, &one, &request);
    MPII_Grequest_set_lang_f77(request);
    MPI_Cancel(&request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    CHECK("generalized request", asked == 12 && status.MPI_TAG == 17);
    MPI_Finalize();
    printf("rank %d: right\n", rank);
    return 0;
}
