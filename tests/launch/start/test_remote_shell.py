"""How a command gets to another node."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from impi.launch.start import remote_shell
from impi.launch.start.remote_shell import STEP, command, in_slurm, shell, step

COMPONENT = {STEP: "--het-group=1"}


def test_ssh_gets_one_string_for_its_shell() -> None:
    argv = command("far", ["echo", "two words", "$HOME"], {})
    assert (argv[0], argv[-2]) == ("ssh", "far")
    assert shlex.split(argv[-1]) == ["echo", "two words", "$HOME"]
    assert "BatchMode=yes" in argv


def test_in_slurm_it_is_a_step_of_the_component() -> None:
    assert in_slurm(COMPONENT) and not in_slurm({STEP: ""})
    argv = command("far", ["echo", "two words"], COMPONENT)
    assert argv[:3] == ["srun", "--het-group=1", "--overlap"]
    assert argv[-3:] == ["--nodelist=far", "echo", "two words"]
    assert step({STEP: "--overlap"}) == ["srun", "--overlap"], (
        "an allocation without components"
    )


def test_launchers_take_srun_for_ssh(tmp_path: Path) -> None:
    """They add options, the node and one string for a shell."""
    (tmp_path / "srun").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    words = shell(COMPONENT).split(" ")
    assert Path(remote_shell._SHELL).is_file()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        [*words, "far", "echo two words"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    told = done.stdout.splitlines()
    assert told[:2] == ["--het-group=1", "--overlap"]
    assert "--nodelist=far" in told
    assert "echo two words" in told[-1]
