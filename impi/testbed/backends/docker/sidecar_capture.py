"""Captures by a sidecar: a container that only shares a node's network and always runs tcpdump.

Two UDP datagrams, the *canaries*, mark a cell: the node itself sends them, and they must arrive in
the file. The file lies in a volume that the node can read, over its SSH connection, but not write.
"""

from __future__ import annotations

import re
import secrets
import struct
import time
from typing import Any, Final

from docker.errors import DockerException
from docker.models.containers import Container

from impi.errors import LabError
from impi.testbed.backends.docker.pcap_cut import HEADER_OCTETS, between
from impi.testbed.backends.nodes import SshNode, lab_fault
from impi.testbed.lab.interface import Capture

CAPTURE_FOLDER: Final = "/cap"
CAPTURE_RIGHTS: Final = ("NET_RAW", "SETUID", "SETGID")
CAPTURE_SHARES: Final = 65536  # of the processor, where a node has 1024
_SEEN_S: Final = 10.0
_TURN_S: Final = 0.01
_DISCARD: Final = 9  # the port of a service that nobody runs; sent to the gateway, so that no other node sees it
_CHUNK: Final = 1 << 16
_FRAME: Final = struct.Struct(">BxxxL")
_STATISTICS: Final = re.compile(rb"tcpdump: \d+ packets? captured, .*?(\d+) packets? dropped by kernel")
_MOST_BUFFER_KIB: Final = 32768  # the kernel clears all of it at each start, which takes time
_ALL_BUFFERS_KIB: Final = 1 << 20
# Room for the longest packet of a virtual interface (65535 octets and the Ethernet header), no
# more: the kernel's buffer is divided into pieces of this size.
_SNAPLEN: Final = 65550


# tcpdump must be process 1, which gets our signals. A line on standard input requests its
# statistics: each signal by way of the engine would cost one of the engine's processes.
_SCRIPT: Final = 'exec 3<&0; (sleep "$0"; kill -TERM 1) & while read -r _ <&3; do kill -USR1 1; done & exec "$@"'


def capturing(node: str, nodes: int, seconds: float) -> list[str]:
    """Return the argv of one node's capture in a lab of ``nodes`` nodes; it ends after ``seconds``.

    Immediate mode: else a packet reaches the file up to a second later. The lab's SSH is left out.
    """
    buffer = min(_MOST_BUFFER_KIB, _ALL_BUFFERS_KIB // nodes)
    argv = ["tcpdump", "-Z", "root", "-i", "eth0", "--immediate-mode", "-B", str(buffer), "-U", "-s", str(_SNAPLEN)]
    argv += ["-w", _path(node), "udp or (tcp and not port 2222)"]
    return ["/bin/sh", "-c", _SCRIPT, str(int(seconds)), *argv]


def _path(node: str) -> str:
    return f"{CAPTURE_FOLDER}/{node}.pcap"


class Teller:
    """The standard streams of a capture: its output, and requests for its statistics.

    Made before the container is started, or its first output may arrive with the engine's answer.
    """

    def __init__(self, sidecar: Container) -> None:
        self._stream: Any = sidecar.attach_socket(params={"stdin": 1, "stderr": 1, "stream": 1})
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        self._received = b""
        self._said = b""

    def dropped(self, timeout_s: float) -> int | None:
        """Return packets dropped by the kernel so far; None: no answer. OSError: the capture is
        gone."""
        self._said = b""
        self._socket.sendall(b"\n")
        deadline = time.monotonic() + timeout_s
        while not (found := _STATISTICS.search(self._said)):
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                return None
            if not data:
                raise OSError("its streams are closed")
            self._take(data)
        return int(found[1])

    def _take(self, data: bytes) -> None:
        """The engine's frames: one octet of kind, three of nothing, four of length."""
        self._received += data
        while len(self._received) >= _FRAME.size:
            _, length = _FRAME.unpack_from(self._received)
            if len(self._received) < _FRAME.size + length:
                return
            self._said += self._received[_FRAME.size : _FRAME.size + length]
            self._received = self._received[_FRAME.size + length :]

    def close(self) -> None:
        """Let go of it."""
        getattr(self._stream, "_response", self._stream).close()  # the one has the other
        self._socket.close()


class Tap:
    """The capture of one node. LabError: it does not run, or a canary did not arrive."""

    def __init__(self, node: SshNode, sidecar: Container, teller: Teller, gateway: str) -> None:
        self._node = node
        self._sidecar = sidecar
        self._teller = teller
        self._gateway = gateway
        self._offset = HEADER_OCTETS
        self._header = b""
        self._first = b""
        self._dropped = 0

    @property
    def node(self) -> str:
        """The name of the node."""
        return self._node.name

    def wait_ready(self, timeout_s: float) -> None:
        """Until the file has begun, which is when tcpdump listens."""
        deadline = time.monotonic() + timeout_s
        while len(self._header) < HEADER_OCTETS:
            self._check_alive(deadline, "tcpdump did not begin its file")
            time.sleep(_TURN_S)
            self._header = self._read(0)[:HEADER_OCTETS]

    def begin(self) -> None:
        """Send the first canary and wait for it."""
        self._first = self._canary("begin")
        deadline = time.monotonic() + _SEEN_S
        while self._first not in self._read(self._offset):
            self._check_alive(deadline, "the first canary did not arrive")
            time.sleep(_TURN_S)

    def end(self) -> Capture:
        """Send the last canary, wait for it, fetch what lies between."""
        if not self._first:
            raise LabError(f"{self._node.name}: no capture has been begun")
        last = self._canary("end")
        deadline = time.monotonic() + _SEEN_S
        records = self._read(self._offset)
        while (cut := between(self._header, records, self._first, last)) is None:
            self._check_alive(deadline, "the last canary did not arrive")
            time.sleep(_TURN_S)
            records += self._read(self._offset + len(records))
        pcap, used = cut
        self._offset += used
        dropped = self._statistics()
        capture = Capture(
            node=self._node.name, pcap=pcap, dropped=dropped - self._dropped, canaries=(self._first, last)
        )
        self._dropped, self._first = dropped, b""
        return capture

    def _read(self, offset: int) -> bytes:
        with lab_fault(self._node.name):
            data = self._node.connection.read(_path(self._node.name), offset=offset)
        return data or b""

    def _canary(self, what: str) -> bytes:
        payload = f"impilab canary {what} {self._node.name} {secrets.token_hex(16)}".encode()
        with lab_fault(self._node.name):
            self._node.connection.datagram(self._gateway, _DISCARD, payload)
        return payload

    def _statistics(self) -> int:
        """Packets that the kernel dropped since the beginning of the lab."""
        try:
            dropped = self._teller.dropped(_SEEN_S)
        except OSError as error:
            raise LabError(f"{self._node.name}: tcpdump cannot be asked for its statistics: {error}") from error
        if dropped is None:
            raise self._mute("tcpdump did not tell its statistics")
        return dropped

    def _check_alive(self, deadline: float, what: str) -> None:
        if time.monotonic() >= deadline:
            raise self._mute(what)

    def _mute(self, what: str) -> LabError:
        try:
            said = self._sidecar.logs(tail=5).decode("utf-8", "replace").strip()
        except (DockerException, OSError) as error:
            said = str(error)
        return LabError(f"{self._node.name}: {what}; tcpdump said: {said}")
