"""mpi4py's own extension for an ABI: what a program with C handles imports as ``mpi4py.MPI``.

mpi4py's wheels have one for MPICH's ABI and one for Open MPI's. For the standard ABI it is compiled
from mpi4py's source distribution, by pip with ``impicc``, once for each Python, version and header.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library import build, cache, compilation
from impi.cabi.tables import abi_tables
from impi.cabi.text import headers
from impi.protocol.proofs import sha256

_DEADLINE_S: Final = 3600.0
_COMPILER: Final = """#!/bin/sh
PYTHONPATH={root} exec {python} -c 'import sys; from impi.cli.impicc import main; sys.exit(main())' "$@"
"""


def extension(name: str, environ: Mapping[str, str], tell: Callable[[str], object]) -> Path:
    """Return mpi4py's extension for an ABI: of the installed mpi4py, or else compiled.

    Args:
        name: the ABI.
        environ: of the user, with what pip needs.
        tell: is told that a compilation begins, which takes minutes.

    Raises:
        LaunchError: mpi4py or what it takes to compile it is missing, or fails.
    """
    version, folders = _installed()
    sonames = [soname.encode() for soname in abi_tables.sonames(name)]
    for path in sorted(path for folder in folders for path in folder.glob("MPI.*.so")):
        octets = path.read_bytes()
        if any(b"\0" + soname + b"\0" in octets for soname in sonames):
            return path
    if name != "standard":
        raise LaunchError(
            f"the mpi4py of {sys.executable} has no extension for {abi_tables.abi(name).title}: install mpi4py from "
            f"its wheel with '{sys.executable} -m pip install --force-reinstall --only-binary mpi4py mpi4py'"
        )
    told = sha256(f"{sys.version}{sys.executable}{headers.c_header()}".encode()).hexdigest()[:12]
    file = f"MPI{EXTENSION_SUFFIXES[0]}"
    place = cache.place(environ, f"mpi4py-{version}-{told}", [file])
    if not cache.is_whole(place, [file]):
        build.library(name, environ)

        def fill(folder: str) -> None:
            tell(f"compiling mpi4py {version} for the standard ABI, once for this Python; it takes minutes")
            _compile(version, Path(folder, file), environ)

        cache.make(place, fill, [file])
    return Path(place, file)


def _installed() -> tuple[str, list[Path]]:
    try:
        spec = importlib.util.find_spec("mpi4py")
        version = importlib.metadata.version("mpi4py")
    except importlib.metadata.PackageNotFoundError:
        spec = None
    if spec is None:
        raise LaunchError(
            f"--handles gives programs mpi4py itself, which {sys.executable} does not have: install it there with "
            f"'{sys.executable} -m pip install mpi4py'"
        )
    return version, [Path(folder) for folder in spec.submodule_search_locations or ()]


def _compile(version: str, file: Path, environ: Mapping[str, str]) -> None:
    """Make the file of an extension and its folder; what is beside this is removed."""
    compilation.compiler()
    folder = file.parent
    compiler, target = folder.with_name("mpicc"), folder.with_name("made")
    root = shlex.quote(str(abi_tables.FOLDER.parents[1]))
    compiler.write_text(_COMPILER.format(root=root, python=shlex.quote(sys.executable)))
    compiler.chmod(0o755)
    # pip keeps what it builds: another installation of mpi4py would get this one.
    argv = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--no-binary", "mpi4py"]
    argv += ["--disable-pip-version-check", "--target", str(target), f"mpi4py=={version}"]
    env = {**environ, "MPI4PY_BUILD_MPICC": str(compiler), "MPICC": str(compiler)}
    env["CFLAGS"] = f"-O2 -g0 {environ.get('CFLAGS', '')}".strip()
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"mpi4py {version} is not compiled within {_DEADLINE_S:.0f} s") from None
    made = [*target.glob("mpi4py/MPI.*.so")]
    if done.returncode or not made:
        raise LaunchError(_why(version, done.stdout + done.stderr))
    folder.mkdir()
    made[0].rename(file)


def _why(version: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line.lower()] or lines[-1:] or ["nothing"]
    return (
        f"mpi4py {version} cannot be compiled for the standard ABI; pip says: {errors[0][:200]}. It must reach a "
        f"package index, or a folder (PIP_FIND_LINKS) with mpi4py-{version}.tar.gz, cython and setuptools"
    )
