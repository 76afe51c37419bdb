"""``mpif.h`` and the module ``mpi`` of Open MPI's ABI, for ``impifort``: written from the tables.

Each line stands in both forms of Fortran's source: it begins behind column 6 and ends before 73. A
constant such as MPI_IN_PLACE is a variable of a common block, known by its address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.cabi import abi_tables, emit
from impi.cabi.abi import IMPI_KEYS

ABI: Final = "openmpi"
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
"""Of a status, and of integers."""
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
"""Constants by address, and their shapes; those of spawning are texts."""
_OF_C: Final = ("F_", "T_", "F08_", "ATTR_PREDEFINED", "CONVERSION_FN", "INFO_KEY")
"""Begins of names that Fortran has not, or not as numbers."""
_FUNCTIONS: Final = (
    *(
        f"MPI_{kind}{name}_FN"
        for kind in ("", "COMM_", "TYPE_", "WIN_")
        for name in ("NULL_COPY", "NULL_DELETE", "DUP")
    ),
    "MPI_CONVERSION_FN_NULL",
)


def text() -> str:
    """Return the header."""
    return "".join(f"      {line}\n" if line else "\n" for line in _lines())


def _lines() -> Iterator[str]:
    abi = abi_tables.abi(ABI)
    yield "! MPI for Open MPI's ABI; written by impi.cabi.fortran_header."
    numbers = dict(_LAYOUT)
    for rows in emit.fortran_numbers(abi).values():
        numbers.update(rows)
    for name, value in abi.constants.items():
        if isinstance(value, int) and name not in _BLOCKS and not name.startswith(_OF_C):
            # The lengths of texts are one less than in C, which counts the end.
            text_length = name.startswith("MAX_")
            numbers.setdefault(name, value - text_length)
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
