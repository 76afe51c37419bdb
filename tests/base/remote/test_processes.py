"""Processes of strangers, whose names are any octets: no job ends by one of them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from impi.base.manifests import manifest
from impi.base.remote import processes, remains, starter
from impi.lab.programs import look, strike, witness
from impi.launch.start.launchers import leaves_of

_STRANGER = """
import os, sys
while name := sys.stdin.buffer.readline():
    with open("/proc/self/comm", "wb") as comm:
        comm.write(bytes.fromhex(name.decode()))
    os.write(1, b"x")
"""
CUT = "températures-été.py".encode()[:15]
"""The kernel's form of an honest name: its 15 octets end in the middle of a letter."""
DAEMONS = tuple(
    map(os.fsencode, leaves_of(manifest("mpich"), manifest("openmpi"))["daemons"])
)


class Stranger:
    """A process that calls itself as it is told."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process

    def is_called(self, name: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name.hex().encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.read(1) == b"x"


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    argv = [sys.executable, "-I", "-S", "-c", _STRANGER]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Stranger(process)
        assert process.stdin is not None
        process.stdin.close()


NAMES = st.binary(min_size=1, max_size=15).filter(lambda name: b"\0" not in name)


@given(NAMES)
@example(CUT)
@example(b") T 1 1 (")
@example(b"a\nb\n")
@example(b"x\x1cState:\tT")
@settings(max_examples=50, deadline=None)
def test_whatever_its_name_a_process_is_seen_as_it_is(
    stranger: Stranger, name: bytes
) -> None:
    stranger.is_called(name)
    assert processes.name(stranger.pid) == name
    assert processes.parent(stranger.pid) == os.getpid()
    assert processes.lives(stranger.pid)
    assert stranger.pid in processes.descendants()
    assert stranger.pid not in processes.descendants().stopped
    assert (stranger.pid in remains.called(DAEMONS)) == name.startswith(DAEMONS)
    assert stranger.pid in strike._children()[os.getpid()]
    assert strike._name(stranger.pid) is not None
    seen = look._state(stranger.pid, initialised=True)
    assert seen["state"].startswith(("S", "R"))
    assert seen["threads"] == 1
    assert "cpu_s" in seen
    assert witness._ancestors(stranger.pid)[0] == os.path.realpath(
        f"/proc/{os.getpid()}/exe"
    )


@pytest.mark.parametrize("name", [b"hydra_pmi_proxy", b"prted"])
def test_a_daemon_is_known_by_its_name(stranger: Stranger, name: bytes) -> None:
    stranger.is_called(name)
    assert stranger.pid in remains.called(DAEMONS)


def test_a_process_that_has_ended_has_no_name() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as process:
        process.wait()
    assert processes.name(process.pid) == b""
    assert starter._command_line(process.pid) == ""


def test_a_command_line_is_told_in_part_and_as_text() -> None:
    argv = [sys.executable.encode(), b"-c", b"input()", b"\xff" * 100_000]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        told = starter._command_line(process.pid)
        process.send_signal(signal.SIGKILL)
    assert len(told) <= 500
    assert told.isprintable()


@pytest.mark.parametrize("vendor", ["pure", "mpich"])
def test_a_job_runs_beside_it(stranger: Stranger, run_job, vendor: str) -> None:
    stranger.is_called(CUT)
    argv = [sys.executable, "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"]
    result = run_job(argv, [f"{vendor}:1", f"{vendor}:1"])
    assert result.codes == [0, 0, 0], result
    assert result.out == "2\n2\n"


_WITH_ONE_BELOW = (
    "import subprocess, sys; below = subprocess.Popen(['cat']); "
    "print(below.pid, flush=True); below.wait()"
)


def test_a_family_is_what_a_walk_finds() -> None:
    family = processes.Family()
    with subprocess.Popen(["sleep", "600"]) as ours:
        try:
            os.kill(ours.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, ours.pid, os.WSTOPPED | os.WNOWAIT)
            for _ in range(2):
                found = family.look()
                assert found[ours.pid] == os.getpgid(ours.pid)
                assert found.stopped == {ours.pid}
                assert os.getppid() not in found
            assert os.getppid() in family.look([os.getppid()])
        finally:
            ours.kill()
        os.waitid(os.P_PID, ours.pid, os.WEXITED | os.WNOWAIT)
        assert ours.pid not in family.look()  # it is not reaped


def test_a_family_grows() -> None:
    family = processes.Family()
    family.look()
    argv = [sys.executable, "-I", "-S", "-c", _WITH_ONE_BELOW]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as later:
        assert later.stdout is not None
        assert {later.pid, int(later.stdout.readline())} <= family.look().keys()


def test_a_family_reads_of_others_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    fields = processes._fields
    monkeypatch.setattr(
        processes, "_fields", lambda pid: read.append(pid) or fields(pid)
    )
    family = processes.Family()
    family.look()
    others = set(read) - family.look().keys() - {os.getpid()}
    assert os.getppid() in others
    del read[:]
    family.look()
    assert others.isdisjoint(read)
    assert os.getpid() in read
    # A number that another process has got: another folder.
    family._others[os.getppid()] += 1
    family._newest = b""
    family.look()
    assert os.getppid() in read


@pytest.mark.parametrize(
    ("told", "lists"),
    [
        (b"0.1 0.1 0.1 1/90 700", [True] + 6 * [False] + [True] + 7 * [False]),
        (b"0.1 0.1 0.1 1/90 %d", 15 * [True]),
        (b"", 15 * [True]),
        (None, 15 * [True]),
    ],
    ids=["nothing begins", "one begins", "empty", "no file"],
)
def test_a_family_lists_all_processes_only_if_one_has_begun(
    told: bytes | None,
    lists: list[bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads, listed = tmp_path / "loadavg", []
    scandir = os.scandir
    monkeypatch.setattr(processes, "_LOADS", str(loads))
    monkeypatch.setattr(os, "scandir", lambda at: listed.append(at) or scandir(at))
    family = processes.Family()
    with subprocess.Popen(["sleep", "600"]) as ours:
        try:
            found = []
            for number in range(len(lists)):
                if told is not None:
                    loads.write_bytes(told.replace(b"%d", b"%d" % number))
                assert ours.pid in family.look()
                found.append(bool(listed))
                listed.clear()
        finally:
            ours.kill()
    assert found == lists


def test_a_family_forgets_no_process_whose_parent_ended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An orphan is seen before it has its next parent: it has no owner, and is read again."""
    family = processes.Family()
    fields = processes._fields
    with subprocess.Popen(["sleep", "600"]) as ours:
        try:
            gone = [b"S", b"%d" % (1 << 23), b"1"]
            monkeypatch.setattr(
                processes,
                "_fields",
                lambda pid: gone if pid == ours.pid else fields(pid),
            )
            assert ours.pid not in family.look()
            monkeypatch.setattr(processes, "_fields", fields)
            assert ours.pid in family.look()
        finally:
            ours.kill()


_ODD_FORK = """
import os, sys
from impi.base.remote import processes
class Odd:
    def flush(self):
        raise {}
def work():
    sys.stdout = Odd()
    return 3
try:
    pid = processes.fork((0, 1, 2), work)
except BaseException:
    print("the caller's frames")
else:
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("failure", ["KeyError", "KeyboardInterrupt", "SystemExit(4)"])
def test_a_fork_ends_whatever_its_streams_do(failure: str) -> None:
    argv = [sys.executable, "-c", _ODD_FORK.format(failure)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "3\n"


def test_a_user_without_more_processes_is_told_the_limit() -> None:
    """The kernel's own words are "Resource temporarily unavailable", and no cure."""
    told = processes.why_not_started(BlockingIOError(errno.EAGAIN, "Resource ..."))
    assert told.startswith("no more processes: 'ulimit -u' shows how many")
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert processes.why_not_started(missing) == "No such file or directory"
    assert processes.why_not_started(ValueError("embedded null byte")) == (
        "embedded null byte"
    )


def test_a_process_that_runs_now_and_then_is_not_lost_and_a_stopped_one_is() -> None:
    """An impirun that is late itself asks nothing, and a starter of it then says nothing."""
    runs = "import time\nwhile True: time.sleep(0.02)"
    argv = [sys.executable, "-I", "-S", "-c", runs]
    with subprocess.Popen(argv) as late:
        try:
            looks = processes.Standstill(late.pid)
            until = time.monotonic() + 2 * processes._STILL_S
            while time.monotonic() < until:
                assert not looks.seen()
                time.sleep(0.05)
            late.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, late.pid, os.WSTOPPED | os.WNOWAIT)
            assert looks.seen()
        finally:
            late.kill()


def test_a_process_that_never_runs_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's freezer stops processes, too, and their state says nothing of it."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(processes, "wants_processor", lambda _: False)
    monkeypatch.setattr(processes, "_fields", lambda _: [b"S"])
    turns = 7
    monkeypatch.setattr(processes, "_turns", lambda _: turns)
    looks = processes.Standstill(1)
    assert not looks.seen()
    now += 1.0
    turns += 1
    assert not looks.seen()
    now += processes._STILL_S
    assert not looks.seen()
    now += 0.1
    assert looks.seen()
