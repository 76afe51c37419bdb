"""Write the C text of a library: a stub for each function, which calls Python or answers itself.

A stub is ``PMPI_Name``, with ``MPI_Name`` as a weak alias, so that a profiler can replace the one
and call the other. It converts C types only (:func:`impi.cabi.tables.abi_tables.wire_type`) and
calls ``impi_py_Name``, the function that cffi lends from Python. Calls in
:data:`impi.cabi.text.stubs.ANSWERS` need no Python where C knows the answer. In front mode the stub
is ``MPI_Name`` only (:mod:`impi.cabi.text.front_stubs`).

Text comes in one order, in which each part may use those before it: types of the ABI, ``start.c``,
data whose addresses are handles, Fortran's numbers, stubs, what other languages need.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from impi.cabi.tables import kept
from impi.cabi.tables.abi import Abi
from impi.cabi.tables.abi_tables import FOLDER, HANDLES, Function, wire_type
from impi.cabi.text import front_stubs, language_stubs
from impi.cabi.text.stubs import Stub, answer, conversion, is_tool, needs_python, stubs

_OBJECTS: Final = ("Comm", "Type", "Win")
_CALLBACKS: Final = (
    *("Copy_function", "Delete_function", "User_function", "User_function_c"),
    *(
        f"{kind}_{verb}_attr_function"
        for kind in _OBJECTS
        for verb in ("copy", "delete")
    ),
    *(f"{kind}_errhandler_function" for kind in ("Comm", "File", "Win", "Session")),
    *(f"Grequest_{name}_function" for name in ("query", "free", "cancel")),
    *(
        "Datarep_conversion_function",
        "Datarep_conversion_function_c",
        "Datarep_extent_function",
    ),
    *("T_event_cb_function", "T_event_free_cb_function", "T_event_dropped_cb_function"),
)
TOOLS: Final = (
    "T_cvar_handle",
    "T_enum",
    "T_event_instance",
    "T_event_registration",
    "T_pvar_handle",
    "T_pvar_session",
)
_ENUMS: Final = ("T_cb_safety", "T_source_order")

DECLARED: Final = """
typedef ... MPI_Status;
void impi_know(intptr_t key, int first, int second, int third);
void impi_now(int state, int level);
int impi_active(void);
void impi_join(void);
void impi_flush(void);
void impi_set_status(intptr_t at, int source, int tag, int error, int cancelled, int64_t octets, int longs);
int64_t impi_status_octets(intptr_t at);
int impi_status_longs(intptr_t at);
int impi_status_cancelled(intptr_t at);
int impi_status_source(intptr_t at);
int impi_status_tag(intptr_t at);
int impi_status_error(intptr_t at);
intptr_t impi_symbol(int number);
int impi_fortran_number(int owner, intptr_t object);
void impi_handle_later(intptr_t function, intptr_t handle, int wide, int code);
#define IMPI_STATUS_SIZE ...
"""
"""C functions and constants that Python uses, as cffi declares them."""


def source(
    abi: Abi,
    functions: Iterable[Function],
    python: str,
    soname: str,
    before: Set[str] | None = None,
    folders: Sequence[str] = (),
) -> str:
    """Return the C text of a library.

    Args:
        abi: the programs' ABI.
        functions: MPI's functions.
        python: path of the interpreter whose environment has impi.
        soname: the name of the library.
        before: in front mode, the functions of the vendor's library, and only these are exported;
            None: stand-in mode.
        folders: of modules of that interpreter, for a Python that the program has started itself.
    """

    # A stub for a function that the vendor lacks could not pass its calls on.
    every = [each for each in stubs(functions) if before is None or each.name in before]
    lines = [
        *types(abi),
        f'#define IMPI_PYTHON "{python}"',
        f'#define IMPI_SONAME "{soname}"',
    ]
    # A Python that the program has started itself serves only if it has the binary
    # interface that this is compiled for.
    series = f"{sys.version_info.major}.{sys.version_info.minor}."
    code = f"import sys; sys.path += [f for f in {list(folders)} if f not in sys.path]"
    lines += [
        f'#define IMPI_PYTHON_SERIES "{series}"',
        f"#define IMPI_FOLDERS {json.dumps(code)}",
    ]
    lines.append(f"#define IMPI_KIND {1 if before is None else 2}")
    lines.append(f"#define IMPI_GONE {abi.constants['ERR_OTHER']}")
    lines.append(f"#define IMPI_TOOLS {abi.constants['T_ERR_NOT_INITIALIZED']}")

    lines += [kept.c_text(), (FOLDER / "start.c").read_text()]
    lines += _symbols(abi, defined=before is None)
    if before is not None:
        lines += front_stubs.prelude(abi)

    numbered = fortran_numbers(abi)
    lines += [_numbers(abi, kind, rows) for kind, rows in numbered.items()]

    lines.append(
        "#define KNOWN(handle, out, member) const impi_entry *known = impi_known((intptr_t)handle);"
        " if (known) { *out = known->member; return 0; }"
    )
    # Declared before the stubs, because these call each other and the vendor's functions.
    if before is not None:
        lines += [
            f"extern {stub.function.result} {_stub_head(stub, 'P')};" for stub in every
        ]
        lines += [f"{stub.function.result} {_stub_head(stub)};" for stub in every]

    for stub in every:
        lines += _stub(stub, numbered) if before is None else _front(stub, abi)

    lines += language_stubs.stubs(abi, front=before is not None)

    return "\n".join(lines) + "\n"


def declarations(
    abi: Abi, functions: Iterable[Function], *, front: bool = False
) -> str:
    """Return cffi's declarations: the Python functions behind the stubs, and :data:`DECLARED`."""

    lines = [f"typedef {abi.handle_of(name)} MPI_{name};" for name in HANDLES.values()]
    lines += [
        DECLARED,
        language_stubs.DECLARED,
        front_stubs.DECLARED if front else "",
        'extern "Python" {',
        "int impi_py_hello(void);",
        "int impi_py_left(int status);",
    ]
    lines += [f"{_prototype(stub)};" for stub in stubs(functions) if needs_python(stub)]

    return "\n".join([*lines, "}"])


def types(abi: Abi) -> list[str]:
    """Return the declarations of an ABI's types."""

    lines = [
        "#include <stdint.h>",
        "typedef intptr_t MPI_Aint;",
        "typedef int64_t MPI_Count, MPI_Offset;",
    ]
    lines += ["typedef int MPI_Fint;", "typedef struct { int all[8]; } MPI_F08_status;"]
    lines += [f"typedef {abi.handle_of(name)} MPI_{name};" for name in HANDLES.values()]
    lines += [
        f"typedef struct {{ {abi.status} }} MPI_Status;",
        "#define IMPI_STATUS_SIZE ((int)sizeof(MPI_Status))",
    ]
    # Stubs hand these addresses on and call none, so their parameters do not matter here.
    lines += [f"typedef void MPI_{name}(void);" for name in _CALLBACKS]
    lines += [f"typedef void *MPI_{name};" for name in TOOLS]
    lines += [f"typedef int MPI_{name};" for name in _ENUMS]

    return [*lines, *_ACCESS[abi.name]]


_WIDE: Final = (
    "#define IMPI_PACKED(s) ((uint64_t)(s)->high << 32 | (s)->low)",
    "#define IMPI_CANCELLED(s) ((s)->cancelled)",
    "#define IMPI_PUT(s, v, c) ((s)->low = (unsigned)(v), (s)->high = (unsigned)((v) >> 32), (s)->cancelled = (c))",
)
# Each ABI hides the number of octets and the cancelled flag in other members of MPI_Status, and
# programs compiled for it copy whole statuses. These macros are all that start.c knows of that.
_ACCESS: Final = {
    "standard": _WIDE,
    "mpich": (
        "#define IMPI_PACKED(s) ((uint64_t)((s)->high_and_cancelled >> 1) << 32 | (s)->low)",
        "#define IMPI_CANCELLED(s) ((int)((s)->high_and_cancelled & 1))",
        "#define IMPI_PUT(s, v, c) ((s)->low = (unsigned)(v), "
        "(s)->high_and_cancelled = (unsigned)((v) >> 32) << 1 | !!(c))",
    ),
    "openmpi": (
        "#define IMPI_PACKED(s) ((uint64_t)(s)->count)",
        "#define IMPI_CANCELLED(s) ((s)->cancelled)",
        "#define IMPI_PUT(s, v, c) ((s)->count = (v), (s)->cancelled = (c))",
    ),
}


# Constants that are functions, such as MPI_COMM_DUP_FN, by the ends of their names. They have a
# body, because a program may call one itself.
_FUNCTIONS: Final = {
    "Dup_fn": (
        "int key, void *extra, void *in, void *out, int *flag",
        "*(void **)out = in; *flag = 1; return 0;",
    ),
    "NULL_COPY_FN": (
        "int key, void *extra, void *in, void *out, int *flag",
        "*flag = 0; return 0;",
    ),
    "NULL_DELETE_FN": ("int key, void *in, void *extra", "return 0;"),
}
_FUNCTIONS["DUP_FN"] = _FUNCTIONS["Dup_fn"]


def definitions(abi: Abi) -> list[str]:
    """Return C definitions of :attr:`.Abi.symbols`.

    A handle is the address of its data, whose content nothing reads. The data must not be larger
    than programs expect: the loader copies it into programs that are not position-independent.
    MPI's other data are pointers (MPICH's MPI_UNWEIGHTED). Programs read their values, so none is
    null.
    """
    return [_defined(abi, name) for name in abi.symbols]


def _defined(abi: Abi, name: str) -> str:
    for end, (parameters, body) in _FUNCTIONS.items():
        if name.endswith(end):
            return f"int {name}({abi.handle} object, {parameters}) {{ {body} }}"

    if name.startswith("MPI_"):
        return f"static int impi_at_{name}[8]; int *{name} = impi_at_{name};"

    return f"long {name}[1];"


def _symbols(abi: Abi, *, defined: bool) -> list[str]:
    """Return definitions, or in front mode weak declarations: the vendor may lack some symbols."""

    lines = (
        definitions(abi)
        if defined
        else [f"extern long {name}[1] __attribute__((weak));" for name in abi.symbols]
    )
    lines.append(
        "static void *impi_symbols[] = {"
        + "".join(f"&{name}, " for name in abi.symbols)
        + "0};"
    )
    lines.append(
        "static intptr_t impi_symbol(int number) { return (intptr_t)impi_symbols[number]; }"
    )

    return lines


def fortran_numbers(abi: Abi) -> Mapping[str, Mapping[str, int]]:
    """Return Fortran's numbers of constants, by kind and name, where these differ from C's handles.

    Open MPI's ``mpif.h`` fixed them in programs at compile time. All other handles have the same
    number in both languages, above these.
    """
    known: dict[str, dict[str, dict[str, int]]] = json.loads(
        (FOLDER / "fortran_numbers.json").read_text()
    )
    return known.get(abi.name, {})


def _numbers(abi: Abi, kind: str, rows: Mapping[str, int]) -> str:
    pairs = [
        f"{{(intptr_t){abi.constants[name]}, {number}}}"
        for name, number in rows.items()
    ]
    return f"static const impi_number impi_numbers_{kind}[] = {{{', '.join(pairs)}, {{0, -1}}}};"


def _prototype(stub: Stub) -> str:
    wired = [wire_type(each, large=stub.large) for each in stub.function.parameters]
    result = (
        stub.function.result
        if stub.function.result in ("int", "double")
        else "intptr_t"
    )
    return f"{result} {stub.python}({', '.join(wired) or 'void'})"


def _converted(stub: Stub, given: str, numbered: Iterable[str]) -> str:
    kind = stub.name.split("_")[1]
    if kind not in numbered:
        return f"return ({stub.function.result})(intptr_t){given};"

    verb = "number" if stub.name.endswith(("c2f", "toint")) else "handle"

    return f"return impi_{verb}_of(impi_numbers_{kind}, {given});"


def _stub_head(stub: Stub, prefix: str = "") -> str:
    named = ", ".join("..." if "ldots" in text else text for text in stub.texts)
    return f"{prefix}{stub.name}({named or 'void'})"


def _stub(stub: Stub, numbered: Iterable[str]) -> Iterator[str]:
    function = stub.function
    if needs_python(stub):
        yield f"static {_prototype(stub)};"

    yield f"{function.result} {_stub_head(stub, 'P')}"

    yield "{"
    if (given := conversion(function)) is not None:
        yield f"    {_converted(stub, given, numbered)}"
    elif is_tool(stub):
        yield "    return IMPI_TOOLS;" if function.result == "int" else "    return 0;"
    else:
        yield from _served(stub)

    yield "}"
    yield f'__typeof__(P{stub.name}) {stub.name} __attribute__((weak, alias("P{stub.name}")));'


def _served(stub: Stub) -> Iterator[str]:
    if text := answer(stub):
        yield f"    {text}"

    if needs_python(stub):
        wired = [
            f"({wire_type(each, large=stub.large)}){each.name}"
            for each in stub.function.parameters
        ]
        if stub.function.result == "int":
            # Extension modules may call MPI after Python has ended: an error, not a crash.
            yield "    if (impi_gone()) return IMPI_GONE;"

        yield "    impi_start();"
        call = f"{stub.python}({', '.join(wired)})"
        # Only functions with an error code can have an error handler to call afterwards.
        is_code = stub.function.result == "int"
        yield (
            f"    IMPI_AFTER({call})"
            if is_code
            else f"    return ({stub.function.result}){call};"
        )


def _front(stub: Stub, abi: Abi) -> Iterator[str]:
    if needs_python(stub):
        yield f"static {_prototype(stub)};"

    yield f"{stub.function.result} {_stub_head(stub)}"

    yield "{"
    if (given := conversion(stub.function)) is not None:
        yield f"    {front_stubs.converted(stub, given, abi)}"
    else:
        yield f"    {front_stubs.way(stub, abi)}"
        yield from _served(stub)

    yield "}"
