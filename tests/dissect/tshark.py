"""Runs tshark with our dissector."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from impi.cli.decode import LUA

DEADLINE_S = 120.0
BETWEEN = ";"


@dataclass(frozen=True)
class Frame:
    """The values of one frame, by field; several where several packets end in it."""

    values: dict[str, list[str]]

    def __getitem__(self, name: str) -> list[str]:
        return self.values[name]


def run_tshark(*argv: str) -> str:
    """What tshark prints; skips where it is missing."""
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed: apt-get install tshark")
    # The ports of a job may be anybody's, so ours is asked before the owners of ports.
    argv = (program, "-o", "tcp.try_heuristic_first:TRUE", "-X", f"lua_script:{LUA}", "-n", *argv)
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Lua" not in ended.stderr, ended.stderr
    assert "Lua Error" not in ended.stdout, ended.stdout
    return ended.stdout


def frames(capture: Path, names: list[str], *, only: str = "impi", twice: bool = False) -> list[Frame]:
    """The values of these fields in all frames that end an IMPI packet or command."""
    fields = [part for name in names for part in ("-e", name)]
    shape = ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", f"aggregator={BETWEEN}"]
    out = run_tshark(*(["-2"] if twice else []), "-r", str(capture), "-Y", only, *shape, *fields)
    found = []
    for line in out.splitlines():
        parts = line.split("\t")
        found.append(Frame({n: v.split(BETWEEN) if v else [] for n, v in zip(names, parts, strict=True)}))
    return found
