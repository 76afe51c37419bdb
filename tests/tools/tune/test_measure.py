"""The program of every proc of a measuring job, in a process alone: no other rank is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def said(code: str) -> Any:
    """Importing the program makes an MPI process of one that does so; so another one does."""
    lines = ("import json", "from impi.tools.tune import measure", code)
    argv = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_short_runs_are_repeated_often_and_long_ones_seldom() -> None:
    counts = "[measure._repeats(s, q) for s, q in ((1e-6, False), (0.01, False), (5.0, False), (5.0, True))]"
    assert said(f"print(json.dumps({counts}))") == [60, 10, 5, 3]


def test_pairs_are_those_of_stars_and_chains() -> None:
    assert said("print(json.dumps([measure._pairs(2), measure._pairs(4)]))") == [
        [[0, 1]],
        [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]],
    ]


def test_a_rule_holds_while_an_operation_is_timed() -> None:
    code = (
        "from impi.protocol.decisions import Decisions, Rule\n"
        "world, told = measure.MPI.COMM_WORLD, []\n"
        "decide = world._algorithms.decide\n"
        "world._algorithms.decide = lambda table: (told.append(table is not None), decide(table))\n"
        "timed = measure._Operation(world, 'bcast', 64).seconds(Rule('flat'), 0.0, True)\n"
        "print(json.dumps([told, timed >= 0]))"
    )
    assert said(code) == [[True, False], True]


def test_combining_an_octet_takes_less_than_a_microsecond() -> None:
    assert 0 < said("print(json.dumps(measure._combining()))") < 1e-6
