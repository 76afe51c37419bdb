"""The folders of labs on loopback, of owners that live and that died."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from open_labs import DEADLINE_S

from impi.lab.backends.lifecycle.cleanup import Choice, clean
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.nodes.interface import Lab


def test_a_dead_orchestrator_leaves_no_process_and_clean_removes_its_folder(
    temp: Path,
) -> None:
    program = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from impi.lab.backends.loopback.backend import LoopbackBackend\n"
        "from impi.lab.nodes.topology import parse_topology\n"
        "from impi.lab.backends.lifecycle.reaper import reaper_of\n"
        "lab = LoopbackBackend().open(['pure', 'pure'], parse_topology('1x1+1x1'), run='dying')\n"
        "reaper_of('local').process.kill()  # which would be faster than what is tried here\n"
        "command = lab.clients[0][0].start(['sh', '-c', 'echo $$; sleep 600'])\n"
        "while not command.stdout(): time.sleep(0.01)\n"
        "print(command.stdout().decode(), end='', flush=True)\n"
        "time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", program, str(temp)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        (folder,) = temp.iterdir()
        backend = LoopbackBackend()
        assert clean(backend.inventory, Choice()) == []
        process.kill()
        process.wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    assert [
        f.subject for f in backend.doctor() if not f.ok and f.subject == "leftovers"
    ] == ["leftovers"]
    assert clean(backend.inventory, Choice(older_than_s=3600)) == []
    assert clean(backend.inventory, Choice()) == [f"folder {folder}"]
    assert list(temp.iterdir()) == []


def test_clean_of_everything_takes_live_labs_too(temp: Path, lab: Lab) -> None:
    assert clean(LoopbackBackend().inventory, Choice()) == []
    assert len(clean(LoopbackBackend().inventory, Choice(everything=True))) == 1
