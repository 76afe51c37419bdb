"""The reference programs: each runs, counts what it says, and refuses what it cannot do."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from impi.tools.bench import rawsockets


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, rawsockets.__file__, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("latency", "--iterations", "20", "--skip", "2"),
        ("latency", "--spinning", "--iterations", "20", "--skip", "2"),
        (
            "bandwidth",
            "--iterations",
            "2",
            "--skip",
            "1",
            "--size",
            "1000000",
            "--window",
            "3",
        ),
        ("rate", "--iterations", "5", "--skip", "1"),
        ("rate", "--spinning", "--iterations", "5", "--skip", "1"),
    ],
)
def test_a_measure_is_one_object(arguments: tuple[str, ...]) -> None:
    ended = _run(*arguments)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["measure"] == arguments[0]
    assert result["value"] > 0
    assert result["spinning"] == ("--spinning" in arguments)


def test_the_packet_is_a_header_and_eight_octets() -> None:
    assert rawsockets.PACKET == 136


def test_pinned() -> None:
    core = str(min(os.sched_getaffinity(0)))
    assert (
        _run(
            "latency", "--iterations", "2", "--skip", "0", "--pin", core, core
        ).returncode
        == 0
    )


def test_bandwidth_does_not_spin() -> None:
    ended = _run("bandwidth", "--spinning")
    assert ended.returncode == 2
    assert "always blocks" in ended.stderr
