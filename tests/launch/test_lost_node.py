"""A node that is lost is named, although what connects to it (ssh, srun) has not ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from impi.base.remote import processes

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
PROGRAM = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
sys.stdout.write(f"{comm.rank} {os.getpid()}\\n")
sys.stdout.flush()
comm.recv(source=1 - comm.rank if comm.rank < 2 else 1)
"""


def test_a_node_that_does_not_answer_is_named(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    env = {
        **os.environ,
        "IMPI_AUTH_NONE": "1",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }

    def start(*arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "impi.cli.impirun", *arguments]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(
            argv, env=env, cwd=ROOT, stdin=none, stdout=pipe, stderr=pipe, text=True
        )

    server = start("-server", "2", "--interface", "127.0.0.1")
    assert server.stdout is not None
    where = server.stdout.readline().strip()
    program = [sys.executable, "-c", PROGRAM]
    first = start(
        "-client",
        "0",
        where,
        "--nodes",
        "localhost:1,away:1",
        "--interface",
        "lo",
        *program,
    )
    other = start("-client", "1", where, *program)
    assert first.stdout is not None
    lines = [first.stdout.readline().split() for _ in range(2)]
    pids = {int(rank): int(pid) for rank, pid in lines}
    starter = processes.parent(pids[1])
    # Its node is gone, and the ssh to it does not know.
    os.kill(starter, signal.SIGSTOP)
    os.kill(pids[1], signal.SIGKILL)
    try:
        for part in (first, other, server):
            _, err = part.communicate(timeout=WAIT_S)
            assert part.returncode == 1
            assert (
                "the starter of node away has not answered for 2 s, while the job was running"
                in err
            )
    finally:
        with suppress(ProcessLookupError):
            os.kill(starter, signal.SIGKILL)
