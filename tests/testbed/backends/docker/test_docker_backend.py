"""Labs of containers, on the engine of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from impi.errors import LabError
from impi.testbed.backends import engine_installed
from impi.testbed.backends.docker.container_lab import DockerLab, Plan
from impi.testbed.backends.docker.docker_backend import DockerBackend
from impi.testbed.backends.docker.images.node_images import Images
from impi.testbed.backends.lifecycle.cleanup import Choice, clean
from impi.testbed.backends.lifecycle.lab_labels import LABEL
from impi.testbed.lab.interface import Lab, Node, RunningCommand, run_on
from impi.testbed.lab.lab_topology import parse_topology

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DEADLINE_S = 60.0
SHAPE = parse_topology("2x1+1x2")


@pytest.fixture(scope="module")
def backend() -> DockerBackend:
    if not engine_installed():
        pytest.skip("no container engine is installed: these tests need one that answers")
    backend = DockerBackend()
    backend.prepare(["pure"])
    return backend


@pytest.fixture(scope="module")
def lab(backend: DockerBackend) -> Iterator[Lab]:
    lab = backend.open(["pure", "pure"], SHAPE, run="test")
    yield lab
    lab.close()


def nodes(lab: Lab) -> list[Node]:
    return [lab.server, *(node for nodes in lab.clients for node in nodes)]


def first_line(command: RunningCommand) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def ours(backend: DockerBackend, lab: str) -> list[str]:
    """What the engine has of that lab."""
    mine: dict[str, str | list[str] | bool] = {"label": f"{LABEL}lab={lab}"}
    client = backend._client
    found = [str(c.name) for c in client.containers.list(all=True, filters=mine)]
    found += [str(n.name) for n in client.networks.list(filters=mine)]
    return found + [str(v.name) for v in client.volumes.list(filters=mine)]


def test_nodes_know_each_other_and_run_as_an_ordinary_user(lab: Lab) -> None:
    assert [node.name for node in nodes(lab)] == ["server", "c0n0", "c0n1", "c1n0"]
    for node in nodes(lab):
        done = run_on(node, ["sh", "-c", "id -un; hostname; pwd; getent hosts c0n1"], timeout_s=DEADLINE_S)
        user, name, folder, address, *_ = done.stdout.decode().split()
        assert (user, name, folder, address) == ("mpi", node.name, "/home/mpi", lab.clients[0][1].address)
    capabilities = (lab.server.read("/proc/self/status") or b"").decode()
    assert "CapBnd:\t0000000000000000" in capabilities
    assert "NoNewPrivs:\t1" in capabilities


def test_impi_is_there_as_it_is_here(lab: Lab) -> None:
    argv = [lab.access.python, "-c", "import impi.cli, numpy; print(impi.__file__, numpy.__version__)"]
    done = run_on(lab.clients[0][0], argv, env=lab.access.environment["c0n0"], timeout_s=DEADLINE_S)
    assert done.stdout.decode().split() == ["/opt/impi/src/impi/__init__.py", "2.4.6"]
    here = (Path(__file__).parents[4] / "impi/errors.py").read_bytes()
    assert lab.clients[1][0].read("/opt/impi/src/impi/errors.py") == here


def test_nodes_of_a_client_log_in_to_each_other_without_a_question(lab: Lab) -> None:
    for target in ("c0n1", lab.clients[0][1].address):
        done = run_on(lab.clients[0][0], ["ssh", target, "hostname"], timeout_s=DEADLINE_S)
        assert (done.code, done.stdout, done.stderr) == (0, b"c0n1\n", b"")


def test_files(lab: Lab) -> None:
    node = lab.clients[0][0]
    data = os.urandom(300_000)
    node.write("/home/mpi/deep/below/file", data, mode=0o600)
    assert node.read("/home/mpi/deep/below/file") == data
    node.write("own", b"x")
    assert node.read("/home/mpi/own") == b"x"
    assert node.read("/nothing") is None
    with pytest.raises(LabError, match="c0n0"):
        node.write("/etc/passwd", b"")


def test_leftovers_are_ended_and_told(lab: Lab) -> None:
    script = "setsid sh -c 'trap \"\" TERM; sleep 600 & wait; sleep 600' & echo up"
    done = run_on(lab.clients[0][0], ["sh", "-c", script], timeout_s=DEADLINE_S)
    assert done.code == 0
    assert "sleep 600" in done.leftovers
    assert lab.residue() == []


def test_a_sweep_finds_processes_segments_and_listeners(lab: Lab) -> None:
    program = "import socket, time; s = socket.create_server(('', 7777)); print(flush=True); time.sleep(600)"
    node = lab.clients[1][0]
    node.write("/dev/shm/forgotten", b"x")
    command = node.start([lab.access.python, "-c", program])
    first_line(command)
    found = lab.residue()
    assert "c1n0: segment /dev/shm/forgotten" in found
    assert "c1n0: listener 0.0.0.0 port 7777" in found
    assert [line for line in found if line.startswith("c1n0: process") and "import socket" in line]
    assert all(line.startswith("c1n0: ") for line in found)
    command.stop()
    run_on(node, ["rm", "/dev/shm/forgotten"], timeout_s=DEADLINE_S)
    assert lab.residue() == []


def packets(pcap: bytes) -> list[bytes]:
    found, at = [], 24
    while at < len(pcap):
        (kept, wire) = struct.unpack_from("<II", pcap, at + 8)
        assert kept == wire
        found.append(pcap[at + 16 : at + 16 + kept])
        at += 16 + kept
    assert at == len(pcap)
    return found


ECHO = """
import socket
listener = socket.create_server(("", 7001))
print(flush=True)
connection, _ = listener.accept()
while data := connection.recv(65536):
    connection.sendall(data)
"""
SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7001))
connection.sendall(b"MARKER" * 20000)
connection.shutdown(socket.SHUT_WR)
n = 0
while data := connection.recv(65536):
    n += len(data)
print(n)
"""


def test_a_capture_holds_the_cell_and_nothing_else(lab: Lab) -> None:
    sender, echo = lab.clients[0][0], lab.clients[1][0]
    for _ in range(2):
        lab.begin_capture()
        listener = echo.start([lab.access.python, "-c", ECHO])
        first_line(listener)
        done = run_on(sender, [lab.access.python, "-c", SEND, echo.address], timeout_s=DEADLINE_S)
        assert done.stdout == b"120000\n", done.stderr
        assert listener.wait(DEADLINE_S).code == 0
        captures = {capture.node: capture for capture in lab.end_capture()}
        assert set(captures) == {"server", "c0n0", "c0n1", "c1n0"}
        for capture in captures.values():
            assert capture.dropped == 0
            seen = packets(capture.pcap)
            assert seen[0].endswith(capture.canaries[0])
            assert seen[-1].endswith(capture.canaries[1])
            assert sum(b"impilab canary" in packet for packet in seen) == 2
            # Our own SSH is not in it.
            assert not any(struct.pack(">H", 2222) in packet[34:38] for packet in seen if packet[23] == 6)
        for name in ("c0n0", "c1n0"):
            octets = sum(len(p) for p in packets(captures[name].pcap) if b"MARKER" in p)
            assert octets > 2 * 120000
        for name in ("server", "c0n1"):
            assert b"MARKER" not in captures[name].pcap


def test_the_node_cannot_touch_its_capture(lab: Lab) -> None:
    done = run_on(lab.server, ["sh", "-c", "rm -f /cap/server.pcap; : > /cap/server.pcap"], timeout_s=DEADLINE_S)
    assert done.code != 0
    assert b"Read-only" in done.stderr


def test_where_processes_stand_is_seen_from_beside_the_node(backend: DockerBackend, lab: Lab) -> None:
    node = lab.clients[1][0]
    program = "import os, time\ndef deep():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\ndeep()"
    command = node.start([lab.access.python, "-c", program])
    pid = int(first_line(command))
    before = ours(backend, lab.access.lab)
    stacks = lab.stacks({"c1n0": [pid], "c0n0": []})
    assert stacks.notes == ()
    assert [frame.rpartition(" in ")[2] for frame in stacks.frames["c1n0"][pid]] == ["deep", "<module>"]
    assert ours(backend, lab.access.lab) == before
    command.stop()
    # One that is gone is a note, and no error.
    assert lab.stacks({"c1n0": [pid]}).notes[0].startswith("c1n0: no stacks from outside: py-spy: ")


def test_a_dead_capture_is_the_labs_fault(backend: DockerBackend) -> None:
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        lab.begin_capture()
        assert isinstance(lab, DockerLab)
        sidecar = backend._client.containers.get(f"impilab-{lab.access.lab}-c1n0-capture")
        sidecar.remove(force=True)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(LabError, match="c1n0"):
            patch.setattr("impi.testbed.backends.capture.canary_tap.SEEN_S", 0.5)
            lab.end_capture()
    finally:
        lab.close()


def test_a_dead_node_is_the_labs_fault(backend: DockerBackend) -> None:
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        assert isinstance(lab, DockerLab)
        command = lab.clients[0][0].start(["sleep", "600"])
        backend._client.containers.get(f"impilab-{lab.access.lab}-c0n0").kill()
        with pytest.raises(LabError, match="c0n0"):
            command.wait(DEADLINE_S)
        with pytest.raises(LabError, match="c0n0"):
            run_on(lab.clients[0][0], ["true"], timeout_s=DEADLINE_S)
    finally:
        lab.close()
    assert ours(backend, lab.access.lab) == []


def test_closing_removes_all_of_it_and_may_be_repeated(backend: DockerBackend) -> None:
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    assert isinstance(lab, DockerLab)
    assert len(ours(backend, lab.access.lab)) == 3 * 2 + 2
    lab.close()
    lab.close()
    assert ours(backend, lab.access.lab) == []


def test_a_lab_that_cannot_start_leaves_nothing(backend: DockerBackend, lab: Lab) -> None:
    images = {**backend._built, "pure": "sha256:" + "0" * 64}
    plan = Plan(
        run="test",
        vendors=("pure", "pure"),
        topology=SHAPE,
        images=images,
        pool=IPv4Network("10.213.0.0/16"),
        publish=False,
    )
    broken = DockerLab(backend._client, plan)
    with pytest.raises(LabError, match="cannot be started"):
        broken.start()
    assert ours(backend, broken.name) == []


def test_another_labs_subnet_is_passed_over_even_when_it_came_unseen(
    backend: DockerBackend, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the other lab had been made between the look and our own try.
    monkeypatch.setattr("impi.testbed.backends.docker.lab_network.network_subnets", lambda client: [])
    monkeypatch.setattr("impi.testbed.backends.docker.lab_network.host_routes", list)
    taken = {lab.server.address.rpartition(".")[0], lab.server.address}
    other = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        assert other.server.address not in taken
        assert run_on(other.server, ["hostname"], timeout_s=DEADLINE_S).code == 0
    finally:
        other.close()


def test_through_published_ports(backend: DockerBackend) -> None:
    other = DockerBackend(publish=True)
    lab = other.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        assert run_on(lab.server, ["hostname"], timeout_s=DEADLINE_S).stdout == b"server\n"
        lab.begin_capture()
        assert len(lab.end_capture()) == 3
    finally:
        lab.close()


DYING = """
import sys, time
from impi.testbed.backends.docker.docker_backend import DockerBackend
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.backends.lifecycle.reaper import reaper_of
lab = DockerBackend().open(["pure", "pure"], parse_topology("1x1+1x1"), run="dying")
reaper_of("docker").process.kill()  # which would be faster than what is tried here
print(lab.access.lab, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_dead_owners_lab_is_cleaned_and_a_live_ones_is_spared(backend: DockerBackend, lab: Lab, number: int) -> None:
    assert isinstance(lab, DockerLab)
    with subprocess.Popen(
        [sys.executable, "-c", DYING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as p:
        assert p.stdout is not None
        name = p.stdout.readline().strip()
        assert len(ours(backend, name)) == 8
        assert not clean(backend.inventory, Choice(labels={"lab": name}))
        p.send_signal(number)
        try:
            p.wait(DEADLINE_S)
        finally:
            p.kill()
    if number == signal.SIGINT:
        assert ours(backend, name) == []
        return
    leftovers = [f for f in backend.doctor() if f.subject == "leftovers"]
    assert not leftovers[0].ok
    # Only this one: another test's, or whoever's, are none of ours.
    assert not clean(backend.inventory, Choice(older_than_s=3600, labels={"lab": name}))
    removed = clean(backend.inventory, Choice(labels={"lab": name}))
    assert len([line for line in removed if name in line]) == 8
    assert ours(backend, name) == []
    assert len(ours(backend, lab.access.lab)) == 4 * 2 + 2


def test_what_the_records_get(lab: Lab) -> None:
    assert lab.software["image.pure"].startswith("sha256:")
    assert lab.software["server.numpy"] == "2.4.6"
    assert {"debian.tcpdump", "debian.python3", "debian.openssh-server"} <= set(lab.software)


def test_doctor(backend: DockerBackend, lab: Lab) -> None:
    findings = {f.subject: f for f in backend.doctor()}
    assert {"engine", "cores", "memory", "subnets", "leftovers", "images", "captures"} <= set(findings)
    for subject in ("engine", "subnets", "captures"):
        assert findings[subject].ok, findings[subject]


def test_a_failing_build_names_itself_and_shows_its_last_lines(
    backend: DockerBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("base", "pure", "spy"):
        shutil.copytree(Path(__file__).parents[4] / "images" / name, tmp_path / "images" / name)
    with (tmp_path / "images/pure/Dockerfile").open("a") as file:
        file.write("RUN echo last words; exit 9\n")
    monkeypatch.setattr("impi.testbed.backends.docker.images.node_images._CHECKOUT", tmp_path)
    with pytest.raises(LabError, match=r"(?s)image pure cannot be built.*last words.*returned a non-zero code: 9"):
        Images(backend._client).ensure(["pure"])


def test_no_port_of_a_node_is_open_but_ssh(lab: Lab) -> None:
    with socket.create_connection((lab.server.address, 2222), timeout=DEADLINE_S) as connection:
        assert connection.recv(4) == b"SSH-"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((lab.server.address, 22), timeout=DEADLINE_S)
