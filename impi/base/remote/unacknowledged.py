"""Find TCP connections of this machine whose octets, or keepalive probes, are not acknowledged.

How it works: netlink's sock_diag (sock_diag(7)) lists the connections, and the kernel leaves out
those of other ports and states. Some kernels and containers refuse that; then /proc/net/tcp is
read. It costs far more, because kernel and Python handle a line for each connection of the machine.

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
_TIMERS = (1, 2, 4)  # retransmission; keepalive; probes of a closed window
_MAPPED = b"\0" * 10 + b"\xff" * 2

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG = 4
# TCPDIAG_GETSOCK: IPv4 and IPv6 in one walk; SOCK_DIAG_BY_FAMILY would need two
_GETSOCK = 18
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ENDS = (2, 3)  # NLMSG_ERROR and NLMSG_DONE, each with an error code
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
# Family, two lengths, extensions; socket; states; no use
_ASKED = struct.Struct("=4B48sII")
# Ports and addresses, own ones first, in a listed connection
_SOCKET = struct.Struct(">HH16s16s")
_INODE = struct.Struct("=I")
_CODE = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_OPERATION = struct.Struct("=BBH")  # of a filter: code, length if true, length if false
_WHERE = struct.Struct("=BB2xi")  # any family, no address, a port
_TCP_INFO, _FILTER = 2, 1
_JUMP, _OWN_END, _OTHER_END = 1, 7, 8
# Offsets in a message, from its header on
_AT_SOCKET, _AT_INODE, _AT_ATTRIBUTES = 20, 84, 88
# Offsets in struct tcp_info: tcpi_retransmits, tcpi_probes
_AT_REPEATED, _AT_PROBES = 2, 3
# The kernel checks a filter in quadratic time; with more ports, none is given
_MOST_PORTS = 64
_PART = 1 << 16
_ANSWER_S = 1.0


def unacknowledged(ports: Iterable[int]) -> list[tuple[int, Ends]]:
    """Return each such connection: the inode of its socket, and its ends with the own one first.

    Args:
        ports: ports of interest, at either end. Without sock_diag connections of all ports come.
    """
    try:
        return list(by_netlink(set(ports)))
    except OSError:
        return list(by_tables())


def by_netlink(ports: set[int]) -> Iterator[tuple[int, Ends]]:
    """Yield the connections that sock_diag lists.

    Raises:
        OSError: the kernel or a filter of system calls refuses, or does not answer within a second.
    """
    asked = _ASKED.pack(
        0, 0, 0, 1 << (_TCP_INFO - 1), b"", 1 << _ESTABLISHED, 0
    ) + _filter(ports)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        # A kernel that takes the question and never answers must not stop the starter.
        kernel.settimeout(_ANSWER_S)

        kernel.send(
            _HEADER.pack(_HEADER.size + len(asked), _GETSOCK, _DUMP, 1, 0) + asked
        )
        while True:
            # A datagram holds several messages, and the last one of all says that it is the last.
            part, at = kernel.recv(_PART), 0
            while at < len(part):
                length, kind, *_ = _HEADER.unpack_from(part, at)
                if kind in _ENDS:
                    [error] = _CODE.unpack_from(part, at + _HEADER.size)
                    if error:
                        raise OSError(-error, "sock_diag")

                    return

                yield from _read(part[at : at + length])
                # Messages begin at multiples of four (NLMSG_ALIGN).
                at += length + 3 & ~3


def _filter(ports: set[int]) -> bytes:
    """Return the attribute that makes the kernel list connections of these ports only.

    It is a program for the kernel: a row of conditions. Behind each stands a jump to the end, where
    a connection is accepted. The last condition needs none: if it is true the program ends there,
    and if it is false it jumps beyond the end, which means refused.
    """

    if not 0 < len(ports) <= _MOST_PORTS:
        return b""

    step = _OPERATION.size + _WHERE.size
    conditions = [
        (code, port) for port in sorted(ports) for code in (_OWN_END, _OTHER_END)
    ]
    # Octets up to the end of the program: the jumps are relative, as the kernel counts them.
    left = len(conditions) * (step + _OPERATION.size) - _OPERATION.size

    text = b""
    for code, port in conditions:
        text += _OPERATION.pack(code, step, step + _OPERATION.size) + _WHERE.pack(
            0, 0, port
        )

        left -= step
        if left:
            text += _OPERATION.pack(_JUMP, _OPERATION.size, left)
            left -= _OPERATION.size

    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(text), _FILTER) + text


def _read(message: bytes) -> Iterator[tuple[int, Ends]]:
    """Yield the connection in a message if its octets are not acknowledged."""
    family, _, timer = message[_HEADER.size : _HEADER.size + 3]

    at = _AT_ATTRIBUTES
    while timer in _TIMERS and at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)

        body = message[at + _ATTRIBUTE.size : at + length]
        if kind == _TCP_INFO and (body[_AT_REPEATED] or body[_AT_PROBES]):
            own_port, other_port, own, other = _SOCKET.unpack_from(message, _AT_SOCKET)
            size = 4 if family == socket.AF_INET else 16
            [inode] = _INODE.unpack_from(message, _AT_INODE)
            yield (
                inode,
                (
                    (_address(own[:size]), own_port),
                    (_address(other[:size]), other_port),
                ),
            )

        at += max(length + 3 & ~3, _ATTRIBUTE.size)


def by_tables(tables: Iterable[str] = _TABLES) -> Iterator[tuple[int, Ends]]:
    """Yield the connections in tables like /proc/net/tcp; a missing table has none."""
    for table in tables:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            # The heading of the table.
            next(file, "")
            for line in file:
                _, own, other, state, _, timer, repeated, _, probes, inode, *_ = (
                    line.split()
                )

                waits = int(state, 16) == _ESTABLISHED and int(timer[:2], 16) in _TIMERS
                if waits and (int(repeated, 16) or int(probes)):
                    yield int(inode), (_end(own), _end(other))


def _end(text: str) -> End:
    """Return address and port of a text such as ``0100007F:1F90``: words in host byte order."""
    words, _, port = text.partition(":")
    octets = b"".join(
        int(words[at : at + 8], 16).to_bytes(4, sys.byteorder)
        for at in range(0, len(words), 8)
    )

    return _address(octets), int(port, 16)


def _address(octets: bytes) -> str:
    # One form for both families: a socket of IPv6 lists an IPv4 peer as a mapped address.
    octets = octets.removeprefix(_MAPPED)
    return socket.inet_ntop(
        socket.AF_INET if len(octets) == 4 else socket.AF_INET6, octets
    )


def sockets(pids: Iterable[int]) -> set[int]:
    """Return the inodes of the sockets that these processes hold."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    kind, _, inode = os.readlink(f"/proc/{pid}/fd/{number}").partition(
                        ":"
                    )
                    if kind == "socket":
                        found.add(int(inode.strip("[]")))

    return found
