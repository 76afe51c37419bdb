"""A lab of containers: its nodes, its end, and what a cell leaves on it."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from open_labs import DEADLINE_S, first_line, nodes_of, ours

from impi.base.errors import LabError
from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.container_lab import DockerLab, LabPlan
from impi.lab.backends.lifecycle.cleanup import lease
from impi.lab.nodes.interface import Lab, Terms, run_on
from impi.lab.nodes.topology import parse_topology

pytestmark = [pytest.mark.docker, pytest.mark.slow]


SHAPE = parse_topology("2x1+1x2")


def test_nodes_know_each_other_and_run_as_an_ordinary_user(lab: Lab) -> None:
    assert [node.name for node in nodes_of(lab)] == ["server", "c0n0", "c0n1", "c1n0"]
    for node in nodes_of(lab):
        done = run_on(
            node,
            ["sh", "-c", "id -un; hostname; pwd; getent hosts c0n1"],
            timeout_s=DEADLINE_S,
        )
        user, name, folder, address, *_ = done.stdout.decode().split()
        assert (user, name, folder, address) == (
            "mpi",
            node.name,
            "/home/mpi",
            lab.clients[0][1].address,
        )
    capabilities = (lab.server.read("/proc/self/status") or b"").decode()
    assert "CapBnd:\t0000000000000000" in capabilities
    assert "NoNewPrivs:\t1" in capabilities


def test_impi_is_there_as_it_is_here(lab: Lab) -> None:
    argv = [
        lab.access.python,
        "-c",
        "import impi.cli, numpy; print(impi.__file__, numpy.__version__)",
    ]
    done = run_on(
        lab.clients[0][0],
        argv,
        env=lab.access.environment["c0n0"],
        timeout_s=DEADLINE_S,
    )
    assert done.stdout.decode().split() == ["/opt/impi/src/impi/__init__.py", "2.4.6"]
    here = (Path(__file__).parents[4] / "impi/base/errors.py").read_bytes()
    assert lab.clients[1][0].read("/opt/impi/src/impi/base/errors.py") == here


def test_nodes_of_a_client_log_in_to_each_other_without_a_question(lab: Lab) -> None:
    for target in ("c0n1", lab.clients[0][1].address):
        done = run_on(
            lab.clients[0][0], ["ssh", target, "hostname"], timeout_s=DEADLINE_S
        )
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
    assert [
        line
        for line in found
        if line.startswith("c1n0: process") and "import socket" in line
    ]
    assert all(line.startswith("c1n0: ") for line in found)
    command.stop()
    run_on(node, ["rm", "/dev/shm/forgotten"], timeout_s=DEADLINE_S)
    assert lab.residue() == []


def test_a_warm_impirun_is_as_a_fresh_one_and_no_secret_of_the_sweep(lab: Lab) -> None:
    node = lab.clients[1][0]
    env = {**lab.access.environment["c1n0"], "IMPI_AUTH_NONE": "1"}
    impirun = [lab.access.python, "-m", "impi.cli.impirun"]
    warm, cold = (
        node.start([*impirun, "--version"], env=env, warm=warm).wait(DEADLINE_S)
        for warm in (True, False)
    )
    assert (warm.code, warm.stdout) == (cold.code, cold.stdout)
    assert warm.code == 0
    assert lab.residue() == []  # the process that is forked is the lab's own
    server = node.start([*impirun, "-server", "2"], env=env, warm=True)
    first_line(server)
    shown = " ".join([*impirun, "-server", "2"])
    assert f"c1n0: process {server.pid} {shown}" in lab.residue()
    server.stop()
    assert lab.residue() == []


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


def test_a_lab_that_cannot_start_leaves_nothing(
    backend: DockerBackend, lab: Lab
) -> None:
    images = {**backend._built, "pure": "sha256:" + "0" * 64}
    plan = LabPlan(
        access=lease("docker", "test", ("pure", "pure"), SHAPE, Terms(), images=images),
        pool=IPv4Network("10.213.0.0/16"),
        publish=False,
    )
    broken = DockerLab(backend._client, plan)
    with pytest.raises(LabError, match="cannot be started"):
        broken.start()
    assert ours(backend, broken.access.lab) == []


def test_no_port_of_a_node_is_open_but_ssh(lab: Lab) -> None:
    with socket.create_connection(
        (lab.server.address, 2222), timeout=DEADLINE_S
    ) as connection:
        assert connection.recv(4) == b"SSH-"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((lab.server.address, 22), timeout=DEADLINE_S)
