"""A client that leads start-up and the dance to their ends, and then is not a peer any more.

Usage: ``bad_client.py CLIENT HOST:PORT HOW``; HOW is nothing, garbage, flood or octets (one a
second). It is client 0 of one host with two procs, so the tester connects to it.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from itertools import count

from impi.lab.conform.job.encoding import command, ipv6, uint4, uint8


def said(port: int) -> list[tuple[int, bytes]]:
    """The fourteen labels (IMPI 2.3.5) of this client."""
    here = ipv6("127.0.0.1")
    plain = [
        (0x1000, uint4(0, 0)),
        (0x1100, uint4(1)),
        (0x1200, uint4(2)),
        (0x1300, uint4(1024)),
    ]
    plain += [(0x1400, uint4(2**31 - 1)), (0x1500, uint4(-1)), (0x1600, uint4(-1))]
    hosts = [
        (0x2000, here),
        (0x2100, uint4(port)),
        (0x2200, uint4(2)),
        (0x2300, uint4(8)),
        (0x2400, uint4(16)),
    ]
    return [
        *plain,
        *hosts,
        (0x3000, 2 * here),
        (0x3100, uint8(os.getpid(), os.getpid() + 1)),
    ]


def start(address: tuple[str, int], client: int, port: int) -> socket.socket:
    """Start-up, up to DONE; the connection stays open."""
    server = socket.create_connection(address)
    stream = server.makefile("rb")
    server.sendall(command("AUTH", uint4(1)))
    stream.read(8)
    server.sendall(command("IMPI", uint4(client)))
    labels = b"".join(
        command("COLL", uint4(label) + data) for label, data in said(port)
    )
    server.sendall(labels + command("DONE"))
    while stream.read(4) != b"DONE":
        stream.read(struct.unpack(">i", stream.read(4))[0])
    return server


def main() -> None:
    """Be no peer, until the tester closes the channel."""
    host, _, port = sys.argv[2].rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    server = start((host, int(port)), int(sys.argv[1]), listener.getsockname()[1])
    channels = [listener.accept()[0] for _ in range(2)]
    how = sys.argv[3]
    for number in count():
        if how == "nothing":
            time.sleep(1.0)
            continue
        octets = {
            "garbage": os.urandom(100),
            "flood": bytes(1 << 16),
            "octets": bytes(1),
        }[how]
        channels[number % 2].sendall(octets)
        if how == "octets":
            time.sleep(1.0)
    server.close()


if __name__ == "__main__":
    main()
