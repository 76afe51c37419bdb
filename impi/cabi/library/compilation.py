"""Compile the library of an ABI: :mod:`.build` does so where the cache has none.

It needs a C compiler, Python's headers and shared library, and cffi.
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import re
import shutil
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
        folder: the folder.
        place: what it will be.
        name: the ABI.
        file: name of the library.
        behind: path of the library that it stands before; empty: it stands in.

    Raises:
        LaunchError: what it takes is missing, or fails.
    """
    compiler()
    shared = _python()
    try:
        import cffi
    except ImportError:
        raise LaunchError(
            f"compiled programs need cffi, which {sys.executable} does not have: {sys.executable} -m pip install cffi"
        ) from None
    except Exception as error:  # cffi's own: its compiled part is of another version
        raise LaunchError(
            f"compiled programs need cffi, and {sys.executable} finds one that is broken; "
            f"is a folder on PYTHONPATH another Python's? {' '.join(str(error).split())}"
        ) from None
    folder.mkdir()
    abi, functions = abi_tables.abi(name), abi_tables.functions()
    before = symbols(Path(behind), "TW") if behind else None
    module, side = f"_impi_{name}", f"impi_side_{name}.py"
    (folder / side).write_text(marshal.module(abi, functions))
    # Once for all ranks: theirs may be told to write nothing.
    py_compile.compile(str(folder / side), dfile=str(place / side), doraise=True)
    ffi = cffi.FFI()
    ffi.embedding_api("")
    ffi.cdef(emit.declarations(abi, functions, front=before is not None))
    ffi.set_source(module, emit.source(abi, functions, sys.executable, file, before))
    root = str(FOLDER.parents[1])
    start = _INIT.format(root=root, module=module, abi=name, side=str(place / side), front=before is not None)
    ffi.embedding_init_code(start)
    with contextlib.redirect_stdout(None):  # cffi tells that it writes a file
        ffi.emit_c_code(str(folder / f"{name}.c"))
    out = folder / file
    # Calls take a microsecond of Python, and no less with -O2, which takes twice as long. But front
    # mode needs jumps: a call that goes on to the library behind leaves nothing on the stack.
    argv = ["-O2" if behind else "-O1", "-fPIC", "-w", "-fexceptions", "-D_CFFI_NO_LIMITED_API"]
    argv += [f"-I{sysconfig.get_path('include')}"]
    argv += [str(folder / f"{name}.c"), str(shared), f"-Wl,-rpath,{shared.parent}", "-ldl", "-lpthread"]
    link_shared(out, file, argv)
    for other in () if behind else abi.sonames[1:]:
        # The loader takes a library for one that is there only by the name that it gives itself.
        link_shared(folder / other, other, [*NO_CODE, f"-Wl,--no-as-needed,-rpath,{place}", str(out)])
    if (fortran := abi_tables.fortran(name)) and not behind:
        text = folder / "fortran_library.c"
        text.write_text(fortran_library.source(abi, functions, emit.types(abi)))
        argv = ["-O1", "-fPIC", "-w", str(text), "-Wl,--no-as-needed", str(out), f"-Wl,-rpath,{place}"]
        link_shared(folder / fortran, fortran, argv)


NO_CODE: Final = ("-nostdlib", "-x", "c", "/dev/null", "-x", "none")
"""Arguments for a library that only needs another one."""


def link_shared(out: Path, soname: str, arguments: Sequence[str]) -> None:
    """Make a shared library that gives itself a name; LaunchError: the compiler cannot."""
    run([compiler(), "-shared", "-o", str(out), f"-Wl,-soname,{soname}", *arguments])


def fill_guard(folder: Path, extension: Path, real: Path, soname: str, name: str) -> None:
    """Make the folder of a guard, which keeps a vendor's library and ours apart.

    In it is a copy of mpi4py's extension that needs the guard (:mod:`.vendor_library`).

    Args:
        folder: made here; what is beside it is for scratch.
        extension: mpi4py's.
        real: the vendor's library.
        soname: the name that the extension needs.
        name: that of the guard, as long.

    Raises:
        LaunchError: the compiler is missing, or the extension is another one than mpi4py's.
    """
    folder.mkdir()
    absent = sorted(symbols(extension, "w") - symbols(real, "TDBRWV"))
    # The linker writes down the name that a library gives itself: here the path of the real one.
    stand_in = folder.with_name("named.so")
    link_shared(stand_in, str(real), NO_CODE)
    missing = [f"-Wl,--defsym={symbol}=0" for symbol in absent]
    link_shared(folder / name, name, [*NO_CODE, *missing, "-Wl,--no-as-needed", str(stand_in)])
    octets, needed = extension.read_bytes(), b"\0" + soname.encode() + b"\0"
    if octets.count(needed) != 1:
        raise LaunchError(f"{extension} does not need {soname} as mpi4py's extensions do")
    (folder / extension.name).write_bytes(octets.replace(needed, b"\0" + name.encode() + b"\0"))


def run(argv: Sequence[str]) -> str:
    """Run a tool of the compiler; return what it prints; LaunchError: it is missing, or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except FileNotFoundError:
        raise LaunchError(f"compiled programs need {argv[0]} once on this machine: install binutils") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        told = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        raise LaunchError(f"{argv[0]} fails for compiled programs: {told[:300]}")
    return done.stdout


def symbols(library: Path, kinds: str) -> frozenset[str]:
    """Return the names of MPI among the dynamic symbols of some kinds of ``nm``."""
    listed = run(["nm", "-D", str(library)])
    found = re.findall(r"^[0-9a-f ]* (\w) (P?MPIX?_\w+)", listed, re.MULTILINE)
    return frozenset(name for kind, name in found if kind in kinds)


def compiler() -> str:
    """Return the C compiler; LaunchError: there is none."""
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        if found := shutil.which(name):
            return found
    raise LaunchError(
        "compiled programs need a C compiler once on this machine, and there is none: install gcc, or set CC to one"
    )


def _python() -> Path:
    include = Path(sysconfig.get_path("include"), "Python.h")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not include.exists():
        raise LaunchError(
            f"compiled programs need Python's headers, and {include} is missing: install python{version}-dev"
        )
    names = [str(sysconfig.get_config_var(name)) for name in ("INSTSONAME", "LDLIBRARY")]
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
