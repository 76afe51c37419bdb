"""Write the headers for compilers from the tables: ``mpi.h``, ``mpif.h`` and the module ``mpi``.

``mpi.h`` has the standard ABI, for ``impicc``. Fortran's header and module have Open MPI's ABI, for
``impifort``. Each line of ``mpif.h`` is valid in fixed and in free form: it begins after column 6
and ends before column 73. A constant such as MPI_IN_PLACE is a variable in a common block, which
the library knows by its address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi import IMPI_KEYS
from impi.cabi.text import emit

_GUARD: Final = "IMPI_MPI_H"
FORTRAN_ABI: Final = "openmpi"
MODULE: Final = "module mpi\n  implicit none\n  include 'mpif.h'\nend module mpi\n"
_LAYOUT: Final = {
    "STATUS_SIZE": 6,
    "SOURCE": 1,
    "TAG": 2,
    "ERROR": 3,
    "INTEGER_KIND": 4,
    "ADDRESS_KIND": 8,
    "COUNT_KIND": 8,
    "OFFSET_KIND": 8,
}
# Constants that the library knows by address, and their shapes; those of spawning are texts.
_BLOCKS: Final = {
    "BOTTOM": "",
    "IN_PLACE": "",
    "UNWEIGHTED": "(1)",
    "WEIGHTS_EMPTY": "(1)",
    "ERRCODES_IGNORE": "(1)",
    "STATUS_IGNORE": "(MPI_STATUS_SIZE)",
    "STATUSES_IGNORE": "(MPI_STATUS_SIZE, 1)",
    "ARGV_NULL": "(1)",
    "ARGVS_NULL": "(1, 1)",
}
_OF_C: Final = ("F_", "T_", "F08_", "ATTR_PREDEFINED", "CONVERSION_FN", "INFO_KEY")
_FUNCTIONS: Final = (
    *(
        f"MPI_{kind}{name}_FN"
        for kind in ("", "COMM_", "TYPE_", "WIN_")
        for name in ("NULL_COPY", "NULL_DELETE", "DUP")
    ),
    "MPI_CONVERSION_FN_NULL",
)


def c_header() -> str:
    """Return the text of ``mpi.h`` for the standard ABI."""
    return "\n".join(_lines_of_c()) + "\n"


def _lines_of_c() -> Iterator[str]:
    shown = json.loads((abi_tables.FOLDER / "header.json").read_text())
    types: dict[str, str] = shown["types"]
    yield f"/* MPI 5.0, standard ABI; written by impi.cabi.text.headers. */\n#ifndef {_GUARD}\n#define {_GUARD}"
    yield '#include <stdint.h>\n#ifdef __cplusplus\nextern "C" {\n#endif'
    yield "typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset, MPI_Count;\ntypedef int MPI_Fint;"
    yield "typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5]; } MPI_Status;"

    yield "typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5]; } MPI_F08_status;"
    # Incomplete structures, so that a compiler tells one kind of handle from another.
    for name in (*abi_tables.HANDLES.values(), *emit.TOOLS):
        yield f"typedef struct MPI_ABI_{name} *MPI_{name};"

    yield "typedef int MPI_T_cb_safety, MPI_T_source_order;"

    yield from shown["callbacks"]
    for name, value in abi_tables.abi("standard").constants.items():
        kind = types.get(f"MPI_{name}")
        yield (
            f"#define MPI_{name} (({kind}){value})"
            if kind
            else f"#define MPI_{name} ({value})"
        )

    for name, key in IMPI_KEYS.items():
        yield f"#define {name} {key}"

    for function in abi_tables.functions():
        for large in (False, True)[: 1 + function.large]:
            arguments = ", ".join(
                each.large if large else each.text for each in function.parameters
            )
            arguments = arguments.replace("\\ldots", "...") or "void"
            plain = f"{function.name}{'_c' if large else ''}({arguments});"
            yield f"{function.result} {plain}\n{function.result} P{plain}"

    yield "#ifdef __cplusplus\n}\n#endif\n#endif"


def fortran_header() -> str:
    """Return the text of ``mpif.h`` for Open MPI's ABI."""
    return "".join(f"      {line}\n" if line else "\n" for line in _lines_of_fortran())


def _lines_of_fortran() -> Iterator[str]:
    abi = abi_tables.abi(FORTRAN_ABI)
    yield "! MPI for Open MPI's ABI; by impi.cabi.text.headers."

    numbers = dict(_LAYOUT)
    for rows in emit.fortran_numbers(abi).values():
        numbers.update(rows)

    for name, value in abi.constants.items():
        if (
            isinstance(value, int)
            and name not in _BLOCKS
            and not name.startswith(_OF_C)
        ):
            # Lengths of texts are one less than in C, which counts the final zero.
            text_length = name.startswith("MAX_")
            numbers.setdefault(name, value - text_length)

    # Declared besides, as many programs say 'implicit none'.
    for name, value in numbers.items():
        yield f"integer MPI_{name}"
        yield f"parameter (MPI_{name}={value})"

    for name, value in IMPI_KEYS.items():
        yield f"integer {name}"
        yield f"parameter ({name}={value})"

    for name, shape in _BLOCKS.items():
        yield f"{'character' if name.startswith('ARGV') else 'integer'} MPI_{name}{shape}"
        yield f"common /mpi_fortran_{name.lower()}/ MPI_{name}"

    for name in _FUNCTIONS:
        yield f"external {name}"

    for name in ("WTIME", "WTICK"):
        yield f"double precision MPI_{name}, PMPI_{name}"
        yield f"external MPI_{name}, PMPI_{name}"

    for name in ("AINT_ADD", "AINT_DIFF"):
        yield f"integer(kind=MPI_ADDRESS_KIND) MPI_{name}"
        yield f"external MPI_{name}"
