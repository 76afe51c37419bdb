"""Nodes on loopback: what runs there, files, and their end with the lab."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from open_labs import DEADLINE_S

from impi.base.errors import LabError
from impi.base.remote.commands import this_machine
from impi.lab.backends.loopback.node import LoopbackNode
from impi.lab.nodes.interface import Lab, run_on


def test_run(lab: Lab) -> None:
    done = run_on(
        lab.clients[0][0], ["sh", "-c", "pwd; echo $HOME; exit 2"], timeout_s=DEADLINE_S
    )
    home = lab.access.environment["c0n0"]["HOME"]
    assert (done.code, done.stdout.decode().split(), done.leftovers) == (
        2,
        [home, home],
        (),
    )


def test_files_go_with_the_lab(lab: Lab, tmp_path: Path) -> None:
    node = lab.clients[0][0]
    node.write("below/file", b"one")
    node.write(str(tmp_path / "else" / "where" / "file"), b"two", mode=0o755)
    assert node.read("below/file") == b"one"
    assert node.read(f"{lab.access.environment['c0n0']['HOME']}/below/file") == b"one"
    assert (tmp_path / "else/where/file").stat().st_mode & 0o777 == 0o755
    assert node.read("nothing") is None
    with pytest.raises(LabError, match="cannot be written"):
        node.write("/proc/nothing", b"")
    lab.close()
    lab.close()
    assert list(tmp_path.iterdir()) == []


def test_a_command_has_the_mark_of_its_lab_whatever_it_asks_for(tmp_path: Path) -> None:
    commands = this_machine({"PATH": os.defpath})
    try:
        env = {"IMPILAB_LAB": "mine", "PATH": os.defpath}
        node = LoopbackNode("c0n0", "127.77.1.1", tmp_path, env, commands)
        asked = {"IMPILAB_LAB": "another", "OWN": "x"}
        done = node.start(
            ["/bin/sh", "-c", "echo $IMPILAB_LAB $OWN; pwd"], env=asked
        ).wait(DEADLINE_S)
        assert done.stdout.decode().split() == ["mine", "x", str(tmp_path)]
    finally:
        commands.close()
