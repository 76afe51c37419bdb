"""Open MPI's library for Fortran, ``libmpi_mpifh.so.40``, over our C library of its ABI.

Open MPI's own library reads the structures behind its handles, so programs get this one instead. A
function ``ompi_name_f`` converts what Fortran passes, calls ``PMPI_Name``, and converts back:

* numbers come by address, and handles are integers;
* texts are padded with blanks, and their lengths stand behind all parameters;
* constants such as MPI_IN_PLACE are variables, known by their addresses.

Each function has all names that Fortran compilers make of ``MPI_Name``. ``fortran.c`` has the
functions that cannot be generated. The modules of Fortran 2008 call the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from impi.base.records import record
from impi.cabi.tables.abi import Abi
from impi.cabi.tables.abi_tables import FOLDER, HANDLES, Function, Parameter

_ATTRIBUTES: Final = tuple(
    f"{kind}_{verb}"
    for kind in ("Comm", "Type", "Win")
    for verb in ("create_keyval", "set_attr", "get_attr")
)
BY_HAND: Final = (
    *(
        *_ATTRIBUTES,
        "Keyval_create",
        "Attr_put",
        "Attr_get",
        "Op_create",
        "Grequest_start",
        "Register_datarep",
    ),
    *(
        "Comm_create_errhandler",
        "Errhandler_create",
        "Win_create_errhandler",
        "File_create_errhandler",
    ),
    *("Wtime", "Wtick", "Aint_add", "Aint_diff", "Pcontrol"),
)
"""C functions that ``fortran.c`` has for Fortran; it also has F_sync_reg, which C lacks."""
# Functions of MPI 1, whose addresses are default integers in Fortran: later ones have MPI_Aint.
_NARROW: Final = (
    "Address",
    "Type_extent",
    "Type_lb",
    "Type_ub",
    "Type_hvector",
    "Type_hindexed",
    "Type_struct",
)
_COUNTED: Final = (
    "Waitany",
    "Testany",
    "Waitsome",
    "Testsome",
    *(f"Request_get_status_{n}" for n in ("any", "some")),
)
_LEFT_OUT: Final = re.compile(
    r"MPI_(T_.*|Abi_.*|\w+_(c2f|f2c|toint|fromint)|Status_(f|c)\w*2\w+|Session_.*errh.*|\w+_c)"
)
_SIZES: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "real32": 4,
    "real64": 8,
    "real128": 16,
    "logical": 4,
}
_SIZES.update({"complex32": 8, "complex64": 16, "complex128": 32, "character": 1})
_CONSTANTS: Final = (
    "BOTTOM",
    "IN_PLACE",
    "UNWEIGHTED",
    "WEIGHTS_EMPTY",
    "UNDEFINED",
    "CART",
    "GRAPH",
    "DIST_GRAPH",
)
_ROOM: Final = 8192  # octets for a text that C writes, more than MPI's longest


@record(kw_only=True)
class _Argument:
    declared: str = ""  # its declaration; empty: Fortran has none
    given: str
    before: str = ""
    after: str = ""  # statements before and after the call; `code` is its result
    hidden: str = ""  # declaration of a length behind all parameters


def source(abi: Abi, functions: Iterable[Function], types: Iterable[str]) -> str:
    """Return the C text of the library.

    Args:
        abi: Open MPI's.
        functions: of MPI.
        types: the declarations of the ABI's types.
    """

    served = [each for each in functions if not _LEFT_OUT.fullmatch(each.name)]
    lines = ["#include <stdlib.h>\n#include <string.h>", *types]
    lines += [f"#define IMPI_{name} {abi.constants[name]}" for name in _CONSTANTS]
    lines += [_extern(each) for each in functions]

    lines.append((FOLDER / "fortran.c").read_text())
    for each in served:
        if each.name[4:] not in BY_HAND:
            lines += _function(each)

    for name in [*(each.name[4:] for each in served), "F_sync_reg"]:
        lines += _aliases(name.lower())

    return "\n".join([*lines, *_of_modules()]) + "\n"


def _extern(function: Function) -> str:
    given = ", ".join(
        "..." if "ldots" in each.text else each.text for each in function.parameters
    )
    return f"extern {function.result} P{function.name}({given or 'void'});"


def _of_modules() -> Iterator[str]:
    """Yield functions that Open MPI's modules call besides: with C pointers, and MPI_Sizeof."""
    for name in (
        "alloc_mem",
        "win_allocate",
        "win_allocate_shared",
        "win_shared_query",
    ):
        for form in (f"mpi_{name}_cptr_", f"pmpi_{name}_cptr_", f"ompi_{name}_cptr_f"):
            yield _alias(form, name)

    for kind, octets in _SIZES.items():
        for shape in ("scalar", *(f"r{rank}" for rank in range(1, 16))):
            yield f"void mpi_sizeof_{kind}_{shape}_(void *x, MPI_Fint *size, MPI_Fint *ierror)"
            yield f"{{ *size = {octets}; if (ierror) *ierror = 0; }}"


def _aliases(name: str) -> Iterator[str]:
    """Yield the names under which Fortran compilers look for a function.

    gfortran appends one underscore, others none, two, or take capitals. The aliases are weak, so a
    profiler's functions of these names win.
    """
    for spelled in (f"mpi_{name}", f"pmpi_{name}"):
        for form in (spelled, f"{spelled}_", f"{spelled}__", spelled.upper()):
            yield _alias(form, name)


def _alias(form: str, name: str) -> str:
    return f'extern __typeof__(ompi_{name}_f) {form} __attribute__((weak, alias("ompi_{name}_f")));'


def _function(function: Function) -> Iterator[str]:
    arguments = [_argument(function, parameter) for parameter in function.parameters]
    declared = [each.declared for each in arguments if each.declared]
    hidden = [each.hidden for each in arguments if each.hidden]
    head = ", ".join([*declared, "MPI_Fint *ierror", *hidden])
    yield f"void ompi_{function.name[4:].lower()}_f({head})\n{{"
    yield from (f"    {each.before}" for each in arguments if each.before)
    yield f"    int code = P{function.name}({', '.join(each.given for each in arguments)});"
    yield from (f"    {each.after}" for each in arguments if each.after)
    yield "    RETURN;\n}"


def _argument(function: Function, parameter: Parameter) -> _Argument:
    name, kind = parameter.name, parameter.kind
    if kind in HANDLES:
        return (
            _handles(function, parameter) if parameter.is_array else _handle(parameter)
        )

    if kind == "STRING":
        return _text(function, parameter)

    if kind in _PLACES:
        return _Argument(
            declared=f"{_PLACES[kind][0]} *{name}", given=_PLACES[kind][1].format(name)
        )

    if function.name[4:] in _NARROW and "MPI_Aint" in parameter.text:
        return _narrow(parameter)

    return _number(function, parameter)


# Parameters that are addresses in both languages: C type, and the expression that C gets. AT,
# STATUS and WEIGHTS are macros of fortran.c that recognise the constants.
_PLACES: Final = {
    "BUFFER": ("char", "AT({0})"),
    "C_BUFFER": ("char", "{0}"),
    "C_BUFFER2": ("char", "&(void *){{0}}"),
    "STATUS": ("MPI_Fint", "STATUS({0})"),
    "WEIGHT": ("MPI_Fint", "WEIGHTS({0})"),
    "STRING_ARRAY": ("char", "0"),
    "STRING_2DARRAY": ("char", "0"),
}


def _number(function: Function, parameter: Parameter) -> _Argument:
    """Return a number, or a row of numbers, which has the same form in C and Fortran."""

    # Argc and argv of main(), which Fortran has not
    if parameter.kind.startswith("ARGUMENT_"):
        return _Argument(given="0")

    found = re.match(r"(?:const )?(\w+)(\*?) ", parameter.text)
    assert found is not None, parameter.text
    base, name = found[1], parameter.name
    base = base if base in ("MPI_Aint", "MPI_Count", "MPI_Offset") else "MPI_Fint"

    given, after = name, ""
    if parameter.kind == "ERROR_CODE" and parameter.is_array:
        given = f"(IS({name}, errcodes_ignore) ? 0 : {name})"
    elif parameter.kind == "INDEX" and function.name[4:] in _COUNTED:
        # Indices of requests start with 1 in Fortran, and with 0 in C (MPI 4.1, 3.7.5).
        many = (
            "code ? 0 : *outcount > 0 ? *outcount : 0"
            if parameter.is_array
            else "!code"
        )
        after = f"impi_count_from_1({name}, {many});"
    elif "[3]" in parameter.text:
        # Triples of ranks, as in MPI_Group_range_incl, lie alike in both
        # languages. Only C's type differs.
        given = f"(void *){name}"
    elif not found[2] and not parameter.is_array:
        given = f"!!*{name}" if parameter.kind == "LOGICAL" else f"*{name}"

    return _Argument(declared=f"{base} *{name}", given=given, after=after)


def _narrow(parameter: Parameter) -> _Argument:
    name = parameter.name

    declared = f"MPI_Fint *{name}"
    if parameter.is_array:
        many = f"*{parameter.length}"
        before = f"MPI_Aint c_{name}[ROOM({many})]; for (int i = 0; i < {many}; i++) c_{name}[i] = {name}[i];"
        return _Argument(declared=declared, given=f"c_{name}", before=before)

    if parameter.direction == "in":
        return _Argument(declared=declared, given=f"*{name}")

    after = f"if (!code) *{name} = (MPI_Fint)c_{name};"

    return _Argument(
        declared=declared,
        given=f"&c_{name}",
        before=f"MPI_Aint c_{name} = 0;",
        after=after,
    )


def _converter(parameter: Parameter) -> tuple[str, str]:
    """Return the C type of a handle, and the prefix of its conversion functions."""
    kind = HANDLES[parameter.kind]
    return f"MPI_{kind}", f"PMPI_{'Type' if kind == 'Datatype' else kind}"


def _handle(parameter: Parameter) -> _Argument:
    name, (kind, convert) = parameter.name, _converter(parameter)

    declared = f"MPI_Fint *{name}"
    if "*" not in parameter.text:
        return _Argument(declared=declared, given=f"{convert}_f2c(*{name})")

    given, first = (
        f"&c_{name}",
        f" = {convert}_f2c(*{name})" if parameter.direction != "out" else "",
    )
    # A failed call leaves the program's variable as it was.
    when = "if (!code) " if parameter.direction == "out" else ""
    after = f"{when}*{name} = {convert}_c2f(c_{name});"

    return _Argument(
        declared=declared, given=given, before=f"{kind} c_{name}{first};", after=after
    )


def _handles(function: Function, parameter: Parameter) -> _Argument:
    name, (kind, convert) = parameter.name, _converter(parameter)

    many = f"*{parameter.length}"
    if parameter.length == "*":  # Alltoallw
        many = "impi_peers(PMPI_Comm_f2c(*comm))"
        if "eighbor" in function.name:
            many = f"impi_neighbors(PMPI_Comm_f2c(*comm), {int(name == 'sendtypes')})"
        elif name == "sendtypes":
            # With MPI_IN_PLACE the array is not significant, and may be no array at all.
            many = f"IS(sendbuf, in_place) ? 0 : {many}"

    before = f"int n_{name} = {many}; {kind} c_{name}[ROOM(n_{name})];"
    if parameter.direction != "out":
        before += f" for (int i = 0; i < n_{name}; i++) c_{name}[i] = {convert}_f2c({name}[i]);"

    after = ""
    if parameter.direction != "in":
        rows = f"for (int i = 0; i < n_{name}; i++) {name}[i] = {convert}_c2f(c_{name}[i]);"
        # Requests also after a failure: those that are complete are null then (MPI 4.1, 3.7.5).
        after = f"if (!code) {rows}" if parameter.direction == "out" else rows

    return _Argument(
        declared=f"MPI_Fint *{name}", given=f"c_{name}", before=before, after=after
    )


def _text(function: Function, parameter: Parameter) -> _Argument:
    name = parameter.name

    declared, hidden = f"char *{name}", f"int {name}_len"
    if parameter.direction == "in":
        before = f"char *c_{name} = impi_text({name}, {name}_len);"
        return _Argument(
            declared=declared,
            given=f"c_{name}",
            before=before,
            after=f"free(c_{name});",
            hidden=hidden,
        )

    others = [each.name for each in function.parameters]
    room = (
        f"{_ROOM} + (*valuelen > 0 ? *valuelen : 0)"
        if "valuelen" in others
        else f"{_ROOM}"
    )
    # Where there is no value, C writes nothing, and the program's text stays as it was.
    found = "!code && *flag" if "flag" in others else "!code"
    before = f"char c_{name}[{room}]; *c_{name} = 0;"
    after = f"if ({found}) impi_fill({name}, {name}_len, c_{name});"

    return _Argument(
        declared=declared, given=f"c_{name}", before=before, after=after, hidden=hidden
    )
