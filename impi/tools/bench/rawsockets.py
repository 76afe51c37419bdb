"""Plain Python sockets: the reference of ``impi bench``, fixed before any tuning.

Two processes use one TCP connection on loopback, with TCP_NODELAY, and nothing of impi. A packet is
136 octets: a header of 128 (IMPI 3.5) and 8 of user data. Measures are defined as in OSU's
benchmarks:

* ``latency``: ping-pong of one packet; half the round trip in us;
* ``bandwidth``: windows of messages of ``size`` octets, sent by sendall, received by recv_into into
  one buffer, each window acknowledged by 4 octets; 10^6 octets/s;
* ``rate``: windows of packets, one send call each, received by recv_into into a large buffer, each
  window acknowledged by 4 octets; packets/s.

``spinning`` ends poll a non-blocking socket; other ends block, and ``bandwidth`` always does. See
``python rawsockets.py --help``. The result is one line with a JSON object: measure, value, unit,
spinning, size, window, iterations.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence

PACKET = 128 + 8
_ACKNOWLEDGMENT = 4
_LARGE = 1 << 18
_Receive = Callable[[memoryview], int]


def _spinning(connection: socket.socket) -> _Receive:
    connection.setblocking(False)
    recv_into = connection.recv_into

    def receive(view: memoryview) -> int:
        while True:
            try:
                return recv_into(view)
            except BlockingIOError:
                pass

    return receive


def _receive_all(receive: _Receive, view: memoryview) -> None:
    got = receive(view)
    while got < len(view):
        more = receive(view[got:])
        if not more:
            raise ConnectionError("the other end has closed the connection")

        got += more


def _send_all(connection: socket.socket, data: bytes) -> None:
    """Send short data; a spinning end waits here only while the system's buffers are full."""
    sent = 0
    while sent < len(data):
        try:
            sent += connection.send(data[sent:] if sent else data)
        except BlockingIOError:
            pass


def _latency(
    connection: socket.socket,
    receive: _Receive,
    first: bool,
    options: argparse.Namespace,
) -> float:
    packet, view = bytes(PACKET), memoryview(bytearray(PACKET))

    begin = 0.0
    for iteration in range(options.skip + options.iterations):
        # The clock begins once caches and TCP's windows are as large as they become.
        if iteration == options.skip:
            begin = time.perf_counter()

        if first:
            _send_all(connection, packet)
            _receive_all(receive, view)
        else:
            _receive_all(receive, view)
            _send_all(connection, packet)

    return float((time.perf_counter() - begin) / options.iterations / 2 * 1e6)


def _bandwidth(
    connection: socket.socket,
    receive: _Receive,
    first: bool,
    options: argparse.Namespace,
) -> float:
    message, view = bytes(options.size), memoryview(bytearray(options.size))
    acknowledgment = memoryview(bytearray(_ACKNOWLEDGMENT))

    begin = 0.0
    for iteration in range(options.skip + options.iterations):
        if iteration == options.skip:
            begin = time.perf_counter()

        for _ in range(options.window):
            if first:
                connection.sendall(message)
            else:
                _receive_all(receive, view)

        if first:
            _receive_all(receive, acknowledgment)
        else:
            _send_all(connection, bytes(_ACKNOWLEDGMENT))

    return float(
        options.size
        * options.window
        * options.iterations
        / (time.perf_counter() - begin)
        / 1e6
    )


def _rate(
    connection: socket.socket,
    receive: _Receive,
    first: bool,
    options: argparse.Namespace,
) -> float:
    packet, view = bytes(PACKET), memoryview(bytearray(_LARGE))
    acknowledgment = memoryview(bytearray(_ACKNOWLEDGMENT))

    begin = 0.0
    for iteration in range(options.skip + options.iterations):
        if iteration == options.skip:
            begin = time.perf_counter()

        if first:
            for _ in range(options.window):
                _send_all(connection, packet)

            _receive_all(receive, acknowledgment)
        else:
            missing = options.window * PACKET
            while missing:
                got = receive(view)
                if not got:
                    raise ConnectionError("the other end has closed the connection")

                missing -= got

            _send_all(connection, bytes(_ACKNOWLEDGMENT))

    return float(options.window * options.iterations / (time.perf_counter() - begin))


_MEASURES = {
    "latency": (_latency, "us"),
    "bandwidth": (_bandwidth, "MB/s"),
    "rate": (_rate, "messages/s"),
}


def _end(connection: socket.socket, first: bool, options: argparse.Namespace) -> float:
    if options.pin:
        os.sched_setaffinity(0, {options.pin[0 if first else 1]})

    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    receive = _spinning(connection) if options.spinning else connection.recv_into

    return _MEASURES[options.measure][0](connection, receive, first, options)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Run one measure between this process and a child of it; see :func:`main` for ``options``.

    Raises:
        ConnectionError: the other end ended too early.
    """

    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            try:
                with socket.create_connection(listener.getsockname()) as connection:
                    _end(connection, False, options)
            finally:
                # The fork must not come back to what the parent does after its measurement.
                os._exit(0)

        with listener.accept()[0] as connection:
            value = _end(connection, True, options)

    os.waitpid(child, 0)
    names = ("measure", "spinning", "size", "window", "iterations")

    return {
        **{name: getattr(options, name) for name in names},
        "value": value,
        "unit": _MEASURES[options.measure][1],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, which names one measure."""

    parser = argparse.ArgumentParser(
        description="Measure plain Python sockets over loopback TCP."
    )
    parser.add_argument("measure", choices=tuple(_MEASURES))
    parser.add_argument(
        "--spinning",
        action="store_true",
        help="non-blocking sockets, asked again and again",
    )
    parser.add_argument(
        "--iterations",
        type=int,
        default=1000,
        help="round trips or windows that are timed",
    )
    parser.add_argument(
        "--skip", type=int, default=100, help="those before, which are not"
    )
    parser.add_argument(
        "--size", type=int, default=16777216, help="octets of a message of 'bandwidth'"
    )
    parser.add_argument("--window", type=int, default=64, help="messages of a window")
    parser.add_argument(
        "--pin", type=int, nargs=2, metavar="CORE", help="the core of each process"
    )

    options = parser.parse_args(argv)
    # sendall() takes a blocking socket only.
    if options.measure == "bandwidth" and options.spinning:
        parser.error("bandwidth always blocks: leave --spinning out")

    print(json.dumps(measure(options)))

    return 0


if __name__ == "__main__":
    sys.exit(main())
