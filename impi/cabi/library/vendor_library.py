"""A vendor's own library beside ours in one process, where ours is the program's libmpi.

Our functions have the names of the vendor's and come first in the process. Three measures keep the
vendor's library, and mpi4py's extension for it, from finding ours:

* Both are loaded with RTLD_DEEPBIND: their own libraries come before the program's. The C library
  then needs a repair (:func:`_share_environ`).
* The extension is a copy that needs another name than ``libmpi.so.12``, because the loader already
  has a library of that name: ours.
* The other name is that of a *guard*: a library without code that needs the vendor's library by
  path. It defines, at address 0, the weak symbols of the extension that the vendor lacks. Without
  these the extension would find ours.
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
from impi.base.variables import MPI4PY_FROM
from impi.cabi.library import cache
from impi.protocol.proofs import sha256

_FLAGS: Final = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND
# Library names, and the family in the file name of mpi4py's extension for each.
_FAMILIES: Final = {"libmpi.so.12": "mpich", "libmpi.so.40": "openmpi"}
# Names that an extension of other builds may need, by family. abi_tables has them, too, but a rank
# does not load that.
_NEEDED: Final = {
    "mpich": (b"libmpi.so.12", b"libmpich.so.12"),
    "openmpi": (b"libmpi.so.40",),
}
# Memory that the C library reads until the process ends
_kept: Final[list[object]] = []


def extension() -> ModuleType:
    """Import mpi4py's module over the library that MPI4PY_LIBMPI names; MPI is not initialised.

    Raises:
        LaunchError: there is no such library, no mpi4py for it, or no tool to make the guard.
    """

    named = os.environ.get("MPI4PY_LIBMPI", "")

    real = os.path.realpath(named)
    if not named or not os.path.exists(real):
        raise LaunchError(f"MPI4PY_LIBMPI is {named!r}: no such MPI library")

    soname = _soname(named) or _soname(real)
    if not soname:
        raise LaunchError(
            f"{real} is neither {' nor '.join(_FAMILIES)}, the libraries that mpi4py can use"
        )

    path, needed = _extension_for(_FAMILIES[soname])
    guard, extension = _kept_apart(path, real, needed)
    _share_environ()
    before = sys.getdlopenflags()

    # Python opens extension modules with the flags that are set here.
    sys.setdlopenflags(_FLAGS)
    try:
        # The guard first: the extension's need for its name is then met by the loaded library.
        ctypes.CDLL(guard, mode=_FLAGS)
        loader = ExtensionFileLoader("mpi4py.MPI", extension)
        spec = importlib.util.spec_from_file_location(
            "mpi4py.MPI", extension, loader=loader
        )
        assert spec is not None, f"{extension} cannot be imported"
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        sys.setdlopenflags(before)

    return module


def _extension_for(family: str) -> tuple[str, str]:
    """Return mpi4py's extension for a family, and the library name that it needs.

    The wheels' extensions are for all versions of a family: they come first, also those of
    impirun's Python. Then come a distribution's and a site's own build.

    Raises:
        LaunchError: there is none.
    """
    found = importlib.util.find_spec("mpi4py")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    folders += os.environ.get(MPI4PY_FROM, "").split(os.pathsep)

    paths = [
        entry.path
        # Another machine need not have the folders of this one.
        for folder in filter(os.path.isdir, folders)
        for entry in os.scandir(folder)
        if entry.name.startswith("MPI.") and entry.name.endswith(".so")
    ]
    paths.sort(key=lambda path: f"/MPI.{family}." not in path)
    for path in paths:
        with open(path, "rb") as file:
            octets = file.read()
        for name in _NEEDED[family]:
            if b"\0" + name + b"\0" in octets:
                return path, name.decode()

    raise LaunchError(
        f"{sys.executable} has no mpi4py with an extension for {family}: install mpi4py from its "
        f"wheel with '{sys.executable} -m pip install --force-reinstall --only-binary mpi4py "
        "mpi4py', or use --vendor pure"
    )


def _soname(path: str) -> str:
    return next(
        (name for name in _FAMILIES if os.path.basename(path).startswith(name)), ""
    )


def _share_environ() -> None:
    """Copy the program's ``environ`` to the C library's own variable of that name.

    A program that is not position-independent has a copy of the variable, and only the copy is set.
    Libraries with RTLD_DEEPBIND find the C library's: UCX reads it when MPICH starts. The array is
    new, because setenv() frees the program's array; it never frees the strings.
    """

    kind = ctypes.POINTER(ctypes.c_void_p)

    own, shown = (
        kind.in_dll(ctypes.CDLL(name), "environ") for name in ("libc.so.6", None)
    )
    if own or not shown:
        return

    many = next(number for number in itertools.count() if shown[number] is None)
    row = (ctypes.c_void_p * (many + 1))(*shown[:many])
    _kept.append(row)
    own.contents = row._type_.from_buffer(row)


def _kept_apart(extension: str, real: str, soname: str) -> tuple[str, str]:
    """Return the paths of guard and copied extension; make them if the cache has none."""

    told = f"{extension}:{os.stat(extension).st_mtime_ns}:{real}:{os.stat(real).st_mtime_ns}"
    digest = sha256(told.encode()).hexdigest()
    # As long as the name whose octets it replaces in the copy of the extension.
    name = f"impi{digest}"[: len(soname)]
    files = [name, os.path.basename(extension)]

    place = cache.place(os.environ, f"over-{digest[:12]}", files)
    if not cache.is_whole(place, files):
        from pathlib import Path  # slow to import, and needed once for a machine

        from impi.cabi.library import compilation

        fill = compilation.fill_guard
        cache.make(
            place,
            lambda folder: fill(
                Path(folder), Path(extension), Path(real), soname, name
            ),
            files,
        )

    return os.path.join(place, name), os.path.join(place, os.path.basename(extension))
