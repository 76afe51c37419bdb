"""The system calls of an idle job, counted: no load changes the count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impi.base.remote.starter_lines import NOTHING
from impi.base.remote.unacknowledged import listed

PROGRAM = Path(__file__).parent / "programs" / "idle_starter.py"
ROOT = Path(__file__).parents[2]
PROCS = 2
LOOKS = 10
FIRST = 3
"""Looks in which other processes are seen for the first time."""


def test_a_look_of_a_starter_is_at_its_own_processes_and_known_connections(
    tmp_path: Path,
) -> None:
    try:
        listed({1})
    except OSError as error:
        pytest.skip(f"this kernel tells of connections by /proc/net/tcp only: {error}")
    spec = {
        "argv": ["sleep", "600"],
        "procs": {str(number): {} for number in range(PROCS)},
        "env": {},
        "only": False,
        "cwd": "",
        "stdin": None,
        "fed": None,
        "grace_s": 2.0,
        "settle_s": 0.5,
        "silence_s": 60.0,
        "leaves": NOTHING,
    }
    orders = [spec, {"do": "watch", "ends": [["127.0.0.1", 9]], "procs": []}]
    counters = tmp_path / "snmp"
    counters.write_text("Tcp: ActiveOpens PassiveOpens\nTcp: 1 2\n", "ascii")
    loads = tmp_path / "loadavg"
    loads.write_text("0.1 0.1 0.1 1/90 700\n", "ascii")
    made_before = {
        f"{folder}/stat"
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal()
    }
    with subprocess.Popen(
        [sys.executable, "-S", str(PROGRAM), str(LOOKS), str(counters), str(loads)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(
            b"".join(json.dumps(order).encode() + b"\n" for order in orders)
        )
        process.stdin.flush()
        told = [json.loads(line) for line in process.stdout]
        counted = json.loads(process.stderr.read())
    own = sorted(
        f"/proc/{pid}/stat"
        for pid in [counted["pid"], *(line["pid"] for line in told if "pid" in line)]
    )
    assert len(own) == 1 + PROCS
    quiet = counted["looks"][FIRST:]
    assert len(quiet) == LOOKS - FIRST
    for look in quiet:
        assert (
            sorted(file for file in look if file in own or file in made_before) == own
        )
        rest = [word for word in look if not word.endswith("/stat") and word != "/proc"]
        assert rest == [str(loads), str(counters)], (
            "no list of connections, as none has been opened"
        )
    # Nobody begins a process, as far as the starter can know: one look in eight makes sure.
    assert sum("/proc" in look for look in quiet) <= 1
