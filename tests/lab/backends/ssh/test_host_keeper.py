"""The keeper of a lab's folder on an existing host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from impi.lab.backends.ssh import host_keeper


def test_the_keeper_is_not_interrupted_by_a_second_end(tmp_path: Path) -> None:
    folder = tmp_path / "impilab-1"
    argv = [
        sys.executable,
        host_keeper.__file__,
        str(folder),
        "A_MARK=that-none-has",
        "600",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert b'"uid"' in keeper.stdout.readline()
        for number in range(3000):
            (folder / str(number)).touch()
        while keeper.poll() is None:
            keeper.terminate()
    assert list(tmp_path.glob("impilab-*")) == []
