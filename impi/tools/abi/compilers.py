"""Compilers of programs for the ABI: a library's own wrapper, its header alone, or ours.

The names of wrappers are not in the standard. ``mpicc_abi`` is MPICH's and Open MPI's; newer MPICH
and Intel MPI have the option ``-mpi-abi``, and what was built for the ABI alone has ``mpicc``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library import compilation
from impi.cabi.text import headers
from impi.tools.abi import demands

_DEADLINE_S: Final = 120.0
_WRAPPERS: Final = (("mpicc_abi",), ("mpicc", "-mpi-abi"), ("mpicc",))
_HEADERS: Final = (
    ("include", "mpi_abi.h"),
    ("include/standard_abi", "mpi.h"),
    ("include", "mpi.h"),
)
_HAS_ABI: Final = (
    "#include <{header}>\n#ifndef MPI_ABI_VERSION\n#error no ABI\n#endif\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """How programs for the ABI are compiled."""

    argv: tuple[str, ...]
    title: str
    header: str = "mpi.h"
    links: tuple[str, ...] = ()  # behind the program's source
    environ: tuple[tuple[str, str], ...] = ()

    def compile(self, source: Path, out: Path, *options: str) -> str:
        """Compile a program, or with ``-c`` an object file; return why it failed, or empty."""
        behind = () if "-c" in options else self.links
        return run(
            [*self.argv, *options, "-o", str(out), str(source), *behind],
            dict(self.environ),
        )


def run(argv: Sequence[str], own: Mapping[str, str]) -> str:
    """Run a compiler with variables of its own; return what it says of a failure, or empty."""

    # In English, because last_line() looks for its words.
    environ = {**own, **os.environ, "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_DEADLINE_S,
            check=False,
        )
    except OSError as error:
        return f"{argv[0]} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{argv[0]} has not ended within {_DEADLINE_S:.0f} s"

    if ended.returncode == 0:
        return ""

    return (
        ended.stdout.decode("utf-8", "replace").strip()
        or f"{argv[0]} ended with code {ended.returncode}"
    )


def wrapper(prefix: Path, folder: Path, own: Mapping[str, str]) -> Compiler | None:
    """Return the library's own compiler of programs for the ABI; None: it has none.

    One with the name ``mpicc_abi`` is taken as it is; others must know the ABI.

    Args:
        prefix: of the library.
        folder: for what is compiled.
        own: variables that the library's programs need.
    """

    source = folder / "has_abi.c"

    source.write_text(_HAS_ABI.format(header="mpi.h"), "utf-8")
    for name, *options in _WRAPPERS:
        path = prefix / "bin" / name
        if not os.access(path, os.X_OK):
            continue

        title = " ".join((f"bin/{name}", *options))

        found = Compiler(
            argv=(str(path), *options), title=title, environ=tuple(own.items())
        )
        if name == "mpicc_abi" or not found.compile(source, folder / "has_abi.o", "-c"):
            return found

    return None


def header_only(prefix: Path, folder: Path) -> Compiler | None:
    """Return a compiler that has the library's header for the ABI, and links nothing.

    Raises:
        LaunchError: there is no compiler.
    """
    source = folder / "has_abi.c"
    for place, name in _HEADERS:
        if not (prefix / place / name).is_file():
            continue

        source.write_text(_HAS_ABI.format(header=name), "utf-8")
        argv = (compilation.compiler(), "-DMPI_ABI", "-I", str(prefix / place))

        found = Compiler(argv=argv, title=f"{place}/{name}", header=name)
        if not found.compile(source, folder / "has_abi.o", "-c"):
            return found

    return None


def ours(folder: Path) -> Compiler:
    """Return the system's compiler with the standard's header, and a stub of the library to link.

    Raises:
        LaunchError: there is no compiler, or it makes no library.
    """

    compiler = compilation.compiler()
    (folder / "mpi.h").write_text(headers.c_header(), "utf-8")
    # To link takes names only. At run time each cell has a library of its own.
    stub = folder / "stub.c"
    names = sorted(demands.functions())
    stub.write_text(
        "".join(f"void {name}(void) {{}}\nvoid P{name}(void) {{}}\n" for name in names),
        "utf-8",
    )
    library = folder / "libmpi_abi.so"

    shared = ("-shared", "-fPIC", f"-Wl,-soname,{demands.SONAME}")
    if failure := run([compiler, *shared, "-o", str(library), str(stub)], {}):
        raise LaunchError(f"{compiler} makes no library: {failure.splitlines()[-1]}")

    links = ("-L", str(folder), "-lmpi_abi")

    return Compiler(
        argv=(compiler, "-I", str(folder)),
        title=f"{Path(compiler).name}, MPI 5.0's own mpi.h",
        links=links,
    )
