"""Write the text of an ABI's library and compile it: :mod:`.build` calls this once for a machine.

:func:`fill` writes the Python side and compiles it to byte code. cffi makes C of the stubs and of
the code that starts Python, the compiler makes the library, and the linker makes its other names.
That takes 3 s, and needs a C compiler, Python's headers and shared library, and cffi.

Each missing tool has a sentence of its own that names the package to install: users see these on
machines that have never compiled anything.
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi_tables import FOLDER
from impi.cabi.text import emit, fortran_library, marshal

DEADLINE_S: Final = 300.0
_OF_PYTHON: Final = (
    "Py_IsInitialized",
    "Py_InitializeEx",
    "Py_InitializeFromConfig",
    "Py_FinalizeEx",
)
"""Functions of the interpreter that the library and cffi call themselves."""
_INIT: Final = """
import sys
if {root!r} not in sys.path:
    sys.path.append({root!r})
from {module} import ffi, lib
from impi.cabi.calls.connection import connect
connect(ffi, lib, {abi!r}, {side!r}, front={front})
"""


def fill(folder: Path, place: Path, name: str, file: str, behind: str) -> None:
    """Compile the library of an ABI into a new folder.

    Args:
        folder: made here.
        place: the path that the folder is renamed to later: it is written into the library.
        name: the ABI.
        file: name of the library.
        behind: path of the vendor's library to stand before; empty: stand-in mode.

    Raises:
        LaunchError: a tool is missing, or fails.
    """

    # Raises here, before anything is written, if there is none.
    compiler()

    shared = _python()
    try:
        import cffi
    except ImportError:
        raise LaunchError(
            f"compiled programs need cffi, which {sys.executable} does not have: {sys.executable} -m pip install cffi"
        ) from None
    except Exception as error:
        # Raised by cffi itself if its compiled part has another version
        raise LaunchError(
            f"compiled programs need cffi, and {sys.executable} finds one that is broken; "
            f"is a folder on PYTHONPATH another Python's? {' '.join(str(error).split())}"
        ) from None

    folder.mkdir()
    abi, functions = abi_tables.abi(name), abi_tables.functions()
    before = symbols(Path(behind), "TW") if behind else None
    module, side = f"_impi_{name}", f"impi_side_{name}.py"
    (folder / side).write_text(marshal.module(abi, functions))
    # Byte code once for all ranks: PYTHONDONTWRITEBYTECODE may forbid them to write it.
    py_compile.compile(str(folder / side), dfile=str(place / side), doraise=True)
    ffi = cffi.FFI()
    # cffi exports nothing by itself: programs call the stubs, which are in the text below.
    ffi.embedding_api("")
    ffi.cdef(emit.declarations(abi, functions, front=before is not None))
    root = str(FOLDER.parents[1])
    folders = [root, str(Path(cffi.__file__).parents[1]), *site.getsitepackages()]
    ffi.set_source(
        module, emit.source(abi, functions, sys.executable, file, before, folders)
    )
    start = _INIT.format(
        root=root,
        module=module,
        abi=name,
        side=str(place / side),
        front=before is not None,
    )

    ffi.embedding_init_code(start)
    with contextlib.redirect_stdout(None):  # cffi prints that it writes a file
        ffi.emit_c_code(str(folder / f"{name}.c"))

    out = folder / file

    link_shared(out, file, _arguments(folder / f"{name}.c", shared, front=bool(behind)))
    for other in () if behind else abi.sonames[1:]:
        # The loader knows a loaded library by its soname alone: each name is a library of its own.
        link_shared(
            folder / other,
            other,
            # By default the linker drops a need of which nothing is used.
            [*NO_CODE, f"-Wl,--no-as-needed,-rpath,{place}", str(out)],
        )

    if (fortran := abi_tables.fortran(name)) and not behind:
        text = folder / "fortran_library.c"
        text.write_text(fortran_library.source(abi, functions, emit.types(abi)))
        argv = [
            "-O1",
            "-fPIC",
            "-w",
            str(text),
            "-Wl,--no-as-needed",
            str(out),
            f"-Wl,-rpath,{place}",
        ]
        link_shared(folder / fortran, fortran, argv)


def _arguments(source: Path, shared: Path, *, front: bool) -> list[str]:
    """Return the arguments that compile a library's text and link it with a library of Python."""

    # A call takes a microsecond of Python, with -O2 as with -O1, and -O2 compiles twice as long.
    # Front mode needs the jumps of -O2: a call passed on to the vendor leaves no frame behind.
    argv = [
        "-O2" if front else "-O1",
        "-fPIC",
        "-w",
        # A C++ exception from an error handler passes through the stub that has called it.
        "-fexceptions",
        # cffi would restrict all of the text to Python's stable ABI, in
        # which start.c has no PyConfig.
        "-D_CFFI_NO_LIMITED_API",
    ]
    # Programs that embed Python see another one than we do: embedded.c.
    argv += [f"-D{each}=impi_true_{each}" for each in _OF_PYTHON]
    argv += [
        f"-I{sysconfig.get_path('include')}",
        str(source),
        str(FOLDER / "embedded.c"),
    ]

    return [*argv, str(shared), f"-Wl,-rpath,{shared.parent}", "-ldl", "-lpthread"]


NO_CODE: Final = ("-nostdlib", "-x", "c", "/dev/null", "-x", "none")
"""Compiler arguments for a library without code, which only needs another library."""


def link_shared(out: Path, soname: str, arguments: Sequence[str]) -> None:
    """Make a shared library with a soname; LaunchError: the compiler fails."""
    run([compiler(), "-shared", "-o", str(out), f"-Wl,-soname,{soname}", *arguments])


def fill_guard(
    folder: Path, extension: Path, real: Path, soname: str, name: str
) -> None:
    """Make the folder of a guard, which keeps a vendor's library and ours apart.

    The folder also gets a copy of mpi4py's extension that needs the guard (:mod:`.vendor_library`).

    Args:
        folder: made here; scratch files go beside it.
        extension: path of mpi4py's extension.
        real: path of the vendor's library.
        soname: the library name that the extension needs.
        name: the guard's name, of the same length as ``soname``.

    Raises:
        LaunchError: the compiler is missing, or ``extension`` does not need ``soname``.
    """

    folder.mkdir()
    # Weak symbols of the extension that the vendor lacks: without a definition in the guard, the
    # loader would find ours for them.
    absent = sorted(symbols(extension, "w") - symbols(real, "TDBRWV"))
    # The linker records the soname of a needed library. A stand-in whose soname is the real
    # library's path makes the guard need exactly that file.
    stand_in = folder.with_name("named.so")
    link_shared(stand_in, str(real), NO_CODE)
    missing = [f"-Wl,--defsym={symbol}=0" for symbol in absent]
    link_shared(
        folder / name, name, [*NO_CODE, *missing, "-Wl,--no-as-needed", str(stand_in)]
    )

    # The name is replaced inside the file, and a longer one would move all that follows it.
    octets, needed = extension.read_bytes(), b"\0" + soname.encode() + b"\0"
    if octets.count(needed) != 1:
        raise LaunchError(
            f"{extension} does not need {soname} as mpi4py's extensions do"
        )

    (folder / extension.name).write_bytes(
        octets.replace(needed, b"\0" + name.encode() + b"\0")
    )


def run(argv: Sequence[str]) -> str:
    """Run a tool of the compiler and return its output; LaunchError: it is missing, or fails."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )
    except FileNotFoundError:
        raise LaunchError(
            f"compiled programs need {argv[0]} once on this machine: install binutils"
        ) from None

    if done.returncode:
        lines = done.stderr.strip().splitlines()
        # The first error is the cause. The last line often says only that the linker has failed.
        told = next(
            (line for line in lines if "error" in line), lines[-1] if lines else ""
        )
        raise LaunchError(f"{argv[0]} fails for compiled programs: {told[:300]}")

    return done.stdout


def symbols(library: Path, kinds: str) -> frozenset[str]:
    """Return the names of MPI among a library's dynamic symbols of these kinds.

    Args:
        library: path of the file.
        kinds: letters of ``nm``, such as ``TW`` for functions and weak ones.
    """
    listed = run(["nm", "-D", str(library)])
    found = re.findall(r"^[0-9a-f ]* (\w) (P?MPIX?_\w+)", listed, re.MULTILINE)

    return frozenset(name for kind, name in found if kind in kinds)


def compiler() -> str:
    """Return the path of the C compiler, which CC may name; LaunchError: there is none."""
    named = os.environ.get("CC", "")
    # Several words are a compiler with its options, or behind a cache: those of cc will do.
    if named and len(named.split()) == 1 and shutil.which(named) is None:
        raise LaunchError(
            f"CC is {named}, which is not on this machine: install it, or set CC to a compiler"
        )

    for name in filter(None, (named, "cc", "gcc", "clang")):
        if found := shutil.which(name):
            return found

    raise LaunchError(
        "compiled programs need a C compiler on this machine: install gcc, or set CC to a compiler"
    )


def _python() -> Path:
    include = Path(sysconfig.get_path("include"), "Python.h")

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not include.exists():
        raise LaunchError(
            f"compiled programs need Python's headers, and {include} is missing: install python{version}-dev"
        )

    # LIBDIR is the folder that Python was configured for; Debian has the library in its multiarch
    # folder instead.
    names = [
        str(sysconfig.get_config_var(name)) for name in ("INSTSONAME", "LDLIBRARY")
    ]
    folders = [sysconfig.get_config_var(name) for name in ("LIBDIR", "LIBPL")]

    folders.append(f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}")
    for name in names:
        for folder in filter(None, folders):
            if ".so" in name and (found := Path(folder, name)).exists():
                return found

    raise LaunchError(
        f"compiled programs need Python as a shared library, and {sys.executable} has none: install "
        f"libpython{version}, or use a Python that was configured with --enable-shared"
    )
