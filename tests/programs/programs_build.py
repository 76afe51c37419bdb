"""Builds extension modules and libraries, by the compiler of their reference's vendor."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from compat_run import ROOT
from programs_catalogue import Program
from programs_run import BUILT, DEMO

_STAMP = ".made-by"


def build(program: Program, python: Path) -> str:
    """Build a program in a folder of its name, unless that is done; return why it cannot be.

    Args:
        program: ``source`` names the folder that is copied, ``build`` the commands in the copy.
        python: the interpreter that the program runs under.
    """
    if not program.build:
        return ""
    folder = BUILT / program.name
    commands = [
        [_filled(word, program, python) for word in line.split()]
        for line in program.build
    ]
    wanted = "\n".join(" ".join(command) for command in commands)
    stamp = folder / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(program.source.replace("{demo}", str(DEMO)), folder)
    print(f"programs: building {program.name}", file=sys.stderr, flush=True)
    for command in commands:
        try:
            ran = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                env=_environ(program),
                check=False,
            )
        except OSError as error:
            return f"cannot be built: {command[0]}: {error.strerror}"
        if ran.returncode:
            return (
                f"cannot be built: {' '.join((ran.stdout + ran.stderr).split())[-300:]}"
            )
    stamp.write_text(wanted, encoding="utf-8")
    return ""


def _bin(program: Program) -> Path:
    return ROOT / ".mpi" / program.own / "bin"


def _environ(program: Program) -> dict[str, str]:
    return {**os.environ, "PATH": f"{_bin(program)}{os.pathsep}{os.environ['PATH']}"}


def _filled(word: str, program: Program, python: Path) -> str:
    """Return a word of a command; ``{suffix}`` ends the file name of an extension module."""
    site = next(python.parent.parent.glob("lib/python*/site-packages"))
    known = {
        "{bin}": str(_bin(program)),
        "{python}": str(python),
        "{scripts}": str(python.parent),
        "{site}": str(site),
        "{include}": sysconfig.get_path("include"),
        "{suffix}": sysconfig.get_config_var("EXT_SUFFIX"),
    }
    for name, value in known.items():
        word = word.replace(name, value)
    return word
