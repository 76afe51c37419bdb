"""The values that a header gives to names, as its compiler sees them: nothing is run.

All of them are the elements of one array in a section of an object file, which is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library.elf_file import ElfFile
from impi.tools.abi.compilers import Compiler

_SECTION: Final = "impi_abi_values"
_HEAD: Final = "#include <stddef.h>\n#include <stdint.h>\n#include <{header}>\n"
_UNKNOWN: Final = re.compile(
    r"\b(MPI_\w+)['’] (?:undeclared|was not declared)|undeclared identifier ['‘](MPI_\w+)"
)
_ROUNDS: Final = 3


def read_values(
    compiler: Compiler, expressions: Sequence[str], folder: Path
) -> dict[str, int | str]:
    """Return the values of expressions in C, by these; a text says why one has none.

    Raises:
        LaunchError: the compiler refuses what it does not name.
    """

    left, unknown = list(expressions), dict[str, int | str]()
    # Some compilers stop after a number of errors, clang after 20, so unknown
    # names may show in several rounds.
    for _ in range(_ROUNDS):
        failure = _compile(compiler, left, folder)

        gone = _unknown(failure, left)
        if not gone:
            break

        unknown |= dict.fromkeys(gone, "the header does not have it")
        left = [each for each in left if each not in unknown]

    if failure:
        words = next(
            (line for line in failure.splitlines() if "error" in line),
            failure.splitlines()[-1],
        )
        raise LaunchError(
            f"{compiler.title} cannot compile the constants: {words.strip()[-160:]}"
        )

    made = ElfFile(folder / "values.o")
    values: dict[str, int | str] = dict(zip(left, made.values(_SECTION), strict=True))
    # A value that the linker has to fill in is not a constant, as the ABI demands it.
    places = made.addresses(_SECTION)
    addresses = {
        each: "it is an address, which differs from run to run"
        for i, each in enumerate(left)
        if i in places
    }

    return values | addresses | unknown


def _unknown(failure: str, expressions: Sequence[str]) -> list[str]:
    """Return the expressions with a name that the compiler does not know."""
    names = {name for pair in _UNKNOWN.findall(failure) for name in pair if name}
    return [
        each for each in expressions if names.intersection(re.findall(r"MPI_\w+", each))
    ]


def _compile(compiler: Compiler, expressions: Sequence[str], folder: Path) -> str:
    rows = "".join(f"    (long long)(intptr_t)({each}),\n" for each in expressions)
    head = _HEAD.format(header=compiler.header)
    text = f'{head}long long impi_abi[] __attribute__((used, section("{_SECTION}"))) = {{\n{rows}}};\n'
    source = folder / "values.c"
    source.write_text(text, "utf-8")

    return compiler.compile(source, folder / "values.o", "-c", "-w")
