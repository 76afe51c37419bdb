"""Compile the library of an ABI, once for each Python and text, and keep it in a cache folder.

The folder has the library under its first name, its other names, and the Python side
(:mod:`.marshal`). Building needs a C compiler, Python's headers and shared library, and cffi; using
it needs none of the first two. ``IMPI_CACHE`` names another place than ``~/.cache/impi``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.cabi import abi_tables, emit, fortran_library, marshal
from impi.cabi.abi_tables import FOLDER
from impi.errors import LaunchError
from impi.records import record

DEADLINE_S: Final = 300.0
_INIT: Final = """
import sys
if {root!r} not in sys.path:
    sys.path.append({root!r})
from {module} import ffi, lib
from impi.cabi.connection import connect
connect(ffi, lib, {abi!r}, {side!r}, front={front})
"""
_FRONT: Final = "libimpi_front.so"
"""Name of a library before another one; it must not be taken for an MPI library."""


def library(name: str, environ: Mapping[str, str], behind: str = "") -> Path:
    """Return the library of an ABI under its first name, compiled if it is not in the cache.

    Args:
        name: the ABI.
        environ: for the place of the cache.
        behind: path of the library that it stands before (front mode); empty: it stands in.

    Raises:
        LaunchError: what it takes to compile it is missing, or fails.
    """
    made = Making(name, behind)
    place = cache(environ) / f"{name}{'-front' if behind else ''}-{made.digest()}"
    found = place / made.file
    if found.exists():
        return found
    with locked(place):
        if not found.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as work:
                done = Path(work, "done")
                _compile(made, done, place)
                done.rename(place)
    return found


def preloaded(name: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the library of an ABI under each name that programs need; as :func:`library`.

    The library for Fortran is the last one, where the ABI's is made with it.
    """
    first = library(name, environ)
    return tuple(first.with_name(each) for each in (*abi_tables.sonames(name), abi_tables.fortran(name)) if each)


@record
class Making:
    """A library to be made."""

    name: str
    """The ABI."""
    behind: str

    @property
    def file(self) -> str:
        """Name of its file."""
        return _FRONT if self.behind else abi_tables.sonames(self.name)[0]

    def digest(self) -> str:
        """Return what differs where another library would be made."""
        digest = hashlib.sha256(f"{sys.version}{sys.executable}{self.name}".encode())
        if self.behind:
            digest.update(f"{self.behind}{Path(self.behind).stat().st_mtime_ns}".encode())
        for path in sorted(FOLDER.rglob("*")):
            if path.suffix in (".py", ".c", ".json", ".toml"):
                digest.update(path.read_bytes())
        return digest.hexdigest()[:12]


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold the right to make a folder of the cache; others are made at the same time."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cache(environ: Mapping[str, str]) -> Path:
    """Return the folder of what is compiled."""
    named = environ.get("IMPI_CACHE")
    return Path(named) if named else Path(environ.get("HOME") or tempfile.gettempdir(), ".cache", "impi")


def _compile(made: Making, folder: Path, place: Path) -> None:
    """Fill ``folder``, which will be ``place``."""
    compiler()
    shared = _python()
    try:
        import cffi
    except ImportError:
        raise LaunchError(
            f"compiled programs need cffi, which {sys.executable} does not have: {sys.executable} -m pip install cffi"
        ) from None
    folder.mkdir()
    abi, functions = abi_tables.abi(made.name), abi_tables.functions()
    before = symbols(Path(made.behind), "TW") if made.behind else None
    module, side = f"_impi_{abi.name}", f"impi_side_{abi.name}.py"
    (folder / side).write_text(marshal.module(abi, functions))
    # Once for all ranks: theirs may be told to write nothing.
    py_compile.compile(str(folder / side), dfile=str(place / side), doraise=True)
    ffi = cffi.FFI()
    ffi.embedding_api("")
    ffi.cdef(emit.declarations(abi, functions, front=before is not None))
    ffi.set_source(module, emit.source(abi, functions, sys.executable, made.file, before))
    root = str(FOLDER.parents[1])
    start = _INIT.format(root=root, module=module, abi=abi.name, side=str(place / side), front=before is not None)
    ffi.embedding_init_code(start)
    with contextlib.redirect_stdout(None):  # cffi tells that it writes a file
        ffi.emit_c_code(str(folder / f"{abi.name}.c"))
    out = folder / made.file
    # Calls take a microsecond of Python, and no less with -O2, which takes twice as long. But front
    # mode needs jumps: a call that goes on to the library behind leaves nothing on the stack.
    argv = ["-O2" if made.behind else "-O1", "-fPIC", "-w", "-D_CFFI_NO_LIMITED_API"]
    argv += [f"-I{sysconfig.get_path('include')}"]
    argv += [str(folder / f"{abi.name}.c"), str(shared), f"-Wl,-rpath,{shared.parent}", "-ldl", "-lpthread"]
    link_shared(out, made.file, argv)
    for other in () if made.behind else abi.sonames[1:]:
        # The loader takes a library for one that is there only by the name that it gives itself.
        link_shared(folder / other, other, [*NO_CODE, f"-Wl,--no-as-needed,-rpath,{place}", str(out)])
    if (name := abi_tables.fortran(abi.name)) and not made.behind:
        text = folder / "fortran_library.c"
        text.write_text(fortran_library.source(abi, functions, emit.types(abi)))
        argv = ["-O1", "-fPIC", "-w", str(text), "-Wl,--no-as-needed", str(out), f"-Wl,-rpath,{place}"]
        link_shared(folder / name, name, argv)


NO_CODE: Final = ("-nostdlib", "-x", "c", "/dev/null", "-x", "none")
"""Arguments for a library that only needs another one."""


def link_shared(out: Path, soname: str, arguments: Sequence[str]) -> None:
    """Make a shared library that gives itself a name; LaunchError: the compiler cannot."""
    run([compiler(), "-shared", "-o", str(out), f"-Wl,-soname,{soname}", *arguments])


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
    """Return the shared library of this Python."""
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
