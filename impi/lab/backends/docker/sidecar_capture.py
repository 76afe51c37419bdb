"""Captures by a sidecar: a container that only shares a node's network and always runs tcpdump.

It runs for the whole life of a lab; canaries (:mod:`~impi.lab.backends.capture.canary_tap`)
mark a cell in its file. The file lies in a volume that the node can read, over its SSH
connection, but not write: what is under test cannot change it. Canaries go to the gateway, so
that no other node sees them.
"""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Any, Final

from docker.errors import DockerException
from docker.models.containers import Container

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.capture.canary_tap import DISCARD, SEEN_S, tcpdump_options
from impi.lab.backends.nodes import SshNode, lab_fault

CAPTURE_FOLDER: Final = "/cap"
CAPTURE_RIGHTS: Final = ("NET_RAW", "SETUID", "SETGID")
# where a node has 1024: tcpdump that waits for a processor loses packets (thousands once, with
# these shares none of 160 000)
CAPTURE_SHARES: Final = 65536
_CHUNK: Final = 1 << 16
_LOOK_S: Final = 0.2
_FRAME: Final = struct.Struct(">BxxxL")
_STATISTICS: Final = re.compile(
    rb"tcpdump: \d+ packets? captured, .*?(\d+) packets? dropped by kernel"
)


# tcpdump must be process 1, which gets our signals. A line on standard input requests its
# statistics: a signal by way of the engine cost 60 ms of processor time a cell and node.
_SCRIPT: Final = 'exec 3<&0; (sleep "$0"; kill -TERM 1) & while read -r _ <&3; do kill -USR1 1; done & exec "$@"'


def capturing(node: str, nodes: int, seconds: float) -> list[str]:
    """Return the argv of one node's capture in a lab of ``nodes`` nodes, for ``seconds``.

    The lab's SSH is left out.
    """
    argv = ["tcpdump", "-Z", "root", *tcpdump_options("eth0", nodes)]
    # Port 2222 is the lab's own SSH: its packets, with the file itself, would fill the file.
    argv += ["-w", _path(node), "udp or (tcp and not port 2222)"]

    return ["/bin/sh", "-c", _SCRIPT, str(int(seconds)), *argv]


def _path(node: str) -> str:
    return f"{CAPTURE_FOLDER}/{node}.pcap"


class _CaptureTeller:
    """The standard streams of a capture: its output, and requests for its statistics.

    Made before the container is started, or its first output may arrive with the engine's answer.
    """

    def __init__(self, sidecar: Container) -> None:
        self._stream: Any = sidecar.attach_socket(
            params={"stdin": 1, "stderr": 1, "stream": 1}
        )
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        self._received = b""
        self._said = b""

    def dropped(self, timeout_s: float) -> int | None:
        """Return packets dropped by the kernel so far; None: no answer. OSError: the capture is
        gone."""

        self._said = b""
        self._socket.sendall(b"\n")

        patience = Patience(timeout_s, 1)
        self._socket.settimeout(_LOOK_S)
        while not (found := _STATISTICS.search(self._said)):
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                if patience.ended():
                    return None

                continue

            if not data:
                raise OSError("its streams are closed")

            self._take(data)

        return int(found[1])

    def _take(self, data: bytes) -> None:
        """Take the engine's frames: one octet of the kind, three unused, four of the length."""
        self._received += data
        while len(self._received) >= _FRAME.size:
            _, length = _FRAME.unpack_from(self._received)
            if len(self._received) < _FRAME.size + length:
                return

            self._said += self._received[_FRAME.size : _FRAME.size + length]
            self._received = self._received[_FRAME.size + length :]

    def close(self) -> None:
        # the response holds the connection, too
        getattr(self._stream, "_response", self._stream).close()
        self._socket.close()


class Sidecar:
    """A :class:`~impi.lab.backends.capture.canary_tap.Recorder` in a sidecar of a node.

    Made before its container is started, see :class:`_CaptureTeller`.
    """

    def __init__(self, node: SshNode, sidecar: Container, gateway: str) -> None:
        self.where = node.name
        self._node, self._sidecar = node, sidecar
        self._teller = _CaptureTeller(sidecar)
        self._gateway = gateway

    def read(self, offset: int) -> bytes:
        with lab_fault(self.where):
            data = self._node.connection.read(_path(self.where), offset=offset)

        return data or b""

    def mark(self, payload: bytes) -> None:
        with lab_fault(self.where):
            self._node.connection.datagram(self._gateway, DISCARD, payload)

    def ended(self) -> bool:
        """Return False: asking the engine each time costs too much, and a lost canary tells."""
        return False

    def dropped(self) -> int:
        try:
            dropped = self._teller.dropped(SEEN_S)
        except OSError as error:
            raise LabError(
                f"{self.where}: tcpdump cannot be asked for its statistics: {error}"
            ) from error

        if dropped is None:
            raise LabError(
                f"{self.where}: tcpdump did not print its statistics; tcpdump said: {self.said()}"
            )

        return dropped

    def said(self) -> str:
        try:
            return str(self._sidecar.logs(tail=5).decode("utf-8", "replace").strip())
        except (DockerException, OSError) as error:
            return str(error)

    def stop(self) -> None:
        # Whatever fails here, the rest of the lab must go
        with contextlib.suppress(Exception):
            self._teller.close()
