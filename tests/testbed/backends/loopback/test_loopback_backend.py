"""Labs on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.errors import LabError, UsageError
from impi.testbed.backends.lifecycle.cleanup import Choice, clean
from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend
from impi.testbed.lab.interface import Lab, RunningCommand, run_on
from impi.testbed.lab.lab_topology import parse_topology

DEADLINE_S = 30.0
PURE2 = parse_topology("1x2+1x1")


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All folders of labs are below this one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def lab(temp: Path) -> Iterator[Lab]:
    lab = LoopbackBackend().open(["pure", "pure"], PURE2, run="test")
    yield lab
    lab.close()


def first_line(command: RunningCommand) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def test_nodes_have_names_and_addresses_of_their_own(lab: Lab) -> None:
    nodes = [lab.server, *(node for nodes in lab.clients for node in nodes)]
    assert [node.name for node in nodes] == ["server", "c0n0", "c1n0"]
    octets = [node.address.split(".") for node in nodes]
    assert [o[0] for o in octets] == ["127"] * 3
    assert len({o[1] for o in octets}) == 1
    assert [o[2:] for o in octets] == [["0", "1"], ["1", "1"], ["2", "1"]]
    for node in nodes:
        with socket.create_server((node.address, 0)):
            pass
    assert not lab.captures
    assert lab.end_capture() == []


def test_labs_at_a_time_do_not_share_addresses(temp: Path, lab: Lab) -> None:
    other = LoopbackBackend().open(["pure", "pure"], PURE2, run="test")
    try:
        assert other.server.address != lab.server.address
    finally:
        other.close()


def test_run(lab: Lab) -> None:
    done = run_on(lab.clients[0][0], ["sh", "-c", "pwd; echo $HOME; exit 2"], timeout_s=DEADLINE_S)
    home = lab.access.environment["c0n0"]["HOME"]
    assert (done.code, done.stdout.decode().split(), done.leftovers) == (2, [home, home], ())


def test_the_environment_is_enough_for_impi(lab: Lab) -> None:
    argv = [lab.access.python, "-c", "import impi, os; print(impi.__file__); print(sorted(os.environ))"]
    done = run_on(lab.clients[1][0], argv, env=lab.access.environment["c1n0"], timeout_s=DEADLINE_S)
    assert done.code == 0, done.stderr
    names = eval(done.stdout.decode().splitlines()[1])
    ours = {"HOME", "PATH", "PYTHONPATH", "LANG", "TMPDIR", "IMPILAB_LAB", "IMPI_VENDORS"}
    assert set(names) <= ours | {"PWD", "LC_CTYPE"}


def test_prefixes_of_vendors(temp: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpiexec").touch()
    monkeypatch.setenv("IMPI_PREFIX_MPICH", str(tmp_path))
    lab = LoopbackBackend().open(["pure", "mpich"], PURE2, run="test")
    try:
        assert "IMPI_PREFIX_MPICH" not in lab.access.environment["c0n0"]
        assert lab.access.environment["c1n0"]["IMPI_PREFIX_MPICH"] == str(tmp_path)
    finally:
        lab.close()


def test_files_go_with_the_lab(lab: Lab, tmp_path: Path) -> None:
    node = lab.clients[0][0]
    node.write("below/file", b"one")
    node.write(str(tmp_path / "else" / "where" / "file"), b"two", mode=0o755)
    assert node.read("below/file") == b"one"
    assert node.read(f"{lab.access.environment['c0n0']['HOME']}/below/file") == b"one"
    assert (tmp_path / "else/where/file").stat().st_mode & 0o777 == 0o755
    assert node.read("nothing") is None
    with pytest.raises(LabError, match="cannot be written"):
        node.write("/proc/nothing", b"")
    lab.close()
    lab.close()
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_spares_what_goes_away_by_itself(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another lab's job begins and ends while this one looks, again and again."""
    looks = iter([["segment one"], ["segment two"], ["segment one", "segment three"]])
    monkeypatch.setattr(lab, "_look", lambda: next(looks))
    assert lab.residue() == []
    assert next(looks) == ["segment one", "segment three"]
    seen: list[str] = []
    monkeypatch.setattr(lab, "_look", lambda: [*seen, "process 7 sleep", seen.append(f"segment {len(seen)}")][:-1])
    assert lab.residue() == ["process 7 sleep"]


def test_a_sweep_finds_what_a_cell_left(lab: Lab) -> None:
    assert lab.residue() == []
    address = lab.clients[0][0].address
    program = (
        f"import socket, time; s = socket.create_server(({address!r}, 0)); print(s.getsockname()[1], flush=True); "
        "time.sleep(600)"
    )
    command = lab.clients[0][0].start([lab.access.python, "-c", program])
    port = first_line(command)
    found = lab.residue()
    assert any(f"listener {address} port {port}" in line for line in found)
    assert any("process" in line and "import socket, time" in line for line in found)
    assert command.stop().code == -signal.SIGTERM
    assert lab.residue() == []


def test_a_dead_orchestrator_leaves_no_process_and_clean_removes_its_folder(temp: Path) -> None:
    program = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend\n"
        "from impi.testbed.lab.lab_topology import parse_topology\n"
        "from impi.testbed.backends.lifecycle.reaper import reaper_of\n"
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
    assert [f.subject for f in backend.doctor() if not f.ok and f.subject == "leftovers"] == ["leftovers"]
    assert clean(backend.inventory, Choice(older_than_s=3600)) == []
    assert clean(backend.inventory, Choice()) == [f"folder {folder}"]
    assert list(temp.iterdir()) == []


def test_clean_of_everything_takes_live_labs_too(temp: Path, lab: Lab) -> None:
    assert clean(LoopbackBackend().inventory, Choice()) == []
    assert len(clean(LoopbackBackend().inventory, Choice(everything=True))) == 1


def test_several_nodes_a_client_are_not_supported(temp: Path) -> None:
    backend = LoopbackBackend()
    assert backend.supports(PURE2) == ""
    assert "one machine" in backend.supports(parse_topology("1x1+2x1"))
    with pytest.raises(UsageError, match="one machine"):
        backend.open(["pure", "pure"], parse_topology("1x1+2x1"), run="test")


def test_vendors_must_fit(temp: Path) -> None:
    with pytest.raises(UsageError, match="1 vendors do not fit"):
        LoopbackBackend().open(["pure"], PURE2, run="test")
    with pytest.raises(UsageError, match="no vendor 'lamb'"):
        LoopbackBackend().open(["pure", "lamb"], PURE2, run="test")
    assert list(temp.iterdir()) == []


def test_doctor_reads_only(temp: Path) -> None:
    findings = LoopbackBackend().doctor()
    assert {f.subject for f in findings} == {"system", "mpich", "openmpi", "leftovers"}
    assert all(f.cure for f in findings if not f.ok)
    assert list(temp.iterdir()) == []


def test_where_processes_stand_is_seen_from_outside(lab: Lab) -> None:
    program = "import os, sys, time\ndef deep():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\ndeep()"
    command = lab.clients[0][0].start([lab.access.python, "-c", program])
    pid = int(first_line(command))
    stacks = lab.stacks({"c0n0": [pid], "c1n0": []})
    command.stop()
    if any("ermission" in note for note in stacks.notes):
        pytest.skip(f"this user may not trace processes: {stacks.notes[0]}")
    assert stacks.notes == ()
    assert [frame.rpartition(" in ")[2] for frame in stacks.frames["c0n0"][pid]] == ["deep", "<module>"]
