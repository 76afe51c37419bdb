"""Captures beside containers: whole, of one cell, and out of the reach of nodes."""

from __future__ import annotations

import struct

import pytest
from open_labs import DEADLINE_S, first_line

from impi.base.errors import LabError
from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.container_lab import DockerLab
from impi.lab.nodes.interface import Lab, run_on
from impi.lab.nodes.topology import parse_topology

pytestmark = [pytest.mark.docker, pytest.mark.slow]


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
        done = run_on(
            sender, [lab.access.python, "-c", SEND, echo.address], timeout_s=DEADLINE_S
        )
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
            assert not any(
                struct.pack(">H", 2222) in packet[34:38]
                for packet in seen
                if packet[23] == 6
            )
        for name in ("c0n0", "c1n0"):
            octets = sum(len(p) for p in packets(captures[name].pcap) if b"MARKER" in p)
            assert octets > 2 * 120000
        for name in ("server", "c0n1"):
            assert b"MARKER" not in captures[name].pcap


def test_the_node_cannot_touch_its_capture(lab: Lab) -> None:
    done = run_on(
        lab.server,
        ["sh", "-c", "rm -f /cap/server.pcap; : > /cap/server.pcap"],
        timeout_s=DEADLINE_S,
    )
    assert done.code != 0
    assert b"Read-only" in done.stderr


def test_a_dead_capture_is_the_labs_fault(backend: DockerBackend) -> None:
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        lab.begin_capture()
        assert isinstance(lab, DockerLab)
        sidecar = backend._client.containers.get(
            f"impilab-{lab.access.lab}-c1n0-capture"
        )
        sidecar.remove(force=True)
        with (
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(LabError, match="c1n0"),
        ):
            patch.setattr("impi.lab.backends.capture.canary_tap.SEEN_S", 0.5)
            lab.end_capture()
    finally:
        lab.close()
