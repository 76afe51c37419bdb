"""What an executable file is: the ABI of its MPI, or why it cannot be served."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.records import record
from impi.cabi.tables import abi_tables

_SONAMES: Final = {soname: name for name in abi_tables.NAMES for soname in abi_tables.sonames(name)}
_SONAMES.update({abi_tables.fortran(name): name for name in abi_tables.NAMES if abi_tables.fortran(name)})
"""ABIs by the names of the libraries that programs need; one in Fortran may name no other."""
_FORTRAN: Final = re.compile(r"libmpi(ch)?(fort|f90|_mpifh|_usempi\w*)\.so\.\d+")
_MACHINES: Final = {"x86_64": 62, "aarch64": 183, "s390x": 22, "ppc64le": 21, "riscv64": 243}
_DEADLINE_S: Final = 20.0
_OTHERS: Final = re.compile(r"(libmpi(?:ch)?\.so\.\d+|libmpi_\w+\.so\.\d+)")
_OF_MPI: Final = re.compile(r"lib(p?mpi|p?mpich)(_\w+|cxx|fort|f90)?\.so\.\d+|libimpi_\w+\.so")
"""Files of MPI libraries and of impi, which call PMPI_ functions by right."""
_MISSING: Final = re.compile(r"undefined symbol: ((?:P?MPIX?_|ompi_|mpi_|MPIR_|_ZN3MPI)\w+)")
_TABLE, _FUNCTION = 11, 2  # SHT_DYNSYM and STT_FUNC of ELF


def is_elf(path: str) -> bool:
    """Return whether a file is an executable of machine code."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@record(kw_only=True)
class ProgramFile:
    """A program that uses MPI."""

    abi: str
    # The shared libraries that it is linked with, those of LD_PRELOAD, and those that these need.
    needs: tuple[str, ...]
    files: tuple[str, ...] = ()  # its own path, and those of these libraries

    @property
    def is_fortran(self) -> bool:
        """Whether it reaches MPI through a library's own interface for Fortran."""
        return any(_FORTRAN.fullmatch(name) for name in self.needs)


def program_file(path: str, environ: Mapping[str, str]) -> ProgramFile | None:
    """Return what a program needs; None: it uses no MPI, whatever the tools of LD_PRELOAD do.

    Raises:
        UsageError: it was made for another machine, or is static, or for an unknown library.
    """
    _check_machine(path)
    files = _with_tools(path, environ)
    if not files:
        if b"MPI_Init" in Path(path).read_bytes():
            raise UsageError(f"{path} has its MPI library inside (static): link it with a shared one, such as impicc's")
        return None
    listed = _names(files)
    found = {_SONAMES[name] for name in listed if name in _SONAMES}
    if len(found) > 1:
        raise UsageError(f"{path} needs libraries of two MPI families: {', '.join(n for n in listed if n in _SONAMES)}")
    unknown = [name for name in listed if _OTHERS.fullmatch(name) and name not in _SONAMES]
    if not found and unknown:
        raise UsageError(f"{path} needs {unknown[0]}, and impi stands in for {', '.join(sorted(_SONAMES))} alone")
    return ProgramFile(abi=found.pop(), needs=tuple(listed), files=(path, *files)) if found else None


def _with_tools(path: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the libraries of a program; if MPI's is among them, with the tools of LD_PRELOAD."""
    files = _listed(path, {**environ, "LD_PRELOAD": ""})
    if environ.get("LD_PRELOAD") and not _SONAMES.keys().isdisjoint(_names(files)):
        return _listed(path, environ)
    return files


def _names(files: Sequence[str]) -> list[str]:
    return [Path(file).name for file in files]


def wrappers(program: ProgramFile) -> list[str]:
    """Return the libraries of a program with MPI functions of their own: ours comes after them."""
    return [file for file in _foreign(program) if file != program.files[0] and _has_functions(file)]


def why_not_behind(program: ProgramFile, environ: Mapping[str, str], library: str) -> str:
    """Return why ours cannot stand before a vendor's library in a program; empty: it can.

    Functions ``PMPI_*`` are the vendor's in front mode: what calls them would leave the job.

    Args:
        program: what needs the library.
        environ: for its tools, in LD_PRELOAD.
        library: path of the vendor's.
    """
    for file in _foreign(program):
        if _names_pmpi(file) or _has_functions(file):
            return f"{Path(file).name} calls MPI by PMPI_ names, or has MPI functions of its own"
    preload = " ".join(filter(None, (environ.get("LD_PRELOAD"), library)))
    printed = _trace(program.files[0], {**environ, "LD_PRELOAD": preload, "LD_WARN": "1", "LD_BIND_NOW": "1"})
    missing = _MISSING.search(printed)
    return f"{library} lacks {missing[1]}, which the program needs" if missing else ""


def _foreign(program: ProgramFile) -> Iterator[str]:
    """Yield the files of a program that are neither an MPI library's nor impi's."""
    yield from (file for file in program.files if not _OF_MPI.fullmatch(Path(file).name) and is_elf(file))


def _names_pmpi(path: str) -> bool:
    """Whether a file names PMPI functions, for the loader or for dlsym."""
    return b"\0PMPI_" in Path(path).read_bytes()


def _has_functions(path: str) -> bool:
    """Whether a file defines functions of MPI, by its dynamic symbols."""
    data = Path(path).read_bytes()
    if b"MPI_" not in data:  # linkers let MPI_Send be the end of PMPI_Send
        return False
    order = "<" if data[5] == 1 else ">"
    (table,), (size, count) = struct.unpack_from(f"{order}Q", data, 40), struct.unpack_from(f"{order}HH", data, 58)
    sections = [struct.unpack_from(f"{order}IIQQQQI", data, table + number * size) for number in range(count)]
    for _, kind, _, _, at, length, link in sections:
        if kind == _TABLE:
            names, symbols = sections[link][4], struct.iter_unpack(f"{order}IBBHQQ", data[at : at + length])
            return any(
                where and info & 15 == _FUNCTION and data[names + name : names + name + 4] == b"MPI_"
                for name, info, _, where, _, _ in symbols
            )
    return False


def _check_machine(path: str) -> None:
    with Path(path).open("rb") as file:
        head = file.read(20)
    machine = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])[0]
    if machine != _MACHINES.get(os.uname().machine, machine):
        raise UsageError(f"{path} was compiled for another processor than this machine's {os.uname().machine}")


def _listed(path: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the paths of all shared libraries of a program, or names; empty: it is static."""
    found = re.findall(r"^\s+(\S+) (?:=> (/\S+) )?(?:=>|\()", _trace(path, environ), re.MULTILINE)
    return [where if Path(where).name == name else name for name, where in found]


def _trace(path: str, environ: Mapping[str, str]) -> str:
    """Return what the loader prints of a program, which is not started."""
    env = {**environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    try:
        done = subprocess.run([path], env=env, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    except OSError as failure:
        raise UsageError(f"{path} cannot be started: {failure.strerror}") from None
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr
