"""Find the library of an ABI in the cache, or compile it: once for each Python and each text.

A library's folder in the cache is named by a digest of everything that goes into it. The folder
holds the library under its first name, its other names, and the Python side
(:mod:`impi.cabi.text.marshal`). Building needs a C compiler, Python's headers and shared library,
and cffi; running a program needs Python's shared library and cffi only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from impi.base.records import record
from impi.cabi.library import cache
from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi_tables import FOLDER
from impi.protocol.proofs import sha256

# In front mode the program's libmpi is the vendor's. With the name of an MPI library, ours would
# be what the loader gives to everything that needs that name.
_FRONT: Final = "libimpi_front.so"


def library(
    name: str,
    environ: Mapping[str, str],
    behind: str = "",
    tell: Callable[[str], object] | None = None,
) -> Path:
    """Return the path of an ABI's library under its first name; compile it if the cache has none.

    Args:
        name: the ABI: ``mpich``, ``openmpi`` or ``standard``.
        environ: variables that say where the cache is (``IMPI_CACHE``, ``HOME``).
        behind: path of the vendor's library to stand before (front mode); empty: stand-in mode.
        tell: called with a sentence before a compilation: a busy machine needs minutes.

    Raises:
        LaunchError: a tool for compiling is missing or fails; or no cache folder is safe.
    """

    made = Making(name, behind)
    place = Path(
        cache.place(
            environ, f"{name}{'-front' if behind else ''}-{made.digest()}", made.files
        )
    )

    def fill(folder: str) -> None:
        # Slow to import, and needed once for a machine
        from impi.cabi.library import compilation

        if tell is not None:
            tell(
                f"compiling impi's library for {abi_tables.abi(name).title}, once for this Python"
            )

        compilation.fill(Path(folder), place, name, made.file, behind)

    cache.make(str(place), fill, made.files)

    return place / made.file


def preloaded(
    name: str,
    environ: Mapping[str, str],
    tell: Callable[[str], object] | None = None,
) -> tuple[Path, ...]:
    """Return an ABI's library under each name that programs need, for LD_PRELOAD.

    The last path is the library for Fortran, if this ABI has one of ours. Raises as
    :func:`library`.
    """
    first = library(name, environ, tell=tell)
    return tuple(
        first.with_name(each)
        for each in (*abi_tables.sonames(name), abi_tables.fortran(name))
        if each
    )


@record
class Making:
    """A library of the cache, by everything that decides its text."""

    name: str
    behind: str

    @property
    def file(self) -> str:
        return _FRONT if self.behind else abi_tables.sonames(self.name)[0]

    @property
    def files(self) -> list[str]:
        """The files of its folder: the library under all its names, and the Python side."""
        names = (
            [self.file]
            if self.behind
            else [*abi_tables.sonames(self.name), abi_tables.fortran(self.name)]
        )
        return [*filter(None, names), f"impi_side_{self.name}.py"]

    def digest(self) -> str:
        """Return 12 hex digits that change with everything that goes into the library."""

        # The path of the interpreter is compiled in, so two environments of one Python differ.
        digest = sha256(f"{sys.version}{sys.executable}{self.name}".encode())
        if self.behind:
            # Ours has stubs for the functions of the vendor's library, and an upgrade may add some.
            # The time of change stands for the content, which no start has to read.
            digest.update(
                f"{self.behind}{Path(self.behind).stat().st_mtime_ns}".encode()
            )

        # These are more files than the text depends on, and so never too few.
        for path in sorted(FOLDER.rglob("*")):
            if path.suffix in (".py", ".c", ".json", ".toml"):
                digest.update(path.read_bytes())

        return str(digest.hexdigest()[:12])
