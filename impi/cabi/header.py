"""The header ``mpi.h`` of the standard ABI, for ``impicc``: written from the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from impi.cabi import abi_tables
from impi.cabi.abi import IMPI_KEYS
from impi.cabi.abi_tables import FOLDER, HANDLES
from impi.cabi.emit import TOOLS

_GUARD: Final = "IMPI_MPI_H"


def text() -> str:
    """Return the header."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    shown = json.loads((FOLDER / "header.json").read_text())
    types: dict[str, str] = shown["types"]
    yield f"/* MPI 5.0, standard ABI; written by impi.cabi.header. */\n#ifndef {_GUARD}\n#define {_GUARD}"
    yield '#include <stdint.h>\n#ifdef __cplusplus\nextern "C" {\n#endif'
    yield "typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset, MPI_Count;\ntypedef int MPI_Fint;"
    yield "typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5]; } MPI_Status;"
    yield "typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5]; } MPI_F08_status;"
    for name in (*HANDLES.values(), *TOOLS):
        yield f"typedef struct MPI_ABI_{name} *MPI_{name};"
    yield "typedef int MPI_T_cb_safety, MPI_T_source_order;"
    yield from shown["callbacks"]
    for name, value in abi_tables.abi("standard").constants.items():
        kind = types.get(f"MPI_{name}")
        yield f"#define MPI_{name} (({kind}){value})" if kind else f"#define MPI_{name} ({value})"
    for name, key in IMPI_KEYS.items():
        yield f"#define {name} {key}"
    for function in abi_tables.functions():
        for large in (False, True)[: 1 + function.large]:
            arguments = ", ".join(each.large if large else each.text for each in function.parameters)
            arguments = arguments.replace("\\ldots", "...") or "void"
            plain = f"{function.name}{'_c' if large else ''}({arguments});"
            yield f"{function.result} {plain}\n{function.result} P{plain}"
    yield "#ifdef __cplusplus\n}\n#endif\n#endif"
