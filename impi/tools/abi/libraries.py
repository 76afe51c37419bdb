"""The MPI libraries that are held against the ABI: those named, or those found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError, refuse
from impi.base.manifests import Manifest, library_folder, vendors
from impi.cabi.library.elf_file import ElfFile
from impi.cabi.library.program_file import is_elf
from impi.launch.start.prefix import find, vendor_of
from impi.tools.abi import demands

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@+-]{0,31}")
_FOLDERS: Final = ("lib", "lib64", "lib/release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """An installed MPI library."""

    name: str
    prefix: Path
    vendor: (
        Manifest | None
    )  # the vendor that the mpiexec belongs to; None: no vendor of impi
    mpiexec: str  # empty: it has none
    file: Path | None  # its library of the standard ABI

    @property
    def variables(self) -> dict[str, str]:
        """The variables of its programs, compilers included."""
        return (
            self.vendor.settings_of(["always"], prefix=str(self.prefix))
            if self.vendor
            else {}
        )


def named(texts: Sequence[str]) -> list[Library]:
    """Return the libraries of ``NAME=PREFIX``.

    Raises:
        UsageError: a text is not of that form, a name is there twice, or a folder is not there.
    """
    found: dict[str, Library] = {}
    for text in texts:
        name, equals, prefix = text.partition("=")
        folder = Path(os.path.abspath(os.path.expanduser(prefix)))  # noqa: PTH100, PTH111  (any text)
        refuse(
            (
                not equals or not prefix or not _NAME.fullmatch(name),
                f"--library is NAME=PREFIX, not {text!r}",
            ),
            (
                name in found,
                f"--library names {name!r} twice: give each library a name of its own",
            ),
            (
                not os.path.isdir(folder),  # noqa: PTH112
                f"--library {text}: there is no folder {folder}; name the one that has lib/ in it",
            ),
        )
        found[name] = _library(name, folder)

    return [*found.values()]


def discovered(environ: Mapping[str, str]) -> list[Library]:
    """Return the libraries that impirun would take, and those of further versions."""
    found = []
    for vendor in vendors():
        if vendor.kind != "backed" or not vendor.has_library:
            continue

        try:
            installation = find(vendor.name, "", environ)
            found.append(
                _library(vendor.name, installation.prefix, installation.mpiexec)
            )
        except LaunchError:
            pass

        further = (f"{vendor.name}@{version}" for version in vendor.versions)
        found += [
            _library(name, folder)
            for name in further
            if (folder := library_folder(name)).is_dir()
        ]

    return found


def files_of(prefix: Path, pattern: str) -> list[Path]:
    """Return the shared libraries of a prefix whose names fit a pattern, each file once."""
    folders = [prefix / name for name in _FOLDERS] + sorted(
        prefix.glob("lib/*-linux-*")
    )
    # In a folder of libraries, files without machine code are texts for linkers.
    paths = [
        path
        for folder in folders
        for path in sorted(folder.glob(pattern), reverse=True)
        if is_elf(path)
    ]

    return [*{path.resolve(): path for path in reversed(paths)}.values()][::-1]


def _library(name: str, prefix: Path, mpiexec: str = "") -> Library:
    usual = prefix / "bin" / "mpiexec"
    mpiexec = mpiexec or (str(usual) if os.access(usual, os.X_OK) else "")
    vendor = vendor_of(mpiexec) if mpiexec else None

    return Library(
        name=name,
        prefix=prefix,
        vendor=vendor,
        mpiexec=mpiexec,
        file=next(
            iter(
                [
                    # The name that programs need first, and without that any number behind it.
                    *files_of(prefix, demands.SONAME),
                    *files_of(prefix, f"{demands.STEM}*"),
                ]
            ),
            None,
        ),
    )


def where_else(library: Library, name: str) -> str:
    """Return which other library of the prefix exports a function; empty: none."""
    for path in _others(library):
        try:
            if name in ElfFile(path).functions:
                return path.name
        except UsageError:
            continue

    return ""


def _others(library: Library) -> Iterator[Path]:
    own = library.file.resolve() if library.file else None
    yield from (
        path
        for path in files_of(library.prefix, "lib*mpi*.so*")
        if path.resolve() != own
    )
