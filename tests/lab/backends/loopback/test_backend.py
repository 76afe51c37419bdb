"""Labs on loopback."""

from __future__ import annotations

import secrets
import signal
import socket
from pathlib import Path

import pytest
from open_labs import DEADLINE_S, first_line

from impi.base.errors import UsageError
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.nodes.interface import Lab, run_on
from impi.lab.nodes.topology import parse_topology

PURE2 = parse_topology("1x2+1x1")


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


def test_the_environment_is_enough_for_impi(lab: Lab) -> None:
    argv = [
        lab.access.python,
        "-c",
        "import impi, os; print(impi.__file__); print(sorted(os.environ))",
    ]
    done = run_on(
        lab.clients[1][0],
        argv,
        env=lab.access.environment["c1n0"],
        timeout_s=DEADLINE_S,
    )
    assert done.code == 0, done.stderr
    names = eval(done.stdout.decode().splitlines()[1])
    ours = {
        "HOME",
        "PATH",
        "PYTHONPATH",
        "LANG",
        "TMPDIR",
        "IMPILAB_LAB",
        "IMPI_VENDORS",
    }
    assert set(names) <= ours | {"PWD", "LC_CTYPE"}


def test_prefixes_of_vendors(
    temp: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpiexec").touch()
    monkeypatch.setenv("IMPI_PREFIX_MPICH", str(tmp_path))
    lab = LoopbackBackend().open(["pure", "mpich"], PURE2, run="test")
    try:
        assert "IMPI_PREFIX_MPICH" not in lab.access.environment["c0n0"]
        assert lab.access.environment["c1n0"]["IMPI_PREFIX_MPICH"] == str(tmp_path)
    finally:
        lab.close()


def test_a_sweep_spares_what_goes_away_by_itself(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another lab's job begins and ends while this one looks, again and again."""
    looks = iter([["segment one"], ["segment two"], ["segment one", "segment three"]])
    monkeypatch.setattr(lab, "_look", lambda: next(looks))
    assert lab.residue() == []
    assert next(looks) == ["segment one", "segment three"]
    seen: list[str] = []
    monkeypatch.setattr(
        lab,
        "_look",
        lambda: [*seen, "process 7 sleep", seen.append(f"segment {len(seen)}")][:-1],
    )
    assert lab.residue() == ["process 7 sleep"]


def test_a_sweep_spares_segments_of_libraries_that_the_lab_has_not(lab: Lab) -> None:
    segment = Path(f"/dev/shm/mpich_shm_{secrets.token_hex(8)}")
    segment.touch()
    try:
        assert not [line for line in lab.residue() if segment.name in line]
    finally:
        # The lab of another test or run, which has MPICH, may have swept it meanwhile.
        segment.unlink(missing_ok=True)


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
    assert [frame.rpartition(" in ")[2] for frame in stacks.frames["c0n0"][pid]] == [
        "deep",
        "<module>",
    ]
