"""Storms of hostile connections: the job is as without them, and the server keeps nothing."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.protocol.wire import Command, encode_command

ROOT = Path(__file__).parents[2]
SECRET = {
    "IMPI_AUTH_SECRET": "correct horse battery",
    "IMPI_AUTH_KEY": "0xFEDCBA9876543210",
}
ENDED_S = 60.0
AT_ONCE = 300
"""Hostile connections that stay open; the server has room for fewer."""
MOST_GROWTH_KB = 50_000
PROGRAM = """
import sys, time
from pathlib import Path
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.barrier()
if comm.rank == 0:
    print("begun", flush=True)
    sys.stdin.readline()
comm.barrier()
total = sum(comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size) for _ in range(200))
print(f"rank {comm.rank} has {total}", flush=True)
"""
AUTH = encode_command(Command.AUTH, (1 << 31).to_bytes(4, "big"))
KEYED = encode_command(Command.AUTH, (1 << 1).to_bytes(4, "big"))
KINDS = {
    "silent": b"",
    "garbage": bytes(random.Random(1).randbytes(300)),
    "wrong proof": AUTH + bytes(64),
    "wrong key": KEYED + bytes(8),
    "half a command": AUTH[:6],
    "an endless command": AUTH[:4] + b"\x00\xff\xff\xff" + bytes(5000),
    "no method of ours": encode_command(Command.AUTH, (1 << 7).to_bytes(4, "big")),
    "a rank without a proof": AUTH + encode_command(Command.IMPI, b"\0\0\0\1"),
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS handshake": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "a reset": AUTH,
}


class Job:
    """A server with this machine's ends of a job of two clients."""

    def __init__(self) -> None:
        self.parts: dict[str, subprocess.Popen[str]] = {}
        self.server = self.start("server", "-server", "2", "--interface", "127.0.0.1")
        assert self.server.stdout is not None
        self.where = self.server.stdout.readline().strip()

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        self.parts[name] = subprocess.Popen(
            [sys.executable, "-m", "impi.cli.impirun", *arguments],
            env={**os.environ, **SECRET},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        return self.parts[name]

    def client(self, rank: int) -> subprocess.Popen[str]:
        arguments = (
            "-client",
            str(rank),
            self.where,
            "-np",
            "2",
            sys.executable,
            "-c",
            PROGRAM,
        )
        return self.start(f"client {rank}", *arguments)

    def size_kb(self) -> int:
        """The most memory that the server has had so far."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    for part in made.parts.values():
        if part.poll() is None:
            part.terminate()
        part.communicate(timeout=ENDED_S)


def storm(where: str, connections: int) -> int:
    """Open that number of connections, each of the next kind; return how many TCP has accepted."""
    host, _, port = where.rpartition(":")
    kinds = list(KINDS)
    there: deque[socket.socket] = deque()
    accepted = 0
    for number in range(connections):
        sock = socket.socket()
        sock.bind((f"127.0.0.{2 + number % 200}", 0))
        sock.settimeout(ENDED_S)
        sock.connect((host, int(port)))
        accepted += 1
        kind = kinds[number % len(kinds)]
        try:
            sock.sendall(KINDS[kind])
        except OSError:
            pass  # the server has closed it already
        if kind == "a reset":
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            sock.close()
            continue
        there.append(sock)
        if len(there) > AT_ONCE:
            there.popleft().close()
    for sock in there:
        sock.close()
    return accepted


def ended_well(job: Job) -> None:
    clients = [job.parts["client 0"], job.parts["client 1"]]
    assert clients[0].stdin is not None
    clients[0].stdin.write("go on\n")
    clients[0].stdin.close()
    clients[0].stdin = None
    found = [part.communicate(timeout=ENDED_S) for part in clients]
    assert [part.returncode for part in clients] == [0, 0], found
    lines = sorted("".join(out for out, _ in found).splitlines())
    assert lines[-4:] == [
        f"rank {rank} has {200 * ((rank - 1) % 4)}" for rank in range(4)
    ]
    _, said = job.server.communicate(timeout=ENDED_S)
    assert job.server.returncode == 0
    assert len(said.splitlines()) < 200


FORGOTTEN_S = 130.0
"""TCP repeats the end of a connection that found the queue full, the sixth time after 63 s."""


def until_served(where: str) -> None:
    """Wait until the server has closed a stranger's connection: its loop runs, all is open."""
    host, _, port = where.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENDED_S) as stranger:
        stranger.sendall(KINDS["another protocol"])
        while stranger.recv(4096):
            pass


def until_forgotten(job: Job, descriptors: int) -> None:
    until = time.monotonic() + FORGOTTEN_S
    while job.descriptors() > descriptors:
        assert time.monotonic() < until, job.descriptors()
        select.select([], [], [], 0.05)


@pytest.mark.proof
def test_a_storm_while_a_client_is_awaited(job: Job) -> None:
    until_served(job.where)
    descriptors = job.descriptors() + 1
    job.client(0)
    until = time.monotonic() + ENDED_S
    while job.descriptors() < descriptors:
        assert time.monotonic() < until, "client 0 has not come"
        select.select([], [], [], 0.05)
    size = job.size_kb()
    assert storm(job.where, 10_000) == 10_000
    until_forgotten(job, descriptors)
    growth = job.size_kb() - size
    print(f"10000 connections: the server has grown by {growth} kB")
    assert growth < MOST_GROWTH_KB
    job.client(1)
    ended_well(job)


@pytest.mark.proof
def test_a_storm_beside_a_running_job(job: Job) -> None:
    first = job.client(0)
    job.client(1)
    assert first.stdout is not None
    assert first.stdout.readline() == "begun\n"
    size, descriptors = job.size_kb(), job.descriptors()
    assert storm(job.where, 6_000) == 6_000
    until_forgotten(job, descriptors)
    growth = job.size_kb() - size
    print(f"6000 connections: the server has grown by {growth} kB")
    assert growth < MOST_GROWTH_KB
    ended_well(job)
