"""What an executable file is: the ABI of its MPI, or why it cannot be served."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Mapping
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
    needs: tuple[str, ...]  # the shared libraries that it is linked with, and those that these are linked with

    @property
    def is_fortran(self) -> bool:
        """Whether it reaches MPI through a library's own interface for Fortran."""
        return any(_FORTRAN.fullmatch(name) for name in self.needs)


def program_file(path: str, environ: Mapping[str, str]) -> ProgramFile | None:
    """Return what a program needs; None: it uses no MPI.

    Raises:
        UsageError: it was made for another machine, or is static, or for an unknown library.
    """
    _check_machine(path)
    listed = _listed(path, environ)
    if listed is None:
        if b"MPI_Init" in Path(path).read_bytes():
            raise UsageError(f"{path} has its MPI library inside (static): link it with a shared one, such as impicc's")
        return None
    found = {_SONAMES[name] for name in listed if name in _SONAMES}
    if len(found) > 1:
        raise UsageError(f"{path} needs libraries of two MPI families: {', '.join(n for n in listed if n in _SONAMES)}")
    unknown = [name for name in listed if _OTHERS.fullmatch(name) and name not in _SONAMES]
    if not found and unknown:
        raise UsageError(f"{path} needs {unknown[0]}, and impi stands in for {', '.join(sorted(_SONAMES))} alone")
    return ProgramFile(abi=found.pop(), needs=tuple(listed)) if found else None


def _check_machine(path: str) -> None:
    with Path(path).open("rb") as file:
        head = file.read(20)
    machine = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])[0]
    if machine != _MACHINES.get(os.uname().machine, machine):
        raise UsageError(f"{path} was compiled for another processor than this machine's {os.uname().machine}")


def _listed(path: str, environ: Mapping[str, str]) -> list[str] | None:
    """Return the names of all shared libraries of a program; None: it is static."""
    env = {**environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    env.pop("LD_PRELOAD", None)
    try:
        done = subprocess.run([path], env=env, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    except OSError as failure:
        raise UsageError(f"{path} cannot be started: {failure.strerror}") from None
    except subprocess.TimeoutExpired:
        return None
    names = re.findall(r"^\s+(\S+) (?:=>|\()", done.stdout, re.MULTILINE)
    return [Path(name).name for name in names] or None
