"""The installation of an MPI library: its mpiexec and its shared library.

A library in a prefix of its own is in ``lib`` or ``lib64``. Debian has the libraries of several
vendors in one folder, some under other names. mpi4py asks the loader for the usual name. So a
folder of the cache gets a link of that name, and goes into LD_LIBRARY_PATH
(:attr:`Installation.links`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.base.manifests import Manifest, library_folder, manifest, vendors
from impi.base.records import record
from impi.protocol.proofs import sha256

_DEADLINE_S: Final = 20.0


@record(kw_only=True)
class Installation:
    """One installed MPI library."""

    mpiexec: str
    prefix: Path
    library: str  # path of the library, for MPI4PY_LIBMPI; empty: mpi4py finds it
    # A folder with the usual name as a link, for LD_LIBRARY_PATH; empty: no need
    links: str = ""


def find(vendor: str, prefix: str, environ: Mapping[str, str]) -> Installation:
    """Find the installation of a vendor.

    Search order: ``--prefix``, ``IMPI_PREFIX_<NAME>``, ``.mpi/<vendor>`` of a checkout, PATH.

    Args:
        vendor: ``NAME`` or ``NAME@VERSION``.
        prefix: the folder from ``--prefix``; empty: none.
        environ: the user's variables.

    Raises:
        UsageError: there is no such vendor, or a named folder has no mpiexec of it.
        LaunchError: none was found, or the mpiexec on the PATH is another vendor's.
    """

    known = manifest(vendor)

    variable = known.prefix_variable
    for origin, text in (("--prefix", prefix), (variable, environ.get(variable, ""))):
        if text:
            folder = Path(text).expanduser().absolute()
            if (mpiexec := _mpiexec_in(known, folder)) is None:
                raise UsageError(
                    f"{origin} {text} has no bin/mpiexec of {vendor}; name the folder that it was installed into"
                )

            return _installation(known, mpiexec, folder, environ)

    # Before the PATH: what the lab has installed here for its own cells.
    folder = library_folder(vendor)
    if (mpiexec := folder / "bin" / "mpiexec").is_file():
        return _installation(known, mpiexec, folder, environ)

    return on_path(known, environ)


def on_path(vendor: Manifest, environ: Mapping[str, str]) -> Installation:
    """Return the installation whose mpiexec is on the PATH; LaunchError: there is none."""

    others = []
    # Debian's names first: there mpiexec itself is that of one of several installed vendors.
    for name in (*vendor.library.commands, "mpiexec"):
        found = shutil.which(name, path=environ.get("PATH"))
        if found is None:
            continue

        if any(mark in _version(found) for mark in vendor.library.marks):
            mpiexec = Path(found).absolute()
            return _installation(vendor, mpiexec, mpiexec.parents[1], environ)

        others.append(found)

    detail = f" ({others[0]} on the PATH is not {vendor.name}'s)" if others else ""
    raise LaunchError(
        f"no mpiexec of {vendor.name} was found{detail}; name its folder with --prefix DIR or "
        f"{vendor.prefix_variable}=DIR, "
        "or use --vendor pure, which needs no MPI library"
    )


def vendor_of(mpiexec: str) -> Manifest | None:
    """Return the vendor whose mpiexec this is, as its version says; None: no vendor's of impi."""
    said = _version(mpiexec)
    marks = [
        (mark, each)
        for each in vendors()
        if each.kind == "backed"
        for mark in each.library.marks
        if mark in said
    ]

    # The first word counts: MPICH tells later that Intel's compiler has made it.
    return min(marks, key=lambda found: said.index(found[0]))[1] if marks else None


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


def told(vendor: str, library: str) -> str:
    """Return the line of ``--explain`` about the library, its ABI, and the places searched."""

    known, real = manifest(vendor), os.path.realpath(library)
    shown = library if library == real else f"{library}, which is {real}"
    places = f"--prefix, {known.prefix_variable}, {library_folder(vendor)}, the PATH"

    return f"the MPI library is {shown}, with {abi_of(library)}; it was looked for in {places}"


def abi_of(library: str) -> str:
    """Return the name of a library's ABI, judged by the symbols in the file."""

    exported = Path(library).read_bytes()
    if b"ompi_mpi_comm_world\0" in exported:
        return "Open MPI's ABI"

    if b"MPI_Init\0" not in exported:
        return "no functions of MPI"

    return (
        "the standard ABI"
        if Path(library).name.startswith("libmpi_abi.")
        else "MPICH's ABI"
    )


def _mpiexec_in(vendor: Manifest, prefix: Path) -> Path | None:
    usual = prefix / "bin/mpiexec"
    if usual.is_file() and _library(vendor, prefix, ("lib", "lib64")) is not None:
        return usual

    # Several vendors share the folder (Debian): ask each mpiexec for its version.
    named = [prefix / "bin" / name for name in vendor.library.commands]
    mine = (
        path
        for path in named
        if path.is_file()
        and any(m in _version(str(path)) for m in vendor.library.marks)
    )

    return next(mine, usual if usual.is_file() else None)


def _library(vendor: Manifest, prefix: Path, folders: Sequence[str]) -> Path | None:
    files = (
        prefix / folder / name for name in vendor.library.files for folder in folders
    )
    return next((file for file in files if file.exists()), None)


def _installation(
    vendor: Manifest, mpiexec: Path, prefix: Path, environ: Mapping[str, str]
) -> Installation:
    found = _library(vendor, prefix, ("lib", "lib64"))
    # Debian has libraries in a folder of the machine's architecture, such as lib/x86_64-linux-gnu.
    if found is None:
        found = _library(
            vendor,
            prefix,
            [f"lib/{path.name}" for path in sorted(prefix.glob("lib/*-linux-*"))],
        )

    if found is None or found.name == (name := vendor.library.files[0]):
        return Installation(
            mpiexec=str(mpiexec), prefix=prefix, library=str(found or "")
        )

    from impi.cabi.library import cache  # few installations need it

    # Another name than mpi4py asks the loader for: a link of the usual name stands before it.
    real = str(found.resolve())
    links = cache.place(environ, f"as-{sha256(real.encode()).hexdigest()[:12]}", [name])

    def fill(folder: str) -> None:
        Path(folder).mkdir()
        Path(folder, name).symlink_to(real)

    cache.make(links, fill, [name])

    return Installation(
        mpiexec=str(mpiexec), prefix=prefix, library=f"{links}/{name}", links=links
    )
