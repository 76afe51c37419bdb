"""Compile the library of an ABI, once for each Python and text, and keep it in a cache folder.

The folder has the library under its first name, its other names, and the Python side
(:mod:`impi.cabi.text.marshal`). Building needs a C compiler, Python's headers and shared library,
and cffi; using it needs none of the first two.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.base.records import record
from impi.cabi.library import cache
from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi_tables import FOLDER
from impi.protocol.proofs import sha256

_FRONT: Final = "libimpi_front.so"  # name of a library before another one; it must not be taken for an MPI library


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
    place = Path(cache.place(environ, f"{name}{'-front' if behind else ''}-{made.digest()}", made.files))

    def fill(folder: str) -> None:
        from impi.cabi.library import compilation  # takes a while, and is needed once

        compilation.fill(Path(folder), place, name, made.file, behind)

    cache.make(str(place), fill, made.files)
    return place / made.file


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
    behind: str

    @property
    def file(self) -> str:
        return _FRONT if self.behind else abi_tables.sonames(self.name)[0]

    @property
    def files(self) -> list[str]:
        """What is made: the library under all its names, and the Python side."""
        names = [self.file] if self.behind else [*abi_tables.sonames(self.name), abi_tables.fortran(self.name)]
        return [*filter(None, names), f"impi_side_{self.name}.py"]

    def digest(self) -> str:
        """Return what differs where another library would be made."""
        digest = sha256(f"{sys.version}{sys.executable}{self.name}".encode())
        if self.behind:
            digest.update(f"{self.behind}{Path(self.behind).stat().st_mtime_ns}".encode())
        for path in sorted(FOLDER.rglob("*")):
            if path.suffix in (".py", ".c", ".json", ".toml"):
                digest.update(path.read_bytes())
        return str(digest.hexdigest()[:12])
