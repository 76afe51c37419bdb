"""Find TCP connections of this machine whose octets, or keepalive probes, are not acknowledged.

How it works: netlink's sock_diag (sock_diag(7)) lists the connections, and the kernel leaves out
those of other ports and states. Some kernels and containers refuse that; then /proc/net/tcp is
read. It costs far more, because kernel and Python handle a line for each connection of the machine.

A list costs 1.5 ms on a machine of 24 GiB, even if it is empty. The kernel walks all of its hash
table, and that grows with the memory. A question about one known connection costs some us. So
:class:`Connections` asks for a new list only after a connection has been opened.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from impi.base.remote.starter_lines import End

Ends = tuple[End, End]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_COUNTERS = "/proc/net/snmp"
# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _SYN_RECV = 1, 2, 3
_TIMERS = (1, 2, 4)  # retransmission; keepalive; probes of a closed window
_MAPPED = b"\0" * 10 + b"\xff" * 2

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG = 4
# TCPDIAG_GETSOCK: IPv4 and IPv6 in one walk; SOCK_DIAG_BY_FAMILY would need two
_GETSOCK = 18
_ONE, _DUMP = 0x1, 0x301  # NLM_F_REQUEST, and with NLM_F_DUMP
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
_AT_FAMILY, _AT_SOCKET, _AT_INODE, _AT_ATTRIBUTES = 16, 20, 84, 88
_SOCKET_SIZE = 48  # with interface and cookie, as a question names a connection
# Offsets in struct tcp_info: tcpi_retransmits, tcpi_probes
_AT_REPEATED, _AT_PROBES = 2, 3
# The kernel checks a filter in quadratic time; with more ports, none is given
_MOST_PORTS = 64
# More answers might not fit into the buffer of a socket
_MOST_KNOWN = 64
_PART = 1 << 16
_ANSWER_S = 1.0


class Connections:
    """Looks again and again for connections that are not acknowledged."""

    def __init__(self) -> None:
        self._known: list[bytes] = []
        # Ports of the last list, and the counters before it
        self._as_of: tuple[set[int], object] | None = None

    def unacknowledged(self, ports: Iterable[int]) -> list[tuple[int, Ends]]:
        """Return each such connection: the inode of its socket, and its ends, the own one first.

        Args:
            ports: ports of interest, at either end. Without sock_diag, all ports are.
        """
        # Counted before the list, so whatever is opened during it makes another list.
        opened = _opened()
        as_of = set(ports), opened
        try:
            if opened and as_of == self._as_of and len(self._known) <= _MOST_KNOWN:
                self._known = again(self._known)
            else:
                self._known, self._as_of = listed(as_of[0]), as_of
        except OSError:
            self._as_of = None
            return list(by_tables())

        return list(by_netlink(self._known))


def _opened() -> tuple[str, ...]:
    """Return how many connections this network has opened, either way; empty: it is not known."""
    with contextlib.suppress(OSError), open(_COUNTERS, encoding="ascii") as file:
        lines = [line.split() for line in file if line.startswith("Tcp:")]
        if len(lines) == 2:
            names, values = lines
            return tuple(
                value
                for name, value in zip(names, values, strict=True)
                if name in {"ActiveOpens", "PassiveOpens"}
            )

    return ()


def listed(ports: set[int]) -> list[bytes]:
    """Return the kernel's message on each connection that is established or being made.

    Raises:
        OSError: the kernel or a filter of system calls refuses, or does not answer within a second.
    """
    # A connection may become established without a change of the counters, so those count, too.
    states = 1 << _ESTABLISHED | 1 << _SYN_SENT | 1 << _SYN_RECV
    question = _question(_DUMP, 0, b"", states, _filter(ports))
    found = []
    for kind, message in _answers(question):
        if kind in _ENDS:
            [error] = _CODE.unpack_from(message, _HEADER.size)
            if error:
                raise OSError(-error, "sock_diag")

            break

        found.append(message)

    return found


def again(known: Sequence[bytes]) -> list[bytes]:
    """Return new messages on the connections of earlier ones; those that have ended have none.

    Raises:
        OSError: as for :func:`listed`.
    """
    questions = b"".join(
        _question(
            _ONE,
            message[_AT_FAMILY],
            message[_AT_SOCKET : _AT_SOCKET + _SOCKET_SIZE],
            0,
        )
        for message in known
    )
    # Each question has one answer, and an error means that the connection is gone.
    answers = islice(_answers(questions), len(known)) if known else ()

    return [message for kind, message in answers if kind not in _ENDS]


def _question(
    flags: int, family: int, sock: bytes, states: int, more: bytes = b""
) -> bytes:
    asked = _ASKED.pack(family, 0, 0, 1 << (_TCP_INFO - 1), sock, states, 0) + more
    return _HEADER.pack(_HEADER.size + len(asked), _GETSOCK, flags, 1, 0) + asked


def _answers(questions: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and octets of each message of an answer; the caller knows the last one."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        # A kernel that takes the question and never answers must not stop the starter.
        kernel.settimeout(_ANSWER_S)

        kernel.send(questions)
        while True:
            # A datagram may hold several messages.
            part, at = kernel.recv(_PART), 0
            while at < len(part):
                length, kind, *_ = _HEADER.unpack_from(part, at)
                yield kind, part[at : at + length]
                # Messages begin at multiples of four (NLMSG_ALIGN).
                at += length + 3 & ~3


def by_netlink(messages: Iterable[bytes]) -> Iterator[tuple[int, Ends]]:
    """Yield those of the connections that are established and not acknowledged."""
    for message in messages:
        yield from _read(message)


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
    family, state, timer = message[_AT_FAMILY : _AT_FAMILY + 3]

    at = _AT_ATTRIBUTES
    waits = state == _ESTABLISHED and timer in _TIMERS
    while waits and at + _ATTRIBUTE.size <= len(message):
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
