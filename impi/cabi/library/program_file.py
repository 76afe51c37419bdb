"""Classify an executable file: the ABI of its MPI library, or why impi cannot serve it.

The loader that the program names lists its libraries, as for ldd, because it alone knows RPATHs,
LD_PRELOAD, LD_LIBRARY_PATH and its cache. Names of the listed files give the ABI. Their symbols
decide between front mode and stand-in mode (:func:`why_not_behind`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.records import record
from impi.cabi.tables import abi_tables

_SONAMES: Final = {
    soname: name for name in abi_tables.NAMES for soname in abi_tables.sonames(name)
}
_SONAMES.update(
    {
        abi_tables.fortran(name): name
        for name in abi_tables.NAMES
        if abi_tables.fortran(name)
    }
)
"""ABIs by the names of libraries. A program in Fortran may name its Fortran library alone."""
_FORTRAN: Final = re.compile(r"libmpi(ch)?(fort|f90|_mpifh|_usempi\w*)\.so\.\d+")
_MACHINES: Final = {
    "x86_64": 62,
    "aarch64": 183,
    "s390x": 22,
    "ppc64le": 21,
    "riscv64": 243,
}
_DEADLINE_S: Final = 20.0
_OTHERS: Final = re.compile(r"(libmpi(?:ch)?\.so\.\d+|libmpi_\w+\.so\.\d+)")
_OF_MPI: Final = re.compile(
    r"lib(p?mpi|p?mpich)(_\w+|cxx|fort|f90)?\.so\.\d+|libimpi_\w+\.so"
)
"""Files of MPI libraries and of impi: PMPI_ names in these do not rule out front mode."""
_MISSING: Final = re.compile(
    r"undefined symbol: ((?:P?MPIX?_|ompi_|mpi_|MPIR_|_ZN3MPI)\w+)"
)
_RUNTIME: Final = re.compile(r"lib(clang_rt\.)?(a|hwa|t|l)san\b.*\.so")
_INTERPRETER = 3  # PT_INTERP
_HEADER_SIZE = 64


def is_elf(path: str | Path) -> bool:
    """Return whether a file is an ELF file, such as an executable of machine code."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@record(kw_only=True)
class ProgramFile:
    """A program that uses MPI."""

    abi: str
    # File names of all libraries in its process: linked ones, those of LD_PRELOAD, and their needs.
    needs: tuple[str, ...]
    # Path of the program, then the paths of these libraries
    files: tuple[str, ...] = ()

    @property
    def is_fortran(self) -> bool:
        """Whether it calls MPI through a library's interface for Fortran."""
        return any(_FORTRAN.fullmatch(name) for name in self.needs)


def program_file(path: str, environ: Mapping[str, str]) -> ProgramFile | None:
    """Return the libraries of a program; None: the program itself uses no MPI.

    Tools in LD_PRELOAD do not make a program one that uses MPI.

    Raises:
        UsageError: the program was compiled for another machine or for an unknown MPI library, or
            is linked statically with one.
    """

    # Before the loader is asked: for such a file it could only fail, and not say why.
    _check_machine(path)

    files = _with_tools(path, environ)
    if not files:
        if b"MPI_Init" in Path(path).read_bytes():
            raise UsageError(
                f"{path} has its MPI library inside (static): link it with a shared one, such as impicc's"
            )

        return None

    listed = _names(files)
    abi = _family(path, listed)
    if abi is None:
        return None

    if is_privileged(path):
        raise UsageError(
            f"{path} runs with another user's rights (setuid), so its loader takes no library of impi: start a copy "
            "without that bit"
        )

    return ProgramFile(abi=abi, needs=tuple(listed), files=(path, *files))


def _family(path: str, listed: Sequence[str]) -> str | None:
    """Return the ABI of the libraries that a program needs; None: it does not use MPI."""

    # A set: libraries that the program brings along may need the same libmpi.
    found = {_SONAMES[name] for name in listed if name in _SONAMES}
    if len(found) > 1:
        raise UsageError(
            f"{path} needs libraries of two MPI families: {', '.join(n for n in listed if n in _SONAMES)}"
        )

    # A library of MPI that impi does not stand in for would run as a job of its own in each client.
    unknown = [
        name for name in listed if _OTHERS.fullmatch(name) and name not in _SONAMES
    ]
    if not found and unknown:
        raise UsageError(
            f"{path} needs {unknown[0]}, and impi stands in for {', '.join(sorted(_SONAMES))} alone"
        )

    return found.pop() if found else None


def is_privileged(path: str) -> bool:
    """Return whether a program runs with more rights than this process, and ignores LD_PRELOAD."""
    status = os.stat(path)  # noqa: PTH116
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return False

    return bool(
        (status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid())
        or (status.st_mode & stat.S_ISGID and status.st_gid != os.getegid())
        or (os.geteuid() and "security.capability" in os.listxattr(path))
    )


def _with_tools(path: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return a program's libraries, with those of LD_PRELOAD if the program uses MPI."""
    # A profiler in LD_PRELOAD needs libmpi itself: listed with /bin/sh, it would make that an MPI
    # program.
    files = _listed(path, {**environ, "LD_PRELOAD": ""})
    if environ.get("LD_PRELOAD") and not _SONAMES.keys().isdisjoint(_names(files)):
        return _listed(path, environ)

    return files


def _names(files: Sequence[str]) -> list[str]:
    return [Path(file).name for file in files]


def wrappers(program: ProgramFile) -> list[str]:
    """Return the paths of a program's libraries that define MPI functions, such as profilers.

    In LD_PRELOAD ours must come after them, so that they see the calls first.
    """
    return [
        file
        for file in _foreign(program)
        if file != program.files[0] and _has_functions(file)
    ]


def runtimes(program: ProgramFile) -> list[str]:
    """Return the paths of a program's libraries that must be the first ones, as sanitizers demand.

    A program that was compiled with gcc's -fsanitize=address ends at once if another library comes
    before the sanitizer's.
    """
    return [file for file in program.files if _RUNTIME.match(Path(file).name)]


def why_not_behind(
    program: ProgramFile, environ: Mapping[str, str], library: str
) -> str:
    """Return why a program cannot have front mode, as a sentence; empty: it can.

    In front mode the functions ``PMPI_*`` are the vendor's: a program or tool that calls one would
    bypass the job.

    Args:
        program: the program.
        environ: its variables, with the tools of LD_PRELOAD.
        library: path of the vendor's library.
    """

    for file in _foreign(program):
        if _names_pmpi(file) or _has_functions(file):
            return f"{Path(file).name} calls MPI by PMPI_ names, or has MPI functions of its own"

    # The client's library may be older than the one that the program was linked with. LD_BIND_NOW
    # makes the loader look up every symbol, and LD_WARN makes it print what it misses.
    preload = " ".join(filter(None, (environ.get("LD_PRELOAD"), library)))
    printed = _trace(
        program.files[0],
        {**environ, "LD_PRELOAD": preload, "LD_WARN": "1", "LD_BIND_NOW": "1"},
    )
    missing = _MISSING.search(printed)

    return f"{library} lacks {missing[1]}, which the program needs" if missing else ""


def _foreign(program: ProgramFile) -> Iterator[str]:
    """Yield the files of a program that are neither an MPI library's nor impi's."""
    yield from (
        file
        for file in program.files
        if not _OF_MPI.fullmatch(Path(file).name) and is_elf(file)
    )


def _names_pmpi(path: str) -> bool:
    """Whether a file names PMPI functions, for the loader or for dlsym."""
    return b"\0PMPI_" in Path(path).read_bytes()


def _has_functions(path: str) -> bool:
    """Whether a file defines functions of MPI, by its dynamic symbols."""

    # Not "\0MPI_": linkers store MPI_Send as the end of PMPI_Send
    if b"MPI_" not in Path(path).read_bytes():
        return False

    from impi.cabi.library.elf_file import ElfFile  # programs of Python need none

    # Read here, because a machine with a filled cache may have no nm.
    try:
        functions = ElfFile(Path(path)).functions
    except UsageError:
        return False  # it has no sections, so nothing tells which functions it has

    return any(name.startswith("MPI_") for name in functions)


def loader_of(path: str) -> str:
    """Return the loader that a program names; empty: it names none, because it is static."""
    # A program may have hundreds of MB, and this is a part of each start: only headers are read.
    with Path(path).open("rb") as file:
        head = file.read(_HEADER_SIZE)
        order = "<" if head[5] == 1 else ">"
        try:
            # Offsets of the ELF64 header: e_phoff at 32, e_phentsize and e_phnum at 54.
            (table,) = struct.unpack_from(f"{order}Q", head, 32)
            size, count = struct.unpack_from(f"{order}HH", head, 54)
            file.seek(table)
            rows = file.read(size * count)
            parts = [
                struct.unpack_from(f"{order}IIQQQQ", rows, number * size)
                for number in range(count)
            ]
        except struct.error:
            raise UsageError(
                f"{path} is not a whole program: it ends within its header; copy or link it anew"
            ) from None

        for kind, _, at, _, _, length in parts:
            if kind == _INTERPRETER:
                file.seek(at)
                return os.fsdecode(file.read(length).rstrip(b"\0"))

    return ""


def _check_machine(path: str) -> None:
    with Path(path).open("rb") as file:
        head = file.read(20)

    machine = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])[0]
    if machine != _MACHINES.get(os.uname().machine, machine):
        raise UsageError(
            f"{path} was compiled for another processor than this machine's {os.uname().machine}"
        )


def _listed(path: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the paths of a program's shared libraries; empty: it is static.

    A library that the loader does not find, or finds under another name, stands there by name.
    """
    found = re.findall(
        r"^\s+(\S+) (?:=> (/\S+) )?(?:=>|\()", _trace(path, environ), re.MULTILINE
    )
    return [where if Path(where).name == name else name for name, where in found]


def _trace(path: str, environ: Mapping[str, str]) -> str:
    """Return the loader's list of a program's libraries; the program does not run."""
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} cannot be started: {os.strerror(errno.EACCES)}")

    # The loader is started, not the program: a static program has none, and would run at each
    # look. With --list it would end at the first library that it does not find.
    loader = loader_of(path)
    if not loader:
        return ""

    try:
        done = subprocess.run(
            [loader, Path(path).absolute()],
            env={**environ, "LD_TRACE_LOADED_OBJECTS": "1"},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_DEADLINE_S,
            check=False,
        )
    except OSError as failure:
        raise UsageError(
            f"{path} cannot be started: its loader {loader}: {failure.strerror}"
        ) from None
    except subprocess.TimeoutExpired:
        return ""

    return done.stdout + done.stderr
