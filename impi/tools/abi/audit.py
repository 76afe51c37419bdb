"""The audit of one library's files against the ABI. Only its compiler runs, no code of the library.

These are the items, with the sections of MPI 5.0 that demand them:

* the file of the library and its soname (20.2.1);
* the MPI_ and PMPI_ names of all functions, in one file (15.2, 20.2.1);
* the libraries that a program needs if the wrapper has linked it (20.2.1);
* the values in the header: version, status, types, handles and constants (20.3, A.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.cabi.library.elf_file import ElfFile
from impi.tools.abi import compilers, demands
from impi.tools.abi.compilers import Compiler
from impi.tools.abi.header_values import read_values
from impi.tools.abi.libraries import Library, where_else
from impi.tools.abi.verdicts import FAIL, PASS, UNSUPPORTED, UNTESTED, Audited, Finding

ITEMS: Final = (
    "library",
    "soname",
    "MPI_ names",
    "PMPI_ names",
    "links",
    "version",
    "layout",
    "handles",
    "constants",
)
"""All items, in the order in which they are shown."""
_OF_HEADER: Final = ITEMS[5:]
_SHOWN: Final = 4  # the most names that one detail lists
# Libraries of the system and of compilers, which a program without MPI may need, too.
_OF_SYSTEM: Final = re.compile(
    r"(lib(c|m|dl|pthread|rt|util|gcc_s|atomic|[atu]san|ubsan|quadmath|imf|svml|irng|intlc|irc)|ld[\w-]*|ld64)\.so[.\d]*"
)
_LINKED: Final = """#include <mpi.h>
int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    return MPI_Finalize();
}
"""


def audit(library: Library, folder: Path) -> tuple[Audited, Compiler | None]:
    """Return the findings about a library's files, and its compiler wrapper for the ABI, if any.

    The programs of the audit are written and compiled in ``folder``.
    """

    if library.file is None:
        reason = f"{library.prefix} has no {demands.STEM} in lib or lib64"
        return _audited(
            library,
            "",
            "",
            [Finding(item=each, verdict=UNSUPPORTED, detail=reason) for each in ITEMS],
        ), None

    # The compiler is returned in every case: the matrix needs it, whatever the files say.
    compiler = compilers.wrapper(library.prefix, folder, library.variables)
    try:
        elf = ElfFile(library.file)
    except UsageError as error:
        found = [Finding(item="library", verdict=FAIL, detail=str(error))]
        found += [
            Finding(item=each, verdict=UNTESTED, detail=str(error))
            for each in ITEMS[1:]
        ]
        return _audited(
            library, "", compiler.title if compiler else "", found
        ), compiler

    findings = [
        *_of_file(library, elf),
        _links(library, compiler, folder),
        *_of_header(library, compiler, folder),
    ]

    return _audited(
        library, elf.soname, compiler.title if compiler else "", findings
    ), compiler


def _audited(
    library: Library, soname: str, compiler: str, findings: list[Finding]
) -> Audited:
    return Audited(
        name=library.name,
        prefix=str(library.prefix),
        vendor=library.vendor.name if library.vendor else "",
        file=str(library.file or ""),
        soname=soname,
        compiler=compiler,
        audit=tuple(findings),
    )


# -- the file


def _of_file(library: Library, elf: ElfFile) -> Iterator[Finding]:
    yield Finding(item="library", verdict=PASS, detail=elf.path.name)
    wrong = elf.soname != demands.SONAME
    said = f"its soname is {elf.soname or 'missing'}" + (
        f", and not {demands.SONAME}" if wrong else ""
    )
    yield Finding(item="soname", verdict=FAIL if wrong else PASS, detail=said)
    names = demands.functions()
    more = sum(name.startswith("MPI_") and name not in names for name in elf.functions)
    yield _names(
        library,
        "MPI_ names",
        names - elf.functions,
        f"all {len(names)}, and {more} that the ABI does not have",
    )
    profiled = frozenset(f"P{name}" for name in names)
    yield _names(
        library,
        "PMPI_ names",
        profiled - elf.functions,
        f"all {len(profiled)}, in the same file",
    )


def _names(library: Library, item: str, lacking: Collection[str], good: str) -> Finding:
    if not lacking:
        return Finding(item=item, verdict=PASS, detail=good)

    elsewhere = where_else(library, min(lacking))
    hint = (
        f"; {elsewhere} has {min(lacking)}, and a program may need no second library"
        if elsewhere
        else ""
    )

    return Finding(item=item, verdict=FAIL, detail=f"it lacks {_listed(lacking)}{hint}")


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


# -- what programs need


def _links(library: Library, compiler: Compiler | None, folder: Path) -> Finding:
    if compiler is None:
        reason = f"{library.prefix} has no mpicc_abi, and no mpicc that knows -mpi-abi"
        return Finding(item="links", verdict=UNTESTED, detail=reason)

    source, program = folder / "linked.c", folder / "linked"

    source.write_text(_LINKED, "utf-8")
    if failure := compiler.compile(source, program):
        # A compiler that this machine lacks is not a fault of the library.
        if plain := _no_compiler(compiler, folder):
            return Finding(
                item="links",
                verdict=UNTESTED,
                detail=f"{compiler.title} compiles nothing: {plain}",
            )

        return Finding(
            item="links", verdict=FAIL, detail=f"{compiler.title}: {last_line(failure)}"
        )

    needed = [
        name for name in ElfFile(program).needed if not _OF_SYSTEM.fullmatch(name)
    ]

    # Names are compared without version numbers, because the soname is an item of its own.
    stems = [name.partition(".so")[0] for name in needed]
    if stems == [demands.STEM.removesuffix(".so")]:
        return Finding(
            item="links",
            verdict=PASS,
            detail=f"{compiler.title} links {needed[0]} alone",
        )

    said = f"a program of {compiler.title} needs {', '.join(needed) or 'no library of MPI'}"

    return Finding(
        item="links",
        verdict=FAIL,
        detail=f"{said}, where {demands.SONAME} alone is allowed",
    )


def _no_compiler(compiler: Compiler, folder: Path) -> str:
    """Return why a compiler fails even on a file without MPI; empty if it compiles that file."""

    source = folder / "nothing.c"
    source.write_text("int nothing;\n", "utf-8")
    failure = compiler.compile(source, folder / "nothing.o", "-c")

    return last_line(failure) if failure else ""


def last_line(text: str) -> str:
    """Return the line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [
        line
        for line in lines
        if "error:" in line or "undefined reference" in line or "cannot find" in line
    ]

    return " ".join((told or lines or ["no word"])[0].split())[-200:]


# -- the header


def _of_header(
    library: Library, compiler: Compiler | None, folder: Path
) -> Iterator[Finding]:
    wanted = dict(
        zip(
            _OF_HEADER,
            (
                demands.versions(),
                demands.layout(),
                demands.handles(),
                demands.constants(),
            ),
            strict=True,
        )
    )
    try:
        # Without a wrapper the header may still be there, and the system's compiler can read it.
        found = compiler or compilers.header_only(library.prefix, folder)
        if found is None:
            raise LaunchError(f"{library.prefix} has no header with MPI_ABI_VERSION")

        if why := _no_compiler(found, folder):
            raise LaunchError(f"{found.title} compiles nothing: {why}")
    except LaunchError as error:
        yield from (
            Finding(item=each, verdict=UNTESTED, detail=str(error))
            for each in _OF_HEADER
        )
        return

    try:
        # One compilation for all items: the values come back by their places in one array.
        values = read_values(
            found, [name for names in wanted.values() for name in names], folder
        )
    except (LaunchError, UsageError) as error:
        yield from (
            Finding(item=each, verdict=FAIL, detail=str(error)) for each in _OF_HEADER
        )
        return

    for item, demanded in wanted.items():
        yield _compared(item, demanded, values, found.title)


def _compared(
    item: str, demanded: Mapping[str, int], values: Mapping[str, int | str], title: str
) -> Finding:
    wrong = {
        name: values[name] for name, value in demanded.items() if values[name] != value
    }
    if not wrong:
        return Finding(
            item=item, verdict=PASS, detail=f"{len(demanded)} values by {title}"
        )

    told = [
        f"{name} is {value}, not {demanded[name]}"
        for name, value in wrong.items()
        if isinstance(value, int)
    ]
    told += [
        f"{name}: {value}" for name, value in wrong.items() if isinstance(value, str)
    ]
    more = f"; {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""

    return Finding(item=item, verdict=FAIL, detail=f"{'; '.join(told[:_SHOWN])}{more}")
