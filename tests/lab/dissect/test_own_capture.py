"""A captured job of ours: all decoders read it, and no packet breaks the protocol."""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tshark import by_lua

from impi.lab.dissect.decode.host_channel import PACKET_TYPES
from impi.lab.dissect.jobs.job_finder import ObservedJob, observe
from impi.lab.dissect.show.record_list import Record, records, wrong
from impi.lab.dissect.show.text import as_line
from impi.lab.dissect.streams.pcap import Datagram, Segment, read_pcap
from impi.lab.dissect.streams.tcp import reassemble

ROOT = Path(__file__).parents[3]
# Ours alone, among all jobs on loopback
ADDRESS = f"127.{20 + os.getpid() % 200}.{os.getpid() // 200 % 250}.1"
KEY = 8070450532247928832 + 5678
DEADLINE_S = 90.0
CANARY = b"the capture has come this far"
PROGRAM = """
import numpy as np
from impi import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
for n, tag in ((0, 1), (5, 2), (70000, 3), (200000, 4)):
    got = np.empty(n, "u1")
    request = comm.Irecv(got, (rank - 1) % size, tag)
    comm.Send(np.full(n, rank, "u1"), (rank + 1) % size, tag)
    request.Wait()
    assert (got == (rank - 1) % size).all()
if rank == 0:
    for i in range(60):
        comm.Send(np.full(1, i, "i4"), size - 1, 5)
    comm.Ssend(np.arange(3, dtype="i4"), size - 1, 6)
if rank == size - 1:
    one = np.empty(1, "i4")
    for i in range(60):
        comm.Recv(one, 0, 5)
        assert one[0] == i
    comm.Recv(np.empty(3, "i4"), 0, 6)
comm.Barrier()
assert comm.allreduce(1) == size
"""


@contextmanager
def captured(path: Path) -> Iterator[None]:
    """Capture what goes over our address; skips where that is not possible."""
    program = shutil.which("tcpdump")
    if program is None:
        pytest.skip("tcpdump is not installed: apt-get install tcpdump")
    argv = [
        program,
        "-i",
        "lo",
        "-U",
        "--immediate-mode",
        "-B",
        "65536",
        "-w",
        str(path),
        "-Z",
        "root",
    ]
    argv += [f"host {ADDRESS}"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        said, until = b"", time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as ready:
            ready.register(process.stderr, selectors.EVENT_READ)
            while b"listening on" not in said and ready.select(
                max(0.0, until - time.monotonic())
            ):
                more = os.read(process.stderr.fileno(), 4096)
                said += more
                if not more:
                    pytest.skip(
                        f"tcpdump cannot capture here: {said.decode(errors='replace').strip()}"
                    )
        assert b"listening on" in said
        yield
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as canary:
            canary.bind((ADDRESS, 0))
            while CANARY not in path.read_bytes():
                assert time.monotonic() < until + DEADLINE_S, (
                    "the capture does not go on"
                )
                canary.sendto(CANARY, (ADDRESS, 9))
                time.sleep(0.05)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def impirun(*argv: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("IMPI_")} | {
        "IMPI_AUTH_KEY": str(KEY)
    }
    argv = (sys.executable, "-m", "impi.cli.impirun", *argv)
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=ROOT,
    )


def run_job(program: Path) -> None:
    server = impirun("-server", "2", "--interface", ADDRESS)
    started = [server]
    try:
        assert server.stdout is not None
        where = server.stdout.readline().strip()
        for client, count in enumerate(("2", "1")):
            limits = ("--ackmark", "3", "--hiwater", "7", "--datalen", "65536")
            argv = (
                "-client",
                str(client),
                where,
                "-np",
                count,
                "--interface",
                ADDRESS,
                *limits,
                str(program),
            )
            started.append(impirun(*argv))
        for process in (*started[1:], server):
            out, err = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, out + err
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def capture(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("capture")
    (folder / "program.py").write_text(PROGRAM)
    with captured(folder / "job.pcap"):
        run_job(folder / "program.py")
    return folder / "job.pcap"


def seen(capture: Path) -> tuple[ObservedJob, list[Record]]:
    segments = (s for s in read_pcap(capture.read_bytes()) if isinstance(s, Segment))
    (job,) = observe(reassemble(segments)).jobs
    return job, records([job])


def test_nobody_breaks_the_protocol(capture):
    job, every = seen(capture)
    assert [r for r in every if wrong(r)] == []
    assert job.layout is not None
    assert [p.client for p in job.layout.procs] == [0, 0, 1]
    assert min(job.layout.values["H_HIWATER"]) == 7
    assert sum(r.kind == "FINI" for r in every) == 2 + 2 * len(job.channels)
    connections = [c.connection for c in job.conversations] + [
        c.connection for c in job.channels
    ]
    assert sum(r.size for r in every) == sum(
        len(c.forth.data) + len(c.back.data) for c in connections
    )


def test_all_that_was_sent_was_seen(capture):
    _, every = seen(capture)
    sent = [
        r.fields
        for r in every
        if r.kind in ("DATA", "DATASYNC") and r.fields["cid"] == 0
    ]
    between = [(f["tag"], f["src_rank"], f["dest_rank"]) for f in sent]
    assert between.count((5, 0, 2)) == 60
    assert between.count((6, 0, 2)) == 1
    long = [f["len"] for f in sent if f["tag"] == 4 and f["src_rank"] == 1]
    assert sum(map(int, map(str, long))) == 200000
    assert len(long) == 4
    assert any(r.kind == "PROTOACK" for r in every)


def test_the_key_is_neither_in_the_capture_nor_in_what_is_told(capture):
    octets = KEY.to_bytes(8, "big")
    assert octets not in capture.read_bytes()
    _, every = seen(capture)
    text = "\n".join(
        as_line(r, start=0.0, clocked=True, several=False, whole=True) for r in every
    ) + repr(every)
    assert octets.hex() not in text
    assert str(KEY) not in text


def test_the_dissector_in_lua_agrees(capture):
    job, _ = seen(capture)
    for channel in job.channels:
        port = channel.connection.accepter[1]
        mine = {
            forth: [
                (PACKET_TYPES.index(p.kind), p.srqid, p.tag, p.cid, p.payload)
                for p in channel.packets
                if p.forth == forth
            ]
            for forth in (True, False)
        }
        for twice in (False, True):
            lua = by_lua(capture, port, only=f"tcp.port=={port}", twice=twice)
            theirs = {
                f: [(h.pk_type, h.srqid, h.tag, h.cid, data) for h, data in rows]
                for f, rows in lua.items()
            }
            assert theirs == mine


def test_the_capture_is_the_jobs_alone(capture):
    others = {
        d.payload for d in read_pcap(capture.read_bytes()) if isinstance(d, Datagram)
    }
    assert others == {CANARY}
