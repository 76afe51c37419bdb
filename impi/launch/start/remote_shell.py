"""Commands that run another command on another node: by ssh, or inside a job of Slurm by srun."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

SSH_OPTIONS: Final = (
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=20",
    "-o",
    "ConnectionAttempts=3",
)
"""BatchMode: ssh must never prompt, since no user could answer."""

STEP: Final = "IMPI_SLURM_STEP"
"""Variable that ``impirun -slurm`` sets for its clients: srun's option for their component."""

_SHELL: Final = str(Path(__file__).absolute().with_name("srun_shell.sh"))


def in_slurm(environ: Mapping[str, str]) -> bool:
    """Return whether this client is a component of a job of Slurm."""
    return bool(environ.get(STEP))


def step(environ: Mapping[str, str]) -> list[str]:
    """Return the start of a srun command for a step of this client's component.

    Steps must overlap, because impirun's own step lasts as long as those that it starts.
    """
    return list(dict.fromkeys(["srun", environ[STEP], "--overlap"]))


def step_on(node: str, environ: Mapping[str, str]) -> list[str]:
    """Return the start of a srun command for one task on a node."""
    return [*step(environ), "--nodes=1", "--ntasks=1", f"--nodelist={node}"]


def command(node: str, argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command that runs ``argv`` on another node."""
    if in_slurm(environ):
        return [*step_on(node, environ), *argv]

    # ssh joins its words by blanks for a shell there, so they are quoted here.
    return ["ssh", *SSH_OPTIONS, node, shlex.join(argv)]


def shell(environ: Mapping[str, str]) -> str:
    """Return a command that takes a node and a command line as ssh does, for PRRTE and ORTE.

    PRRTE and ORTE split it at spaces, so no word of it has one.
    """
    return " ".join(
        ["sh", _SHELL, *step(environ), "--nodes=1", "--ntasks=1", "--input=none"]
    )
