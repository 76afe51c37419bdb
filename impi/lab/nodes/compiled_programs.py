"""The programs in C of cases: their sources, and where an image has them compiled (abi=).

``images/compiled`` is an image on top of a vendor's: with the programs that its own mpicc makes,
those for the standard ABI, and our libraries. The folder's name has a digest of what it is made
from, so that a lab with other sources compiles on its nodes instead.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Final

from impi.base.manifests import SHARED, machine_of, manifest

ABIS: Final = ("standard", "mpich", "openmpi")
"""The ABIs of MPI that compiled programs have (impi.cabi)."""
C_PROGRAMS: Final = Path(__file__).parents[1] / "programs" / "c"
COMPILE: Final = SHARED / "images/compiled/compile.py"
"""The program that compiles them, on a node or in its image."""
# What compile.py imports, for no other edit of impi makes the images anew.
_NEEDED: Final = (
    "__init__",
    "base/__init__",
    "base/records",
    "base/errors",
    "base/exit_codes",
    "base/own_folders",
    "protocol/__init__",
    "protocol/proofs",
    "cli/__init__",
    "cli/impicc",
    "cli/compiling",
)
_TEXTS: Final = (".py", ".c", ".json", ".toml")


def has_image(vendor: str) -> bool:
    """Whether nodes of ``NAME`` or ``NAME@VERSION`` have an image with compiled programs."""
    return manifest(vendor).kind == "backed" and not machine_of(vendor)


@functools.cache
def folder() -> str:
    """Return the folder of the programs of an image, in the home of a node's user.

    Asked once: a run whose sources are edited meanwhile stays with what it began with.
    """
    digest = hashlib.sha256()
    for path in (COMPILE, *sorted(C_PROGRAMS.glob("*.[ch]"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"compiled-{digest.hexdigest()[:12]}"


def image_files(vendor: str, prefix: str) -> dict[str, bytes]:
    """Return what ``images/compiled`` needs beside its Dockerfile; ``prefix``: of the library."""
    said = {"vendor": manifest(vendor).name, "prefix": prefix, "abis": ABIS, "folder": folder()}
    programs = {path.name: path.read_bytes() for path in sorted(C_PROGRAMS.glob("*.[ch]"))}
    return {"image.json": json.dumps(said).encode(), **programs, **_of_impi()}


@functools.cache
def _of_impi() -> dict[str, bytes]:
    package = C_PROGRAMS.parents[2]
    found = [package / f"{name}.py" for name in _NEEDED]
    found += [path for path in sorted((package / "cabi").rglob("*")) if path.suffix in _TEXTS]
    return {str(path.relative_to(package.parent)): path.read_bytes() for path in found}
