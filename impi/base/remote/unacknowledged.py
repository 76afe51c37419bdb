"""The TCP connections of this machine whose octets, or probes of keepalive, nobody acknowledges.

How it works: netlink's sock_diag (sock_diag(7)) lists the connections, and the kernel leaves out
those of other ports and states. /proc/net/tcp is for kernels that refuse this. It costs far more:
the kernel writes, and Python reads, a line for each connection of the machine.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator

from impi.base.remote.starter_lines import End

Ends = tuple[End, End]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = 1
_TIMERS = (1, 2, 4)  # octets are repeated; keepalive; probes of a closed window
_MAPPED = b"\0" * 10 + b"\xff" * 2

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG = 4
_GETSOCK = 18  # TCPDIAG_GETSOCK: both families in one walk; SOCK_DIAG_BY_FAMILY needs one for each
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ENDS = (2, 3)  # NLMSG_ERROR, NLMSG_DONE: each has a code
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ASKED = struct.Struct("=4B48sII")  # family, two lengths, extensions; socket; states; no use
_SOCKET = struct.Struct(">HH16s16s")  # ports and addresses, own ones first, in a listed connection
_INODE = struct.Struct("=I")
_CODE = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_OPERATION = struct.Struct("=BBH")  # of a filter: code, length if true, length if false
_WHERE = struct.Struct("=BB2xi")  # any family, no address, a port
_TCP_INFO, _FILTER = 2, 1
_JUMP, _OWN_END, _OTHER_END = 1, 7, 8
_AT_SOCKET, _AT_INODE, _AT_ATTRIBUTES = 20, 84, 88  # in a message, its header counted
_AT_REPEATED, _AT_PROBES = 2, 3  # in struct tcp_info
_MOST_PORTS = 64  # the kernel checks a filter in quadratic time
_PART = 1 << 16
_ANSWER_S = 1.0


def unacknowledged(ports: Iterable[int]) -> list[tuple[int, Ends]]:
    """Return inode and ends (own one first) of each such connection of one of these ports.

    Where the kernel has no sock_diag, connections of all ports come.
    """
    try:
        return list(by_netlink(set(ports)))
    except OSError:
        return list(by_tables())


def by_netlink(ports: set[int]) -> Iterator[tuple[int, Ends]]:
    """Yield what sock_diag lists.

    Raises:
        OSError: the kernel, or who guards it, refuses; or there is no answer within a second.
    """
    asked = _ASKED.pack(0, 0, 0, 1 << (_TCP_INFO - 1), b"", 1 << _ESTABLISHED, 0) + _filter(ports)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _GETSOCK, _DUMP, 1, 0) + asked)
        while True:
            part, at = kernel.recv(_PART), 0
            while at < len(part):
                length, kind, *_ = _HEADER.unpack_from(part, at)
                if kind in _ENDS:
                    [error] = _CODE.unpack_from(part, at + _HEADER.size)
                    if error:
                        raise OSError(-error, "sock_diag")
                    return
                yield from _read(part[at : at + length])
                at += length + 3 & ~3


def _filter(ports: set[int]) -> bytes:
    """Return the attribute by which the kernel lists connections of these ports only.

    A list of conditions, each followed by a jump to the end: where a connection is listed. The
    last one leads there itself, and beyond if it is not true.
    """
    if not 0 < len(ports) <= _MOST_PORTS:
        return b""
    step = _OPERATION.size + _WHERE.size
    conditions = [(code, port) for port in sorted(ports) for code in (_OWN_END, _OTHER_END)]
    left = len(conditions) * (step + _OPERATION.size) - _OPERATION.size
    text = b""
    for code, port in conditions:
        text += _OPERATION.pack(code, step, step + _OPERATION.size) + _WHERE.pack(0, 0, port)
        left -= step
        if left:
            text += _OPERATION.pack(_JUMP, _OPERATION.size, left)
            left -= _OPERATION.size
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(text), _FILTER) + text


def _read(message: bytes) -> Iterator[tuple[int, Ends]]:
    """Yield the connection of a message, if nobody acknowledges its octets."""
    family, _, timer = message[_HEADER.size : _HEADER.size + 3]
    at = _AT_ATTRIBUTES
    while timer in _TIMERS and at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        body = message[at + _ATTRIBUTE.size : at + length]
        if kind == _TCP_INFO and (body[_AT_REPEATED] or body[_AT_PROBES]):
            own_port, other_port, own, other = _SOCKET.unpack_from(message, _AT_SOCKET)
            size = 4 if family == socket.AF_INET else 16
            [inode] = _INODE.unpack_from(message, _AT_INODE)
            yield inode, ((_address(own[:size]), own_port), (_address(other[:size]), other_port))
        at += max(length + 3 & ~3, _ATTRIBUTE.size)


def by_tables(tables: Iterable[str] = _TABLES) -> Iterator[tuple[int, Ends]]:
    """Yield what tables like /proc/net/tcp list; one that is not there lists nothing."""
    for table in tables:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            next(file, "")
            for line in file:
                _, own, other, state, _, timer, repeated, _, probes, inode, *_ = line.split()
                waits = int(state, 16) == _ESTABLISHED and int(timer[:2], 16) in _TIMERS
                if waits and (int(repeated, 16) or int(probes)):
                    yield int(inode), (_end(own), _end(other))


def _end(text: str) -> End:
    """Return address and port of ``0100007F:1F90``: words in the order of the machine."""
    words, _, port = text.partition(":")
    octets = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return _address(octets), int(port, 16)


def _address(octets: bytes) -> str:
    octets = octets.removeprefix(_MAPPED)
    return socket.inet_ntop(socket.AF_INET if len(octets) == 4 else socket.AF_INET6, octets)


def sockets(pids: Iterable[int]) -> set[int]:
    """Return the inodes of the sockets that these processes hold."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    kind, _, inode = os.readlink(f"/proc/{pid}/fd/{number}").partition(":")
                    if kind == "socket":
                        found.add(int(inode.strip("[]")))
    return found
