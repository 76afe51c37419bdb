"""Installs the programs: mpi4py's source distribution, and packages into a venv of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compat_run import ROOT
from programs_catalogue import REQUIREMENTS
from programs_run import DEMO

BUILD: Final = ROOT / "build" / "programs"
MPI4PY: Final = DEMO.parent.name.replace("-", "==")
_COMPILED: Final = ("mpi4py-fft", "mpi4jax")
"""They need headers and libraries of other packages, so they come last."""
# No dependency is looked for: requirements.txt names every package.
_OPTIONS: Final = (
    "install",
    "--quiet",
    "--no-compile",
    "--no-deps",
    "--prefer-binary",
    "--disable-pip-version-check",
)


def demo() -> None:
    """Fetch mpi4py's demonstrations into build/programs."""
    if DEMO.is_dir():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    _say(f"fetching the source distribution of {MPI4PY}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        "mpi4py",
    ]
    subprocess.run([*command, MPI4PY, "-d", str(BUILD)], check=True)
    shutil.unpack_archive(BUILD / f"{DEMO.parent.name}.tar.gz", BUILD)


def packages() -> Path:
    """The interpreter of the venv, made once for each state of requirements.txt."""
    venv = BUILD / "venv"
    python = venv / "bin" / "python"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    stamp = venv / ".made-from"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    _say("installing packages into build/programs/venv, once; it takes some minutes")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    lines = [line.partition("#")[0].strip() for line in wanted.splitlines()]
    first = [line for line in lines if line and not line.startswith(_COMPILED)]
    if not _pip(python, first):
        # One of them fails: the others are wanted all the same.
        for line in first:
            if not _pip(python, [line]):
                _say(f"{line} could not be installed")
    environ = _compiled_environ(venv)
    for line in lines:
        if line.startswith(_COMPILED) and not _pip(python, [line], environ):
            _say(f"{line} could not be installed")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def missing(python: Path, needs: Sequence[str]) -> list[str]:
    """Those of the distributions that the interpreter does not have."""
    program = "import sys\nfrom importlib.metadata import distributions\n"
    program += "print(*{d.metadata['Name'].lower().replace('_', '-') for d in distributions()}, sep='\\n')"
    listed = subprocess.run(
        [str(python), "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    return sorted(
        {need for need in needs if need.lower().replace("_", "-") not in listed}
    )


def _pip(
    python: Path, requirements: Sequence[str], environ: dict[str, str] | None = None
) -> bool:
    command = [str(python), "-m", "pip", *_OPTIONS, *requirements]
    ran = subprocess.run(
        command,
        env={**os.environ, **(environ or {})},
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return ran.returncode == 0


def _compiled_environ(venv: Path) -> dict[str, str]:
    """Variables for the compiler: FFTW's header and libraries are of two packages."""
    site = next(venv.glob("lib/python*/site-packages"))
    fftw = venv / "fftw"
    links = {"include/fftw3.h": site / "pylib_fftw3" / "include" / "fftw3.h"}
    for name, pattern in (("fftw3", "libfftw3-*"), ("fftw3_threads", "libfftw3_omp-*")):
        for library in site.glob(f"pyfftw.libs/{pattern}"):
            links[f"lib/lib{name}.so"] = library
    for link, target in links.items():
        (fftw / link).parent.mkdir(parents=True, exist_ok=True)
        (fftw / link).unlink(missing_ok=True)
        (fftw / link).symlink_to(target)
    return {
        "FFTW_ROOT": str(fftw),
        "LDFLAGS": f"-Wl,--disable-new-dtags,-rpath,{site / 'pyfftw.libs'}",
        "MPI4JAX_BUILD_MPICC": str(ROOT / ".mpi" / "mpich" / "bin" / "mpicc"),
    }


def _say(text: str) -> None:
    print(f"programs: {text}", file=sys.stderr, flush=True)
