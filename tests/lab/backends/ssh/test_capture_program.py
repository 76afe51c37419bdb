"""The program around tcpdump on an existing host."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from impi.lab.backends.ssh import capture_program

DEADLINE_S = 30.0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_captures_ends_although_nobody_may_signal_it(
    tmp_path: Path, end: signal.Signals
) -> None:
    """Such as root's tcpdump: it ends by its terminal alone."""
    deaf = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit('0 packets dropped by kernel'))\n"
        "os.write(1, b'begun'); open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "while True: time.sleep(600)\n"
    )
    path, where = tmp_path / "file.pcap", tmp_path / "pid"
    argv = [
        sys.executable,
        "-I",
        "-S",
        capture_program.__file__,
        str(path),
        "600",
        sys.executable,
        "-c",
        deaf,
    ]
    with subprocess.Popen([*argv, str(where)], stderr=subprocess.PIPE) as program:
        until = time.monotonic() + DEADLINE_S
        while not (where.exists() and where.read_text()):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert path.read_bytes() == b"begun"
        program.send_signal(end)
        said = program.communicate(timeout=DEADLINE_S)[1]
    pid = int(where.read_text())
    while (
        Path(f"/proc/{pid}/cmdline").exists()
        and Path(f"/proc/{pid}/cmdline").read_bytes()
    ):
        assert time.monotonic() < until + DEADLINE_S
        time.sleep(0.01)
    if end == signal.SIGTERM:
        assert said == b"0 packets dropped by kernel\n"
        assert not path.exists()


def test_it_ends_after_its_time(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-I",
        "-S",
        capture_program.__file__,
        str(tmp_path / "file"),
        "0.1",
        "sleep",
        "600",
    ]
    subprocess.run(argv, timeout=DEADLINE_S, check=False)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-I",
        "-S",
        capture_program.__file__,
        str(tmp_path / "file"),
        "600",
        "no-tcpdump",
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.stderr == "no-tcpdump: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []
