"""Whether processes may read each other's memory, as the kernel of this machine answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from impi.launch.start import reading

_ASK = "from impi.launch.start.reading import siblings_read; print(siblings_read())"
# A system-call filter that refuses process_vm_readv stays for a process and its children.
_FILTERED = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 310, "aarch64": 270}[__import__("os").uname().machine]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
"""


def ask(before: str = "") -> str:
    root = str(Path(reading.__file__).parents[2])
    argv = [sys.executable, "-c", before + _ASK]
    return subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": root},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_a_filter_of_system_calls_has_its_say() -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip(
            "the number of process_vm_readv on this machine is not known to this test"
        )
    assert ask(_FILTERED) == "False\n"


def test_where_ptrace_is_not_restricted_they_may() -> None:
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if yama.exists() and yama.read_text().strip() != "0":
        pytest.skip("Yama restricts ptrace on this machine (kernel.yama.ptrace_scope)")
    if "Seccomp:\t0" not in Path("/proc/self/status").read_text():
        pytest.skip("this process has a filter of system calls, as in a container")
    assert ask() == "True\n"


def test_nothing_stays_behind() -> None:
    def mine() -> tuple[int, str]:
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return descriptors, Path(f"/proc/self/task/{os.getpid()}/children").read_text()

    before = mine()
    reading.siblings_read()
    assert mine() == before


def test_a_process_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it forks"))
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert reading.siblings_read() is False
    finally:
        done.set()
        thread.join()
