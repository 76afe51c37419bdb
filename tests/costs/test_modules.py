"""The modules that a rank and an impirun load: they are half of a short job's start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "programs" / "count_modules.py"
MOST = {"pure": (193, 300), "mpich": (193, 327)}
"""Modules of a rank: of impi, and all. A change that raises a number says what that buys."""
MOST_OF_IMPIRUN = {"impi.launch.client.session": 102, "impi.launch.server.loop": 84}
"""Modules of impi of a process that runs ``impirun``, by its side."""
NEVER = {
    "asyncio",
    "dataclasses",
    "inspect",
    "logging",
    "ssl",
    "numpy",
    "tempfile",
    "urllib.request",
}
"""Modules that cost more than 4 ms, or bring those that do."""


@pytest.mark.parametrize("vendor", MOST)
def test_a_rank_loads_no_more_than_that(
    run_job: Callable[..., Any], vendor: str
) -> None:
    # An option of Python's: the rank is a fresh one, not a fork of a process that has loaded more.
    result = run_job([sys.executable, "-u", str(PROGRAM)], [f"{vendor}:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    joined, sent = json.loads(result.clients[0].out)
    assert sent == joined, "the first message loads modules"
    assert joined[0] <= MOST[vendor][0]
    assert joined[1] <= MOST[vendor][1]
    assert joined[0] > MOST[vendor][0] - 10, "the table tells an old story"


@pytest.mark.parametrize("side", MOST_OF_IMPIRUN)
def test_an_impirun_loads_no_more_than_that(side: str) -> None:
    code = (
        f"import impi.cli.impirun, {side}, json, sys; print(json.dumps([*sys.modules]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=60
    ).stdout
    loaded = json.loads(printed)
    own = sum(name.partition(".")[0] == "impi" for name in loaded)
    assert MOST_OF_IMPIRUN[side] - 10 < own <= MOST_OF_IMPIRUN[side]
    assert not NEVER & {*loaded}
