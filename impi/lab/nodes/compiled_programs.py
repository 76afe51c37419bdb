"""The programs in C of cases: their sources, and where an image has them compiled (``abi=``).

``images/compiled`` is an image on top of a vendor's. It has the programs that the vendor's mpicc
makes, those for the standard ABI, and our libraries. The folder's name has a digest of all their
sources, so that a lab with other sources compiles on its nodes instead.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Final

from impi.base.manifests import SHARED, machine_of, manifest

ABIS: Final = ("standard", "mpich", "openmpi")
"""The ABIs of MPI that compiled programs have (impi.cabi)."""
C_PROGRAMS: Final = Path(__file__).parents[1] / "programs" / "c"
COMPILE: Final = SHARED / "images/compiled/compile.py"
"""The program that compiles them, on a node or in its image."""
# The modules that compile.py imports: an edit of others must not make the images anew.
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
_INCLUDED: Final = re.compile(r'^#include "(.+)"$', re.MULTILINE)
_TEXTS: Final = (".py", ".c", ".json", ".toml")


def has_image(vendor: str) -> bool:
    """Whether nodes of ``NAME`` or ``NAME@VERSION`` have an image with compiled programs."""
    return manifest(vendor).kind == "backed" and not machine_of(vendor)


def sources() -> list[Path]:
    """Return all sources; those of ``ways`` (:mod:`.ways`) include others, and go beside them."""
    return sorted((*C_PROGRAMS.glob("*.[ch]"), *C_PROGRAMS.glob("ways/*.[ch]")))


def needed_by(name: str) -> list[Path]:
    """Return the source of a program, and the files that it includes."""
    by_name = {path.name: path for path in sources()}

    found, wanted = [by_name[f"{name}.c"]], [f"{name}.c"]
    for file in wanted:
        for other in _INCLUDED.findall(by_name[file].read_text("utf-8")):
            if other not in wanted:
                wanted.append(other)
                found.append(by_name[other])

    return found


@functools.cache
def folder() -> str:
    """Return the folder of an image's compiled programs, in the home of a node's user.

    Asked once: a run whose sources are edited meanwhile stays with what it began with.
    """
    digest = hashlib.sha256()
    for path in (COMPILE, *sources()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())

    return f"compiled-{digest.hexdigest()[:12]}"


def image_files(vendor: str, prefix: str) -> dict[str, bytes]:
    """Return the files of ``images/compiled`` but its Dockerfile; ``prefix``: the library's."""
    said = {
        "vendor": manifest(vendor).name,
        "prefix": prefix,
        "abis": ABIS,
        "folder": folder(),
    }
    programs = {path.name: path.read_bytes() for path in sources()}

    return {"image.json": json.dumps(said).encode(), **programs, **_of_impi()}


@functools.cache
def _of_impi() -> dict[str, bytes]:
    package = C_PROGRAMS.parents[2]
    found = [package / f"{name}.py" for name in _NEEDED]
    found += [
        path for path in sorted((package / "cabi").rglob("*")) if path.suffix in _TEXTS
    ]

    return {str(path.relative_to(package.parent)): path.read_bytes() for path in found}
