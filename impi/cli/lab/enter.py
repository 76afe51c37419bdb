"""Run a command or a shell in a lab that stays: by ssh in containers, as a process on loopback."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.base.exit_codes import ExitCode
from impi.lab.nodes.saved import SavedLab

_NOT_FOUND: Final = 127


def enter(saved: SavedLab, node: str, argv: Sequence[str]) -> int:
    """Run a command on a node of a lab, with our own standard streams; return its exit status.

    Args:
        saved: the lab.
        node: name of the node.
        argv: the command; empty: a shell.

    Raises:
        UsageError: there is no such node.
        LabError: there is no ssh on this machine.
    """

    where = saved.node(node)

    env = dict(saved.access.environment[node])
    if not saved.access.private_key:
        return _run(
            list(argv) or [os.environ.get("SHELL", "/bin/sh")],
            env=env,
            cwd=Path(where.home),
        )

    if shutil.which("ssh") is None:
        raise LabError(
            "there is no ssh on this machine; install OpenSSH's client (Debian: openssh-client)"
        )

    # By env, because a server of SSH accepts only variables that it is configured for.
    words = [f"{name}={value}" for name, value in sorted(env.items())]
    command = shlex.join(
        [
            "env",
            *words,
            *(argv or ["bash", "--noprofile", "--rcfile", "/dev/null", "-i"]),
        ]
    )
    # A shell needs a terminal. The output of a command must pass as it is, and a
    # terminal changes ends of lines.
    terminal = ["-t"] if not argv and sys.stdin.isatty() else []

    return _run(["ssh", "-F", str(saved.config), *terminal, node, command])


def _run(
    argv: list[str], env: dict[str, str] | None = None, cwd: Path | None = None
) -> int:
    try:
        with subprocess.Popen(argv, env=env, cwd=cwd) as process:
            try:
                return _status(process.wait())
            except KeyboardInterrupt:
                # The command has had the same Ctrl-C, and decides what to do.
                process.wait()
                return ExitCode.SIGINT
    except OSError as error:
        print(f"impilab: {argv[0]}: {error.strerror}", file=sys.stderr)
        return _NOT_FOUND


def _status(code: int) -> int:
    return code if code >= 0 else 128 - code
