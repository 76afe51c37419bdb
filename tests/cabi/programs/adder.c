/* An extension module that takes handles of C from mpi4py's objects, and gives some back. */
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <Python.h>
#include <mpi4py/mpi4py.h>

static PyObject *failed(int code)
{
    return PyErr_Format(PyExc_RuntimeError, "MPI error %d", code);
}

/* total(comm, number): the sum of all ranks' numbers, by MPI_Allreduce. */
static PyObject *total(PyObject *self, PyObject *arguments)
{
    PyObject *given;
    int mine, sum = 0, code;
    if (!PyArg_ParseTuple(arguments, "Oi", &given, &mine)) return NULL;
    MPI_Comm *comm = PyMPIComm_Get(given);
    if (!comm) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, *comm);
    Py_END_ALLOW_THREADS
    return code ? failed(code) : PyLong_FromLong(sum);
}

/* reduced(comm, op, number): the same with an operation of Python's. */
static PyObject *reduced(PyObject *self, PyObject *arguments)
{
    PyObject *given, *operation;
    int mine, result = 0, code;
    if (!PyArg_ParseTuple(arguments, "OOi", &given, &operation, &mine)) return NULL;
    MPI_Comm *comm = PyMPIComm_Get(given);
    MPI_Op *op = comm ? PyMPIOp_Get(operation) : NULL;
    if (!op) return NULL;
    code = MPI_Allreduce(&mine, &result, 1, MPI_INT, *op, *comm);
    return code ? failed(code) : PyLong_FromLong(result);
}

/* part(comm, color): a communicator for Python. */
static PyObject *part(PyObject *self, PyObject *arguments)
{
    PyObject *given;
    int color, code;
    MPI_Comm made = MPI_COMM_NULL;
    if (!PyArg_ParseTuple(arguments, "Oi", &given, &color)) return NULL;
    MPI_Comm *comm = PyMPIComm_Get(given);
    if (!comm) return NULL;
    code = MPI_Comm_split(*comm, color, 0, &made);
    return code ? failed(code) : PyMPIComm_New(made);
}

/* Other modules end their library here, when Python is gone: MPI must answer, if by an error. */
static void late(void)
{
    int finalized = 0, code = MPI_SUCCESS;
    MPI_Finalized(&finalized);
    if (finalized) code = MPI_Barrier(MPI_COMM_WORLD);
    if (!finalized || code == MPI_SUCCESS) fprintf(stderr, "late: finalized %d, code %d\n", finalized, code);
}

static PyMethodDef methods[] = {
    {"total", total, METH_VARARGS, NULL},
    {"reduced", reduced, METH_VARARGS, NULL},
    {"part", part, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "adder", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_adder(void)
{
    if (import_mpi4py() < 0 || Py_AtExit(late)) return NULL;
    return PyModule_Create(&definition);
}
