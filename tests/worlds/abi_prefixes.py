"""Installed MPI libraries that have the ABI of MPI 5.0 and do nothing, with planted defects."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.cabi.text import headers
from impi.tools.abi import demands

_WRAPPER: Final = """#!/bin/sh
for word; do test "$word" = -c && exec gcc -I {prefix}/include "$@"; done
exec gcc -I {prefix}/include "$@" -L {prefix}/lib -Wl,-rpath,{prefix}/lib {links}
"""
# It runs the program as often as it is asked to, and tells the variables of ranks.
_MPIEXEC: Final = """#!/bin/sh
if [ "$1" = --version ]; then echo {version}; exit; fi
count=$2; shift 2; code=0
for number in $(seq "$count"); do "$@" || code=$?; done
exit $code
"""


def compile_library(path: Path, soname: str, text: str, *flags: str) -> None:
    """Compile the text of a program in C into a shared library."""
    argv = ["gcc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{soname}"]
    subprocess.run([*argv, *flags, "-o", str(path)], input=text, text=True, check=True)


@functools.cache
def _library(soname: str, names: frozenset[str]) -> bytes:
    """Compiled once for all tests of a process: its 1300 functions take half a second."""
    text = "".join(f"long {name}(void) {{ return 0; }}\n" for name in sorted(names))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "library.so")
        compile_library(path, soname, text)
        return path.read_bytes()


def add_library(prefix: Path, soname: str, names: Iterable[str]) -> None:
    """Add a library with functions of these names, and the name that linkers look for."""
    (prefix / "lib" / soname).write_bytes(_library(soname, frozenset(names)))
    (prefix / "lib" / f"{soname.partition('.so')[0]}.so").symlink_to(soname)


def fake_prefix(
    prefix: Path,
    *,
    soname: str = demands.SONAME,
    lacks: Sequence[str] = (),
    elsewhere: Mapping[str, Sequence[str]] | None = None,
    links: str = "-lmpi_abi",
    header: Mapping[str, str] | None = None,
    version: str = "none",
) -> Path:
    """Install a library, and return its folder.

    Args:
        prefix: the folder.
        soname: of its libmpi_abi.
        lacks: names that this does not export.
        elsewhere: further libraries, and what they export.
        links: what the wrapper hands to the linker.
        header: texts of ``mpi.h``, and what takes their places.
        version: what its mpiexec says of itself.
    """
    for folder in ("bin", "lib", "include"):
        (prefix / folder).mkdir(parents=True)
    names = {
        each for function in demands.functions() for each in (function, f"P{function}")
    }
    add_library(prefix, soname, names - set(lacks))
    for library, functions in (elsewhere or {}).items():
        add_library(prefix, library, functions)
    text = headers.c_header()
    for before, after in (header or {}).items():
        assert before in text
        text = text.replace(before, after)
    (prefix / "include" / "mpi.h").write_text(text)
    for command, script in (
        ("mpicc_abi", _WRAPPER.format(prefix=prefix, links=links)),
        ("mpiexec", _MPIEXEC.format(version=version)),
    ):
        (prefix / "bin" / command).write_text(script)
        (prefix / "bin" / command).chmod(0o755)
    return prefix
