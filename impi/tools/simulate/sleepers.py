"""Message times between two processes that sleep, over plain sockets, as in a job's start."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Final

_OCTETS: Final = 64  # octets of most commands of chapter 2
_MOST: Final = 100


def sleepers(pair: Any, times: int) -> dict[str, float]:
    """Return times between the two ranks of ``pair`` in seconds at rank 0, and none at rank 1.

    ``connect`` and ``accept`` are the times of the two ends of a new connection, ``send`` that of
    sending a short message, ``way`` the time until the other process, which slept, has it.
    """

    times = min(times, _MOST)
    if pair.Get_rank() == 1:
        _second(pair.recv(source=0), times)
        return {}

    with socket.create_server(("127.0.0.1", 0), backlog=times + 1) as listener:
        pair.send(listener.getsockname(), dest=1)
        accepting, made = [], []

        first, _ = listener.accept()
        with first:
            _wait(first)  # until all connections are open

            connecting = float(first.recv(_OCTETS))
            for _ in range(times):
                start = time.monotonic()
                made.append(listener.accept()[0])
                made[-1].recv(_OCTETS)
                accepting.append(time.monotonic() - start)

            for sock in made:
                sock.close()

            sending, ways = [], []

            first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(times):
                start = time.monotonic()
                first.sendall(bytes(_OCTETS))
                sending.append(time.monotonic() - start)
                _wait(first)
                first.recv(_OCTETS)
                ways.append((time.monotonic() - start) / 2)

    return {
        "connect": connecting,
        "accept": _middle(accepting),
        "send": _middle(sending),
        "way": _middle(ways),
    }


def _second(where: tuple[str, int], times: int) -> None:
    with socket.create_connection(where) as sock:
        taken, made = [], []
        for _ in range(times):
            start = time.monotonic()
            made.append(socket.create_connection(where))
            taken.append(time.monotonic() - start)
            # As a host tells its rank in the dance (IMPI 2.3.8).
            made[-1].sendall(bytes(4))

        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        sock.sendall(str(_middle(taken)).encode())
        for _ in range(times):
            _wait(sock)
            sock.sendall(sock.recv(_OCTETS))

        for other in made:
            other.close()


def _wait(sock: socket.socket) -> None:
    select.select([sock], [], [])


def _middle(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]
