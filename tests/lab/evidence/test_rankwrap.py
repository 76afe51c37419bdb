"""The wrapper of a rank, which records how the rank ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from impi.lab.programs import rankwrap

_ENDED_MEANWHILE = """
import os, runpy, signal, sys
wait = os.waitpid
def waitpid(*arguments):
    done = wait(*arguments)
    os.kill(os.getpid(), signal.SIGTERM)  # the launcher ends the job; this rank is over already
    return done
os.waitpid = waitpid
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_signal_after_the_end_of_the_rank_hides_nothing(tmp_path: Path) -> None:
    program = Path(rankwrap.__file__)
    argv = [
        sys.executable,
        "-c",
        _ENDED_MEANWHILE,
        str(program),
        str(tmp_path),
        "sh",
        "-c",
        "exit 3",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    (record,) = tmp_path.glob("wrap-*.json")
    assert (json.loads(record.read_text())["status"], done.returncode, done.stderr) == (
        3,
        3,
        "",
    )
