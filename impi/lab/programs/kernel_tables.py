"""Endpoints in the kernel's tables of sockets, whose words have the kernel's own byte order.

An emulated program of another machine has another order than its kernel (qemu-user).
:func:`listeners` asks sock_diag(7) for listeners alone: for /proc/net/tcp the kernel walks its
whole table of connections. A witness looks fifty times a second, and each cell is swept.

The sweep for leftovers is sent to a node behind the text of this file
(:mod:`impi.lab.backends.lifecycle.residue`), so it imports the standard library only.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple


@functools.cache
def order() -> Literal["big", "little"]:
    """Return the kernel's byte order, which a socket of this process shows."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))

        port = probe.getsockname()[1]
        try:
            table = Path("/proc/net/udp").read_text("ascii")
        except OSError:
            return sys.byteorder

        if f"7F000001:{port:04X}" in table:
            return "big"

        return "little" if f"0100007F:{port:04X}" in table else sys.byteorder


def endpoint(text: str) -> tuple[str, int]:
    """Return ``127.0.0.1`` and 8080 for ``0100007F:1F90`` of a little-endian kernel."""

    address, _, port = text.partition(":")
    words = [
        int(address[at : at + 8], 16).to_bytes(4, order())
        for at in range(0, len(address), 8)
    ]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6

    return socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:"), int(
        port, 16
    )


# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG = 4
_GETSOCK = 18  # IPv4 and IPv6 in one answer
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_LISTEN = 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
# Family, two lengths, extensions; socket; states; no use
_ASKED = struct.Struct("=4B48sII")
# Family, then the own port and, eight octets on, the own address.
_FOUND = struct.Struct(">16xB3xH2x16s")
_OWNER = struct.Struct("=II")  # user and inode, at the end of the message
_AT_OWNER = 80
_ANSWER_S = 1.0


class Listener(NamedTuple):
    """A TCP socket that listens."""

    inode: str
    uid: int
    address: str
    port: int

    @property
    def end(self) -> str:
        return f"{self.address}:{self.port}"


def listeners(pid: int | str = "self") -> list[Listener]:
    """Return the TCP listeners in the network of a process."""
    # sock_diag knows the network of this process alone.
    if pid == "self" or _network(pid) == _network("self"):
        try:
            return list(_by_netlink())
        except OSError:
            pass  # this kernel, emulator or container refuses: the tables are always there

    return list(_by_tables(pid))


def _network(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return ""


def _by_netlink() -> Iterator[Listener]:
    asked = _ASKED.pack(0, 0, 0, 0, b"", 1 << _LISTEN, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        kernel.send(
            _HEADER.pack(_HEADER.size + len(asked), _GETSOCK, _DUMP, 1, 0) + asked
        )
        while True:
            part, at = kernel.recv(1 << 16), 0
            while at < len(part):
                length, kind, *_ = _HEADER.unpack_from(part, at)
                if kind == _ERROR:
                    raise OSError("sock_diag refuses")

                if kind == _DONE:
                    return

                yield _listener(part[at : at + length])
                at += length + 3 & ~3


def _listener(message: bytes) -> Listener:
    family, port, address = _FOUND.unpack_from(message)
    octets = address[:4] if family == socket.AF_INET else address
    shown = socket.inet_ntop(family, octets).removeprefix("::ffff:")
    uid, inode = _OWNER.unpack_from(message, _AT_OWNER)

    return Listener(str(inode), uid, shown, port)


def _by_tables(pid: int | str) -> Iterator[Listener]:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text("utf-8").splitlines()[1:]
        except OSError:
            continue

        for row in (line.split() for line in lines):
            if int(row[3], 16) == _LISTEN:
                yield Listener(row[9], int(row[7]), *endpoint(row[1]))
