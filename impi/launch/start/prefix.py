"""The installation of an MPI library: its mpiexec and its shared library."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.base.manifests import Manifest, library_folder, manifest
from impi.base.records import record

_DEADLINE_S: Final = 20.0


@record(kw_only=True)
class Installation:
    """One installed MPI library."""

    mpiexec: str
    prefix: Path
    library: str  # path of the library for MPI4PY_LIBMPI; empty: mpi4py finds it


def find(vendor: str, prefix: str, environ: Mapping[str, str]) -> Installation:
    """Return the installation of ``vendor``, ``NAME`` or ``NAME@VERSION``.

    Search order: ``--prefix``, ``IMPI_PREFIX_<NAME>``, ``.mpi/<vendor>`` of a checkout, PATH.

    Raises:
        UsageError: there is no such vendor, or a named folder has no mpiexec.
        LaunchError: none found, or the mpiexec on the PATH is another vendor's.
    """
    known = manifest(vendor)
    variable = known.prefix_variable
    for origin, text in (("--prefix", prefix), (variable, environ.get(variable, ""))):
        if text:
            folder = Path(text).expanduser().absolute()
            if not (mpiexec := folder / "bin" / "mpiexec").is_file():
                raise UsageError(
                    f"{origin} {text} has no bin/mpiexec; name the folder that {vendor} was installed into"
                )
            return _installation(known, mpiexec, folder)
    folder = library_folder(vendor)
    if (mpiexec := folder / "bin" / "mpiexec").is_file():
        return _installation(known, mpiexec, folder)
    return _on_path(known, environ)


def _on_path(vendor: Manifest, environ: Mapping[str, str]) -> Installation:
    others = []
    for name in (*vendor.library.commands, "mpiexec"):
        found = shutil.which(name, path=environ.get("PATH"))
        if found is None:
            continue
        if any(mark in _version(found) for mark in vendor.library.marks):
            mpiexec = Path(found).absolute()
            return _installation(vendor, mpiexec, mpiexec.parents[1])
        others.append(found)
    detail = f" ({others[0]} on the PATH is not {vendor.name}'s)" if others else ""
    raise LaunchError(
        f"no mpiexec of {vendor.name} was found{detail}; name its folder with --prefix DIR or "
        f"{vendor.prefix_variable}=DIR, "
        "or use --vendor pure, which needs no MPI library"
    )


def _version(mpiexec: str) -> str:
    try:
        result = subprocess.run(
            [mpiexec, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode("utf-8", "replace").lower()


def _installation(vendor: Manifest, mpiexec: Path, prefix: Path) -> Installation:
    files = (prefix / folder / name for folder in ("lib", "lib64") for name in vendor.library.files)
    library = next((str(file) for file in files if file.exists()), "")
    return Installation(mpiexec=str(mpiexec), prefix=prefix, library=library)
