"""mpi4py's own extension for an ABI, which programs with ``--handles`` import as ``mpi4py.MPI``.

The Python that runs the program has it: mpi4py's wheels have one extension for MPICH's ABI and one
for Open MPI's, a distribution's mpi4py has one for its MPI library. The library that an extension
needs tells its ABI. The extension for the standard ABI is compiled from mpi4py's source
distribution, by pip with ``impicc``, once for each Python, version and header.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.base.records import record
from impi.cabi.library import build, cache, compilation
from impi.cabi.tables import abi_tables
from impi.cabi.text import headers
from impi.protocol.proofs import sha256

_DEADLINE_S: Final = 3600.0
_ANSWER_S: Final = 60.0
# -c puts the current folder first, and a module there may have a name of the standard library.
_ASK: Final = """
import sys; del sys.path[0]
import importlib.machinery, importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("mpi4py")
try:
    version = importlib.metadata.version("mpi4py")
except importlib.metadata.PackageNotFoundError:
    version = ""
folders = list(spec.submodule_search_locations or ()) if spec else []
print(json.dumps([sys.version, version, folders, importlib.machinery.EXTENSION_SUFFIXES[0]]))
"""
_COMPILER: Final = """#!/bin/sh
PYTHONPATH={root} exec {python} -c 'import sys; from impi.cli.impicc import main; sys.exit(main())' "$@"
"""


@record
class _Mpi4py:
    """The mpi4py of a Python."""

    python: str
    told: str  # sys.version of that Python
    version: str
    folders: tuple[Path, ...]
    suffix: str  # of extension modules

    def extensions(self, name: str) -> list[Path]:
        """Return its extensions whose MPI library has an ABI."""
        sonames = [soname.encode() for soname in abi_tables.sonames(name)]

        # The name of a needed library stands among the strings of the file, between zeros.
        return [
            path
            for path in sorted(
                path for folder in self.folders for path in folder.glob("MPI.*.so")
            )
            if any(b"\0" + soname + b"\0" in path.read_bytes() for soname in sonames)
        ]


def extension(
    name: str, python: str, environ: Mapping[str, str], tell: Callable[[str], object]
) -> Path:
    """Return the path of mpi4py's extension for an ABI: the installed one, or else compiled.

    Args:
        name: the ABI.
        python: the path of the Python that runs the program.
        environ: the user's variables, with those that Python and pip read.
        tell: called with a sentence before a compilation, which takes minutes.

    Raises:
        LaunchError: mpi4py is missing, or a tool that compiles it is missing or fails.
    """

    found = _installed(python, environ)
    if paths := found.extensions(name):
        return paths[0]

    if name != "standard":
        others = [other for other in abi_tables.NAMES if found.extensions(other)]
        cure = (
            f"name the one that it has (--handles {others[0]}), or " if others else ""
        )
        raise LaunchError(
            f"the mpi4py of {python} has no extension for {abi_tables.abi(name).title}: {cure}install mpi4py from "
            f"its wheel with '{python} -m pip install --force-reinstall --only-binary mpi4py mpi4py'"
        )

    told = sha256(f"{found.told}{python}{headers.c_header()}".encode()).hexdigest()[:12]
    file = f"MPI{found.suffix}"

    place = cache.place(environ, f"mpi4py-{found.version}-{told}", [file])
    if not cache.is_whole(place, [file]):
        build.library(name, environ)

        def fill(folder: str) -> None:
            tell(
                f"compiling mpi4py {found.version} for the standard ABI, once for this Python; it takes minutes"
            )
            _compile(found, Path(folder, file), environ)

        cache.make(place, fill, [file])

    return Path(place, file)


def folders() -> list[str]:
    """Return the folders of each mpi4py on the path of this Python.

    The first one need not be the wheel: PYTHONPATH may name the program's mpi4py.
    """
    found = [Path(folder, "mpi4py") for folder in sys.path]
    return [str(folder) for folder in found if folder.is_dir()]


def _installed(python: str, environ: Mapping[str, str]) -> _Mpi4py:
    """Ask a Python for its mpi4py. Raises LaunchError: it does not answer, or has none."""
    try:
        answer = subprocess.run(
            [python, "-c", _ASK],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=True,
        ).stdout
        # A sitecustomize of the site may print, too.
        told, version, folders, suffix = json.loads(answer.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise LaunchError(
            f"--handles asks {python} for its mpi4py, and has no answer: {error}"
        ) from None

    if not folders or not version:
        raise LaunchError(
            f"--handles gives programs mpi4py itself, which {python} does not have: install it there with "
            f"'{python} -m pip install mpi4py'"
        )

    return _Mpi4py(python, told, version, tuple(map(Path, folders)), suffix)


def _compile(found: _Mpi4py, file: Path, environ: Mapping[str, str]) -> None:
    """Compile an extension into a new folder; the caller removes the scratch files beside it."""

    compilation.compiler()
    version = found.version
    folder = file.parent
    compiler, target = folder.with_name("mpicc"), folder.with_name("made")
    root = shlex.quote(str(abi_tables.FOLDER.parents[1]))
    compiler.write_text(_COMPILER.format(root=root, python=shlex.quote(sys.executable)))
    compiler.chmod(0o755)
    # Without --no-cache-dir pip would keep this wheel, and give it to the next one who installs
    # mpi4py with another MPI library.
    argv = [
        found.python,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-cache-dir",
        "--no-binary",
        "mpi4py",
    ]
    argv += [
        "--disable-pip-version-check",
        "--target",
        str(target),
        f"mpi4py=={version}",
    ]
    env = {**environ, "MPI4PY_BUILD_MPICC": str(compiler), "MPICC": str(compiler)}

    env["CFLAGS"] = f"-O2 -g0 {environ.get('CFLAGS', '')}".strip()
    try:
        done = subprocess.run(
            argv,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"mpi4py {version} is not compiled within {_DEADLINE_S:.0f} s"
        ) from None

    made = [*target.glob("mpi4py/MPI.*.so")]
    if done.returncode or not made:
        raise LaunchError(_why(version, done.stdout + done.stderr))

    folder.mkdir()
    made[0].rename(file)


def _why(version: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = (
        [line for line in lines if "error:" in line.lower()]
        or lines[-1:]
        or ["nothing"]
    )
    return (
        f"mpi4py {version} cannot be compiled for the standard ABI; pip says: {errors[0][:200]}. It must reach a "
        f"package index, or a folder (PIP_FIND_LINKS) with mpi4py-{version}.tar.gz, cython and setuptools"
    )
