"""Front mode: stubs before the library that the program was compiled for.

A stub is ``MPI_Name`` alone; ``PMPI_Name`` is the library's. It calls that at once

* if the caller is the library itself, or mpi4py's extension for it;
* if the function is about objects that are always the library's: datatypes, its tools;
* if the communicator is inside the client, or the request, message, file or info is the library's.

All other calls go to Python, as in stand-in mode. Handles of ours differ from the library's by
their value (:data:`OURS`), so the choice costs a comparison.
"""

from __future__ import annotations

from typing import Final

from impi.cabi.tables.abi import FIRST, Abi
from impi.cabi.tables.abi_tables import Parameter
from impi.cabi.text.stubs import ANSWERS, Stub

OURS: Final = {
    # Handles of MPICH have their kind in the upper 6 bits, even the null ones; files are addresses.
    "mpich": "((uintptr_t)(handle) < 0x04000000u)",
    # Handles of Open MPI are addresses of structures.
    "openmpi": "((handle) & 1)",
}
"""By ABI: the condition under which a handle is ours."""

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
"""What Python may call, and lends, besides :data:`impi.cabi.text.emit.DECLARED`."""

_ALWAYS: Final = ("Type_", "T_", "Status_", "Abi_")
# Functions that are the library's whatever their arguments are; the former by their beginnings.
_ALWAYS_ALSO: Final = frozenset(
    {"Get_version", "Get_library_version", "Reduce_local", "Op_commutative", "Get_address", "Address"}
)
# Functions of messages, files and collectives that have a communicator and no buffer.
_WITHOUT_BUFFER: Final = frozenset(
    {"Barrier", "Ibarrier", "Barrier_init", "Probe", "Iprobe", "Mprobe", "Improbe", "Pack_size", "File_open"}
    | {f"Comm_{verb}_buffer" for verb in ("attach", "detach", "flush", "iflush")}
)
_BY_VALUE: Final = ("REQUEST", "MESSAGE", "FILE")


def way(stub: Stub, abi: Abi) -> str:
    """Return the C statements of a stub before it turns to Python; they may return."""
    plain = stub.name.removeprefix("MPI_")
    if plain.startswith("Pcontrol"):
        return ""
    lines = [f"if (IMPI_FROM_LIBRARY) return {_call(stub)};"]
    if text := _HOOKS.get(plain.removesuffix("_c"), ""):
        for place, words in (("CALL", _call(stub)), ("NAME", f"P{stub.name}"), ("LARGE", str(int(stub.large)))):
            text = text.replace(place, words)
        lines.append(text)
    elif (plain.startswith(_ALWAYS) or plain.removesuffix("_c") in _ALWAYS_ALSO) and not _is_answered(plain):
        lines.append(f"return {_call(stub)};")
    elif condition := _condition(stub, abi):
        lines.append(f"if ({condition}) IMPI_PASS({_call(stub, abi)})")
    return "\n    ".join(lines)


def _is_answered(plain: str) -> bool:
    return plain.startswith("Status_") and plain in ANSWERS


def _call(stub: Stub, abi: Abi | None = None) -> str:
    """Return the call of the library; ``abi``: without infos that are ours."""
    words = []
    for each in stub.function.parameters:
        if abi is not None and each.kind == "INFO" and each.direction == "in" and "*" not in each.text:
            none = f"(MPI_Info)(intptr_t){abi.constants['INFO_NULL']}"
            words.append(f"IMPI_OURS({each.name}) ? {none} : {each.name}")
        else:
            words.append(each.name)
    return f"P{stub.name}({', '.join(words)})"


def _condition(stub: Stub, abi: Abi) -> str:
    """Return under which condition the arguments are the library's; empty: they never are."""
    plain = stub.name.removeprefix("MPI_").removesuffix("_c")
    kinds = {each.kind for each in stub.function.parameters}
    if "COMMUNICATOR" in kinds:
        buffers = "BUFFER" in kinds and not plain.startswith(("Neighbor", "Ineighbor", "Win_"))
        return "IMPI_LOCAL(comm)" if plain in _WITHOUT_BUFFER or buffers else ""
    if plain == "File_delete":
        return "1"
    if plain.startswith("Info_"):
        about = stub.function.parameters[0]
        if about.kind != "INFO" or about.direction == "out":
            return ""
        environment = abi.constants.get("INFO_ENV")
        if environment is None or "*" in about.text:
            return f"!IMPI_OURS({_value(about)})"
        return f"!IMPI_OURS({about.name}) && {about.name} != (MPI_Info)(intptr_t){environment}"
    return _by_value(stub)


def _by_value(stub: Stub) -> str:
    for each in stub.function.parameters:
        if each.kind in _BY_VALUE and each.direction != "out":
            has = f"impi_library_has({each.length}, {each.name})"
            return has if each.is_array else f"!IMPI_OURS({_value(each)})"
    return ""


def _value(parameter: Parameter) -> str:
    return f"*{parameter.name}" if "*" in parameter.text else parameter.name


def prelude(abi: Abi) -> list[str]:
    """Return the C text before the stubs."""
    world, own, null = (f"(MPI_Comm)(intptr_t){abi.constants[f'COMM_{name}']}" for name in ("WORLD", "SELF", "NULL"))
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
    """Return the statement of a function between handles and Fortran's numbers."""
    call = f"P{stub.name}({given})"
    if stub.name.endswith(("c2f", "toint")):
        return f"return IMPI_OURS({given}) ? ({stub.function.result}){given} : {call};"
    ours = f"{given} >= {FIRST[abi.name][0]} && IMPI_OURS({given})"
    return f"return {ours} ? ({stub.function.result})(intptr_t){given} : {call};"


_ADOPTED_HANDLER: Final = (
    "int code = CALL;\n    impi_start();\n"
    "    return code ? code : impi_py_adopt_errhandler((intptr_t)comm_errhandler_fn, 0, *errhandler);"
)
_NOT_ADDED: Final = "if (errorcode <= IMPI_LAST_CODE) return CALL;"
# C statements of functions whose objects both sides have; CALL calls the library's NAME.
_HOOKS: Final = {
    "Op_create": (
        "int code = CALL;\n    impi_start();\n"
        "    return code ? code : impi_py_adopt_op((intptr_t)user_fn, commute, LARGE, *op);"
    ),
    "Op_free": (
        "MPI_Op mine = *op;\n    impi_start();\n    int code = impi_py_Op_free(&mine);\n    return code ? code : CALL;"
    ),
    "Comm_create_errhandler": _ADOPTED_HANDLER,
    "File_create_errhandler": _ADOPTED_HANDLER.replace("comm_errhandler_fn, 0", "file_errhandler_fn, 1"),
    # New files of both sides have the handler of MPI_FILE_NULL.
    "File_set_errhandler": (
        "if (file != IMPI_NO_FILE && !IMPI_OURS(file)) return CALL;\n    if (file == IMPI_NO_FILE) CALL;"
    ),
    "Errhandler_create": _ADOPTED_HANDLER,
    # Communicators may use it on: the library keeps it.
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
    # Bsend inside the client copies into the library's own buffer, of the same size.
    "Buffer_attach": ("if (size > 0 && !impi_buffer && (impi_buffer = malloc(size))) NAME(impi_buffer, size);"),
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
