"""Files that killed processes leave: their owners, and those that are removed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.base.remote.remains import Guests, Remains, called
from impi.base.remote.starter_lines import NOTHING, Leaves

NAME = f"impi-test-remains-{os.getpid()}"


def remains(began: float, **leaves: list[str]) -> Remains:
    whole: Leaves = {**NOTHING, **leaves}  # type: ignore[typeddict-item]
    return Remains(whole, Guests(whole, began))


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path("/dev/shm", f"{NAME}-segment")
    path.write_bytes(b"x")
    yield path
    path.unlink(missing_ok=True)


def test_a_segment_that_nobody_has_goes(segment: Path) -> None:
    remains(time.time() - 60, segments=[f"{NAME}-other"]).sweep([], failed=True)
    assert segment.exists(), "it has another name"
    remains(time.time() + 60, segments=[NAME]).sweep([], failed=True)
    assert segment.exists(), "it is older than the job"
    with segment.open("rb"):
        remains(time.time() - 60, segments=[NAME]).sweep([], failed=False)
        assert segment.exists(), "somebody has it open"
    remains(time.time() - 60, segments=[NAME]).sweep([], failed=False)
    assert not segment.exists()


def test_files_of_daemons_go_after_a_failure(tmp_path: Path) -> None:
    mine, other = tmp_path / "daemon.1.tmp", tmp_path / "daemon.1.kept"
    mine.touch()
    other.touch()
    swept = remains(time.time() - 60, files=[f"{tmp_path}/daemon.*.tmp"])
    swept.sweep([], failed=False)
    assert mine.exists()
    swept.sweep([], failed=True)
    assert (mine.exists(), other.exists()) == (False, True)


def test_an_idle_starter_reads_the_names_of_all_processes_every_eighth_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[tuple[bytes, ...]] = []
    monkeypatch.setattr(
        "impi.base.remote.remains.called", lambda names: looks.append(names) or []
    )
    guests = Guests({**NOTHING, "daemons": ["proxy"]}, time.time())
    for _ in range(17):
        guests.glance()
    assert looks == [(b"proxy",)] * 3


def test_files_stay_while_a_daemon_runs(tmp_path: Path) -> None:
    (tmp_path / "daemon.1.tmp").touch()
    with subprocess.Popen(["sleep", "600"]) as daemon:
        # The kernel lets Popen() return before it has renamed the process.
        until = time.monotonic() + 10
        while daemon.pid not in called((b"sleep",)):
            assert time.monotonic() < until

        remains(
            time.time() - 60, files=[f"{tmp_path}/daemon.*"], daemons=["sleep"]
        ).sweep([], failed=True)
        daemon.kill()
    assert (tmp_path / "daemon.1.tmp").exists()
    assert daemon.pid not in called((b"sleep",))


def test_folders_have_the_number_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    names = [
        f"scratch.{ended.pid}",
        "scratch.1",
        f"session.{ended.pid}",
        f"session.{os.getpid()}",
        "session.none",
    ]
    for name in names:
        (tmp_path / name / "below").mkdir(parents=True)
    remains(time.time() - 60, folders=["scratch."], sessions=["session."]).sweep(
        [ended.pid], failed=True
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [names[1], names[3], names[4]]
    )


def test_named_guests_are_ended_and_strays_are_not() -> None:
    leaves: Leaves = {**NOTHING, "daemons": ["sleep"], "proxies": ["python"]}
    with (
        subprocess.Popen(["sleep", "600"]) as named,
        subprocess.Popen(["sleep", "600"]) as stray,
    ):
        guests = Guests(leaves, time.time())
        guests.name([named.pid])
        guests._named = {
            pid: descriptor
            for pid, descriptor in guests._named.items()
            if pid == named.pid
        }
        guests.end(0.1)
        assert named.wait(10) == -15
        assert stray.poll() is None
        stray.kill()
