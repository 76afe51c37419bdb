"""A stranger: holds connections to all listeners of some processes, from 200 addresses.

``holds_connections.py COUNT tree|alone PID...``: of all that runs below these, or of their children
alone. At each port COUNT connections, half of which say three octets. Closed ones are replaced. A
line ``PORT`` on stdout: the number of connections now.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

ADDRESSES = 200
AT_ONCE = 200
"""New connections to a port in one round."""
ROUND_S = 0.02
LISTENS = "0A"


def parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                found[int(entry.name)] = int(
                    (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                )
    return found


def below(roots: list[int]) -> set[int]:
    """Return the roots and all that they have started, without this process."""
    parent_of = parents()
    found = set(roots)
    while more := {pid for pid, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def children(roots: tuple[int, ...]) -> set[int]:
    return {pid for pid, parent in parents().items() if parent in roots} - {os.getpid()}


def listeners(pids: set[int]) -> dict[int, str]:
    """Return the ports of IPv4 at which these processes listen, with an address."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(str(entry.readlink()))
    found = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == LISTENS and f"socket:[{fields[9]}]" in inodes:
            address, _, port = fields[1].partition(":")
            shown = socket.inet_ntoa(bytes.fromhex(address)[::-1])
            found[int(port, 16)] = "127.0.0.1" if shown == "0.0.0.0" else shown
    return found


class Held:
    """One connection, or the attempt at it."""

    def __init__(self, source: str, to: tuple[str, int], word: bytes) -> None:
        self.sock, self._word = socket.socket(), word
        self.sock.setblocking(False)
        self.sock.bind((source, 0))
        self.sock.connect_ex(to)

    def lives(self) -> bool:
        try:
            if self._word:
                self._word = self._word[self.sock.send(self._word) :]
            return self.sock.recv(100) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


class Port:
    """The connections to one port."""

    def __init__(self, address: str, number: int, count: int) -> None:
        self.address, self.number, self.count = address, number, count
        self.held: list[Held] = []
        self.made = 0
        self.told = False

    def close(self) -> None:
        for one in self.held:
            one.sock.close()
        self.held.clear()

    def turn(self) -> None:
        dead = [one for one in self.held if not one.lives()]
        for one in dead:
            one.sock.close()
        self.held = [one for one in self.held if one.sock.fileno() >= 0]
        for _ in range(min(AT_ONCE, self.count - len(self.held))):
            source = f"127.0.{1 + self.made % ADDRESSES // 100}.{2 + self.made % 100}"
            self.held.append(
                Held(
                    source,
                    (self.address, self.number),
                    b"IMP" if self.made % 2 else b"",
                )
            )
            self.made += 1
        if self.made >= self.count and not self.told:
            self.told = True
            print(self.number, flush=True)


def main(count: int, kind: str, *roots: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ports: dict[int, Port] = {}
    while True:
        found = listeners(below(list(roots)) if kind == "tree" else children(roots))
        for number, address in found.items():
            ports.setdefault(number, Port(address, number, count))
        for number, port in ports.items():
            if number in found:
                port.turn()
            else:
                port.close()
        time.sleep(ROUND_S)  # the job needs a processor, too


main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
