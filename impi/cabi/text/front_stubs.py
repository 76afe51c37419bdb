"""Front mode: stubs before the vendor's library that the program was compiled for.

A stub is ``MPI_Name`` only; ``PMPI_Name`` stays the vendor's. The stub passes a call on to it

* if the caller is the vendor's library itself, or mpi4py's extension for it;
* if the function is about objects that are always the vendor's: datatypes, its tools;
* if the communicator is inside the client, or the request, message, file or info is the vendor's.

All other calls go to Python, as in stand-in mode. Our handles differ from the vendor's by value
(:data:`OURS`), so the decision costs a comparison.

The vendor's own calls are known by their return address. A flag for each thread would have to be
set by every Python thread, and cleared around every callback of the program
(docs/decisions/generated-c-library.md).
"""

from __future__ import annotations

from typing import Final

from impi.cabi.tables.abi import FIRST, Abi
from impi.cabi.tables.abi_tables import Parameter
from impi.cabi.text.stubs import ANSWERS, Stub

OURS: Final = {
    # MPICH's handles have their kind in the upper 6 bits, even null handles; files are addresses.
    "mpich": "((uintptr_t)(handle) < 0x04000000u)",
    # Open MPI's handles are addresses of structures, and so even.
    "openmpi": "((handle) & 1)",
}
"""By ABI: the C condition that a handle is ours."""

DECLARED: Final = """
extern "Python" int impi_py_turn(void);
extern "Python" int impi_py_adopt_op(intptr_t function, int commute, int large, MPI_Op op);
extern "Python" int impi_py_adopt_errhandler(intptr_t function, int of_file, MPI_Errhandler errhandler);
extern "Python" int impi_py_drop_type(MPI_Datatype datatype);
int impi_is_ours(MPI_Comm handle);
void impi_library_at(int number, intptr_t from, intptr_t to);
unsigned impi_passed(void);
int impi_inside(void);
void impi_serve(int now);
"""
"""Functions that Python calls, and lends to C, besides :data:`impi.cabi.text.emit.DECLARED`."""

# Functions that always go to the vendor: by the start of their names, and by whole names.
_ALWAYS: Final = ("Type_", "T_", "Status_", "Abi_")
_ALWAYS_ALSO: Final = frozenset(
    {
        "Get_version",
        "Get_library_version",
        "Reduce_local",
        "Op_commutative",
        "Get_address",
        "Address",
    }
)
# Functions of a communicator that move messages or open files, but have no buffer argument. Others
# without a buffer (Comm_split, Cart_create) make communicators, which Python must know.
_WITHOUT_BUFFER: Final = frozenset(
    {
        "Barrier",
        "Ibarrier",
        "Barrier_init",
        "Probe",
        "Iprobe",
        "Mprobe",
        "Improbe",
        "Pack_size",
        "File_open",
    }
    | {f"Comm_{verb}_buffer" for verb in ("attach", "detach", "flush", "iflush")}
)
_BY_VALUE: Final = ("REQUEST", "MESSAGE", "FILE")


def way(stub: Stub, abi: Abi) -> str:
    """Return C statements that pass a call on to the vendor if it is the vendor's.

    If they do not return, the call is ours and goes on to Python.
    """

    plain = stub.name.removeprefix("MPI_")
    # Variable arguments can be passed on to no other function. The stub has an answer of its own.
    if plain.startswith("Pcontrol"):
        return ""

    # First, whatever the arguments: a call of the vendor's own code is never the program's.
    lines = [f"if (IMPI_FROM_LIBRARY) return {_call(stub)};"]
    if text := _HOOKS.get(plain.removesuffix("_c"), ""):
        for place, words in (
            ("CALL", _call(stub)),
            ("NAME", f"P{stub.name}"),
            ("LARGE", str(int(stub.large))),
        ):
            text = text.replace(place, words)

        lines.append(text)
    elif (
        plain.startswith(_ALWAYS) or plain.removesuffix("_c") in _ALWAYS_ALSO
    ) and not _is_answered(plain):
        lines.append(f"return {_call(stub)};")
    elif condition := _condition(stub, abi):
        lines.append(f"if ({condition}) IMPI_PASS({_call(stub, abi)})")

    return "\n    ".join(lines)


def _is_answered(plain: str) -> bool:
    # The ABI fixes the layout of a status, so C reads a status of the vendor as it reads ours.
    return plain.startswith("Status_") and plain in ANSWERS


def _call(stub: Stub, abi: Abi | None = None) -> str:
    """Return the C call of the vendor's function; with ``abi``, our info objects become null."""
    # Infos are hints, and the vendor cannot read ours.
    words = []
    for each in stub.function.parameters:
        if (
            abi is not None
            and each.kind == "INFO"
            and each.direction == "in"
            and "*" not in each.text
        ):
            none = f"(MPI_Info)(intptr_t){abi.constants['INFO_NULL']}"
            words.append(f"IMPI_OURS({each.name}) ? {none} : {each.name}")
        else:
            words.append(each.name)

    return f"P{stub.name}({', '.join(words)})"


def _condition(stub: Stub, abi: Abi) -> str:
    """Return the C condition that the arguments are the vendor's; empty: they never are."""

    plain = stub.name.removeprefix("MPI_").removesuffix("_c")

    kinds = {each.kind for each in stub.function.parameters}
    if "COMMUNICATOR" in kinds:
        # The vendor's twin of a communicator has no topology, and all windows are impi's.
        buffers = "BUFFER" in kinds and not plain.startswith(
            ("Neighbor", "Ineighbor", "Win_")
        )
        return "IMPI_LOCAL(comm)" if plain in _WITHOUT_BUFFER or buffers else ""

    if plain == "File_delete":
        return "1"

    if plain.startswith("Info_"):
        about = stub.function.parameters[0]
        if about.kind != "INFO" or about.direction == "out":
            return ""

        # MPI_INFO_ENV describes the start of the whole job, and the vendor knows its client only.
        environment = abi.constants.get("INFO_ENV")
        if environment is None or "*" in about.text:
            return f"!IMPI_OURS({_value(about)})"

        return f"!IMPI_OURS({about.name}) && {about.name} != (MPI_Info)(intptr_t){environment}"

    return _by_value(stub)


def _by_value(stub: Stub) -> str:
    for each in stub.function.parameters:
        if each.kind in _BY_VALUE and each.direction != "out":
            # One of ours in an array sends the whole call to Python: one
            # call has to wait for all of them.
            has = f"impi_library_has({each.length}, {each.name})"
            return has if each.is_array else f"!IMPI_OURS({_value(each)})"

    return ""


def _value(parameter: Parameter) -> str:
    return f"*{parameter.name}" if "*" in parameter.text else parameter.name


def prelude(abi: Abi) -> list[str]:
    """Return the C text that precedes the stubs."""
    world, own, null = (
        f"(MPI_Comm)(intptr_t){abi.constants[f'COMM_{name}']}"
        for name in ("WORLD", "SELF", "NULL")
    )
    return [
        f"#define IMPI_WORLD {world}",
        f"#define IMPI_SELF {own}",
        f"#define IMPI_OURS(handle) {OURS[abi.name]}",
        f"#define IMPI_LOCAL(comm) (!IMPI_OURS(comm) && (comm) != IMPI_WORLD && (comm) != {null})",
        f"#define IMPI_LAST_CODE {abi.constants['ERR_LASTCODE']}",
        f"#define IMPI_NO_FILE (MPI_File)(intptr_t){abi.constants['FILE_NULL']}",
        f"#define IMPI_NO_ERRHANDLER (MPI_Errhandler)(intptr_t){abi.constants['ERRHANDLER_NULL']}",
        _PRELUDE,
    ]


def converted(stub: Stub, given: str, abi: Abi) -> str:
    """Return the C statement of a function that converts between handles and Fortran's numbers."""

    call = f"P{stub.name}({given})"
    if stub.name.endswith(("c2f", "toint")):
        return f"return IMPI_OURS({given}) ? ({stub.function.result}){given} : {call};"

    # A handle of ours is the same number in both languages, above all numbers of constants.
    ours = f"{given} >= {FIRST[abi.name][0]} && IMPI_OURS({given})"

    return f"return {ours} ? ({stub.function.result})(intptr_t){given} : {call};"


_ADOPTED_HANDLER: Final = (
    "int code = CALL;\n    impi_start();\n"
    "    return code ? code : impi_py_adopt_errhandler((intptr_t)comm_errhandler_fn, 0, *errhandler);"
)
_NOT_ADDED: Final = "if (errorcode <= IMPI_LAST_CODE) return CALL;"
# C statements for objects that both sides must know: operations and error handlers of the program,
# and the buffer of buffered sends. CALL becomes the call of the vendor's function, NAME its name.
_HOOKS: Final = {
    "Op_create": (
        "int code = CALL;\n    impi_start();\n"
        "    return code ? code : impi_py_adopt_op((intptr_t)user_fn, commute, LARGE, *op);"
    ),
    "Op_free": (
        "MPI_Op mine = *op;\n    impi_start();\n    int code = impi_py_Op_free(&mine);\n    return code ? code : CALL;"
    ),
    "Comm_create_errhandler": _ADOPTED_HANDLER,
    "File_create_errhandler": _ADOPTED_HANDLER.replace(
        "comm_errhandler_fn, 0", "file_errhandler_fn, 1"
    ),
    # MPI_FILE_NULL's handler becomes that of new files (MPI 4.1, 14.7), and both sides open files.
    "File_set_errhandler": (
        "if (file != IMPI_NO_FILE && !IMPI_OURS(file)) return CALL;\n    if (file == IMPI_NO_FILE) CALL;"
    ),
    "Errhandler_create": _ADOPTED_HANDLER,
    # Communicators may still use a freed handler, and Python gives it to their twins later. So the
    # vendor's handler is never freed.
    "Errhandler_free": "*errhandler = IMPI_NO_ERRHANDLER;\n    return 0;",
    "Comm_set_errhandler": "impi_set_errhandler(comm, errhandler);",
    "Errhandler_set": "impi_set_errhandler(comm, errhandler);",
    "Type_free": "if (impi_ready) impi_py_drop_type(*datatype);\n    return CALL;",
    "Error_class": _NOT_ADDED,
    "Error_string": _NOT_ADDED,
    "Startall": (
        "for (int i = 0; i < count; i++) {\n        int code = MPI_Start(&array_of_requests[i]);\n"
        "        if (code) return code;\n    }\n    return 0;"
    ),
    # Both sides buffer sends, and the program gives one buffer. The vendor gets another one of the
    # same size for sends inside the client.
    "Buffer_attach": (
        "if (size > 0 && !impi_buffer && (impi_buffer = malloc(size))) NAME(impi_buffer, size);"
    ),
    "Buffer_detach": (
        "if (impi_buffer) {\n        void *buffer;\n        __typeof__(*size) octets;\n"
        "        NAME(&buffer, &octets);\n        free(impi_buffer);\n"
        "        impi_buffer = 0;\n    }"
    ),
}

_PRELUDE: Final = """
static void *impi_buffer;
static intptr_t impi_from[2], impi_length[2];
static unsigned impi_calls;
static int impi_in_library, impi_serving; /* threads in calls of the library; the helper's turn */
static int impi_py_turn(void);
static int impi_py_adopt_op(intptr_t function, int commute, int large, MPI_Op op);
static int impi_py_adopt_errhandler(intptr_t function, int of_file, MPI_Errhandler errhandler);
static int impi_py_drop_type(MPI_Datatype datatype);

static int impi_is_ours(MPI_Comm handle) { return IMPI_OURS(handle); }

/* The library calls functions of its own by these names, too, and so does mpi4py. */
static void impi_library_at(int number, intptr_t from, intptr_t to)
{
    impi_from[number] = from;
    impi_length[number] = to - from;
}

#define IMPI_BETWEEN(at, n) ((uintptr_t)((intptr_t)(at) - impi_from[n]) < (uintptr_t)impi_length[n])
#define IMPI_FROM_LIBRARY (IMPI_BETWEEN(__builtin_return_address(0), 0) || IMPI_BETWEEN(__builtin_return_address(0), 1))

/* A helper thread of Python serves the engine while a call of the library lasts, and only then. */
static unsigned impi_passed(void) { return impi_calls; }
static int impi_inside(void) { return !!__atomic_load_n(&impi_in_library, __ATOMIC_SEQ_CST); }
static void impi_serve(int now) { __atomic_store_n(&impi_serving, now, __ATOMIC_SEQ_CST); }

static inline void impi_enter(void)
{
    impi_calls++;
    __atomic_fetch_add(&impi_in_library, 1, __ATOMIC_SEQ_CST);
}

static inline int impi_leave(int code)
{
    __atomic_fetch_sub(&impi_in_library, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&impi_serving, __ATOMIC_SEQ_CST)) usleep(10);
    /* A program whose calls are complete at once must serve its channels, too. */
    if (!(impi_calls & 255) && impi_state == 1) impi_py_turn();
    return code;
}

/* Errors of calls without a communicator: the library has MPI_COMM_SELF's handler for them. Programs
   that set that of MPI_COMM_WORLD alone count on it, as before MPI 4. */
static void impi_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
{
    static int chosen;
    if (comm == IMPI_SELF) chosen = 1;
    if (IMPI_LOCAL(comm)) PMPI_Comm_set_errhandler(comm, errhandler);
    else if (comm == IMPI_WORLD && !chosen) PMPI_Comm_set_errhandler(IMPI_SELF, errhandler);
}

#define IMPI_PASS(call) { impi_enter(); return impi_leave(call); }

static int impi_library_has(int number, const MPI_Request *requests)
{
    for (int i = 0; i < number; i++) if (IMPI_OURS(requests[i])) return 0;
    return 1;
}
"""
