"""A vendor's own library beside ours in one process, where ours is the program's libmpi.

Our functions have the names of the vendor's and stand first in the process. So the vendor's library
and mpi4py's extension for it must not find them:

* both are loaded with RTLD_DEEPBIND: their own libraries come before the program's, which the C
  library must be ready for (:func:`_share_environ`);
* the extension is a copy that needs another name than ``libmpi.so.12``, because a library of that
  name, ours, is loaded already;
* that name is a *guard*'s: a library without code whose only need is the vendor's library by its
  path. Functions that the extension may use if they exist (weak symbols), and that the vendor
  lacks, have address 0 in it: without them the extension would find ours.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import sys
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library import cache
from impi.protocol.proofs import sha256

_FLAGS: Final = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND
# Names of libraries, and of mpi4py's extensions for them.
_FAMILIES: Final = {"libmpi.so.12": "mpich", "libmpi.so.40": "openmpi"}
_kept: Final[list[object]] = []  # memory that the C library reads until the end


def extension() -> ModuleType:
    """Return mpi4py's module over the library that MPI4PY_LIBMPI names, not initialised.

    Raises:
        LaunchError: no such library, or what it takes to load it is missing.
    """
    named = os.environ.get("MPI4PY_LIBMPI", "")
    real = os.path.realpath(named)
    if not named or not os.path.exists(real):
        raise LaunchError(f"MPI4PY_LIBMPI is {named!r}: no such MPI library")
    soname = _soname(named) or _soname(real)
    if not soname:
        raise LaunchError(f"{real} is neither {' nor '.join(_FAMILIES)}, the libraries that mpi4py can use")
    found = importlib.util.find_spec("mpi4py")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    prefix = f"MPI.{_FAMILIES[soname]}."
    entries = [entry for folder in folders for entry in os.scandir(folder)]
    copies = [each.path for each in entries if each.name.startswith(prefix) and each.name.endswith(".so")]
    if not copies:
        raise LaunchError(f"{sys.executable} has no mpi4py with an extension for {_FAMILIES[soname]}")
    guard, extension = _kept_apart(copies[0], real, soname)
    _share_environ()
    before = sys.getdlopenflags()
    sys.setdlopenflags(_FLAGS)
    try:
        ctypes.CDLL(guard, mode=_FLAGS)
        loader = ExtensionFileLoader("mpi4py.MPI", extension)
        spec = importlib.util.spec_from_file_location("mpi4py.MPI", extension, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        sys.setdlopenflags(before)
    return module


def _soname(path: str) -> str:
    return next((name for name in _FAMILIES if os.path.basename(path).startswith(name)), "")


def _share_environ() -> None:
    """Give the C library's own ``environ`` what the program's has now.

    A program that is not position-independent has a copy of it, and only the copy is set. Libraries
    with RTLD_DEEPBIND find the C library's: UCX reads it when MPICH starts. The row is one of its
    own, because setenv() frees the program's; it never frees a variable.
    """
    kind = ctypes.POINTER(ctypes.c_void_p)
    own, shown = (kind.in_dll(ctypes.CDLL(name), "environ") for name in ("libc.so.6", None))
    if own or not shown:
        return
    many = next(number for number in itertools.count() if shown[number] is None)
    row = (ctypes.c_void_p * (many + 1))(*shown[:many])
    _kept.append(row)
    own.contents = row._type_.from_buffer(row)


def _kept_apart(extension: str, real: str, soname: str) -> tuple[str, str]:
    """Return guard and copy of the extension for a library, made once."""
    told = f"{extension}:{os.stat(extension).st_mtime_ns}:{real}:{os.stat(real).st_mtime_ns}"
    digest = sha256(told.encode()).hexdigest()
    name = f"impi{digest}"[: len(soname)]
    files = [name, os.path.basename(extension)]
    place = cache.place(os.environ, f"over-{digest[:12]}", files)
    if not cache.is_whole(place, files):
        from pathlib import Path  # all take a while, and are needed once

        from impi.cabi.library import compilation

        fill = compilation.fill_guard
        cache.make(place, lambda folder: fill(Path(folder), Path(extension), Path(real), soname, name), files)
    return os.path.join(place, name), os.path.join(place, os.path.basename(extension))
