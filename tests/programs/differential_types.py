"""The outcome of each reduction with each kind of buffer: ``call op buffer: outcome``.

Runs under mpi4py and under impi with any number of procs; rank 0 prints sorted lines. The outcome
is rank 0's result, or the class of the exception. No value overflows: Open MPI 5.0 saturates sums
of 1 and 2 octets where the processor has AVX.
"""

import array
import ctypes

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
world.Set_errhandler(MPI.ERRORS_RETURN)
ERRORS = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}
OPS = "MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MAXLOC MINLOC REPLACE NO_OP"
MINE = [1 + rank % 2, 2, 0]
"""The numbers that this rank gives."""
NUMPY = "? b B h H i I l L q Q e f d g F D G S1 S2 U1 m8[s] M8[s] V1 O >i4 <i4 =f8"
ARRAYS = "bBhHiIlLqQfdu"
FORMATS = "cbBhHiIlLqQfd?"
CTYPES = "bool char byte ubyte short ushort int uint long ulong longlong ulonglong float double longdouble wchar"


def of_numpy(code):
    """Two arrays of a dtype."""
    dtype = np.dtype(code)
    if dtype.kind in "SU":
        return np.array([chr(64 + n) for n in MINE], dtype), np.zeros(3, dtype)
    if dtype.kind == "V":
        return np.array([bytes([n]) for n in MINE], dtype), np.zeros(3, dtype)
    return np.array(MINE).astype(dtype), np.zeros(3, dtype)


def of_array(code):
    """Two arrays of the standard library."""
    if code == "u":
        return array.array("u", "ab"), array.array("u", "cd")
    return array.array(code, MINE), array.array(code, [0, 0, 0])


def of_format(code):
    """Two views of numbers."""
    if code in "c?":
        return memoryview(bytes(MINE)).cast(code), memoryview(bytearray(3)).cast(code)
    return memoryview(array.array(code, MINE)), memoryview(array.array(code, [0, 0, 0]))


def of_ctypes(name):
    """Two arrays of C."""
    kind = getattr(ctypes, f"c_{name}")
    if name in ("char", "wchar"):
        text = "".join(chr(64 + n) for n in MINE)
        return (kind * 3)(*(text.encode() if name == "char" else text)), (kind * 3)()
    return (kind * 3)(*MINE), (kind * 3)()


def of_type(name):
    """Octets with a datatype; of values that numpy knows, numbers."""
    datatype = getattr(MPI, name)
    try:
        code = np.dtype(
            {"CHAR": "b", "CHARACTER": "b", "WCHAR": "I"}.get(name) or datatype.typechar
        )
        mine, into = np.array(MINE).astype(code), np.zeros(3, code)
    except (TypeError, ValueError, MPI.Exception):
        octets = (
            3 * max(1, datatype.Get_extent()[1]) if datatype != MPI.DATATYPE_NULL else 3
        )
        mine, into = np.full(octets, 1, "B"), np.zeros(octets, "B")
    return [mine, datatype], [into, datatype]


PAIRS = {
    "FLOAT_INT": "f4", "DOUBLE_INT": "f8", "LONG_INT": "l", "SHORT_INT": "i2", "TWOINT": "i4", "LONG_DOUBLE_INT": "g"
}  # fmt: skip


def of_pair(name):
    """Pairs of a value and an index."""
    layout = np.dtype([("value", PAIRS[name]), ("index", "i4")], align=True)
    mine, into = np.zeros(3, layout), np.zeros(3, layout)
    mine["value"], mine["index"] = MINE, rank
    datatype = getattr(MPI, name)
    return (
        [mine.view("B"), datatype],
        [into.view("B"), datatype],
        lambda: [tuple(pair) for pair in into.tolist()],
    )


def of_contiguous(name):
    """A derived datatype, which only user-defined operations take."""
    datatype = (
        MPI.INT.Create_contiguous(1).Commit() if name == "contiguous" else MPI.INT.Dup()
    )
    return [np.array(MINE, "i"), datatype], [np.zeros(3, "i"), datatype]


TYPES = sorted(
    name
    for name in dir(MPI)
    if isinstance(getattr(MPI, name), MPI.Datatype)
    and name not in PAIRS
    and name not in ("INT_INT", "DATATYPE_NULL")
)
BUFFERS = {
    **{f"numpy {code}": (of_numpy, code) for code in NUMPY.split()},
    **{f"array {code}": (of_array, code) for code in ARRAYS},
    **{f"memoryview {code}": (of_format, code) for code in FORMATS},
    **{f"ctypes {name}": (of_ctypes, name) for name in CTYPES.split()},
    "bytes": (lambda _: (bytes(MINE), bytearray(3)), ""),
    "bytearray": (lambda _: (bytearray(MINE), bytearray(3)), ""),
    "MPI.memory": (
        lambda _: (
            MPI.memory.frombuffer(bytearray(MINE)),
            MPI.memory.frombuffer(bytearray(3)),
        ),
        "",
    ),
    "None": (lambda _: (None, None), ""),
    "str": (lambda _: ("abc", bytearray(3)), ""),
    **{f"MPI.{name}": (of_type, name) for name in TYPES},
    **{f"MPI.{name}": (of_pair, name) for name in PAIRS},
    **{name: (of_contiguous, name) for name in ("contiguous", "duplicate")},
}


def shown(spec):
    """The values of a buffer."""
    if isinstance(spec, list):
        spec = spec[0]
    if isinstance(spec, np.ndarray) and spec.dtype.kind != "O":
        return spec.tolist()
    return list(spec)


def local(mine, into, op):
    """Combine without messages."""
    op.Reduce_local(mine, into)


CALLS = {
    "Allreduce": world.Allreduce,
    "Allreduce in place": lambda mine, into, op: world.Allreduce(
        MPI.IN_PLACE, into, op
    ),
    "Iallreduce": lambda mine, into, op: world.Iallreduce(mine, into, op).Wait(),
    "Reduce": world.Reduce,
    "Scan": world.Scan,
    "Reduce_local": local,
}


def outcome(call, op, make, argument):
    """Return rank 0's result, or the class of the exception."""
    try:
        mine, into, *show = make(argument)
        call(mine, into, getattr(MPI, op))
        return str(show[0]() if show else shown(into))
    except MPI.Exception as failure:
        return ERRORS[failure.Get_error_class()]
    except Exception as failure:  # its class is the outcome
        return type(failure).__name__


lines = []
for name, call in CALLS.items():
    for op in OPS.split():
        for buffer, (make, argument) in BUFFERS.items():
            lines.append(f"{name} {op} {buffer}: {outcome(call, op, make, argument)}")
world.Barrier()
if rank == 0:
    print("\n".join(sorted(lines)))
