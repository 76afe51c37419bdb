"""The needs of a package of Debian: other packages, and libraries for the loader."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from corpus_binaries import BUILD, TREE, UNPACKED

_OURS: Final = re.compile(
    r"(libmpi(_mpifh)?|libmpich|libpmix|libopen-rte|libc)\.so|ld-linux"
)
"""Libraries that are not Debian's here: ours, and those of the clients' MPI libraries."""


def needed_packages(names: Sequence[str]) -> list[str]:
    """Return packages that apt-get would install for these, which this machine does not have.

    Raises:
        LookupError: apt has no such package.
    """
    told = subprocess.run(
        ["apt-get", "--simulate", "--no-install-recommends", "install", *names],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        why = re.findall(r"^E: (.*)$", told.stderr, re.MULTILINE) or ["no word"]
        raise LookupError(f"apt-get says: {why[0]}")
    return re.findall(r"^Inst (\S+)", told.stdout, re.MULTILINE)


def linked(name: str, files: Sequence[Path]) -> dict[str, str]:
    """Return LD_LIBRARY_PATH with a folder of links to all libraries that files need, but MPI's.

    Args:
        name: of the folder.
        files: programs, libraries, extension modules.

    Raises:
        LookupError: a library is missing.
    """
    folders = [UNPACKED / TREE / more for more in ("", "blas", "lapack")]
    search = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
    told = subprocess.run(
        ["ldd", *map(str, files)],
        env=search,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if missing := re.findall(r"(\S+) => not found", told):
        raise LookupError(f"libraries are missing: {', '.join(sorted(set(missing)))}")
    links, of_mpi = BUILD / "linked" / name, BUILD / "linked" / f"{name}-mpi"
    links.mkdir(parents=True, exist_ok=True)
    of_mpi.mkdir(exist_ok=True)
    paths = re.findall(rf"(?:=> )?({re.escape(str(UNPACKED))}\S+)", told)
    for path in [*(str(file) for file in files if ".so" in file.name), *paths]:
        file = Path(path.removesuffix(":")).name
        link = (of_mpi if _OURS.match(file) else links) / file
        if not link.is_symlink():
            link.symlink_to(path)
    return {"LD_LIBRARY_PATH": str(links)}


def with_mpi(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables of :func:`linked` by which the loader finds the program's MPI, too.

    Behind a script it must, as the usher brings ours when the program has been loaded.
    """
    links = environ.get("LD_LIBRARY_PATH")
    return (
        {**environ, "LD_LIBRARY_PATH": f"{links}:{links}-mpi"} if links else {**environ}
    )
