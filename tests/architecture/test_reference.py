"""The generated pages of docs/reference are those that the tables make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "ci/reference.py", "--check"],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
