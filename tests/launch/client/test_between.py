"""A process that stands here for a starter elsewhere."""

from __future__ import annotations

import os
import socket

from impi.launch.client import between


def test_a_relay_copies_both_ways_until_the_task_ends() -> None:
    ours, task = socket.socketpair()
    (theirs_in, to), (output, theirs_out) = os.pipe(), os.pipe()
    pid = between.start(ours, theirs_in, theirs_out)
    os.close(theirs_in)
    os.close(theirs_out)
    os.write(to, b"spec")
    assert task.recv(99) == b"spec"
    task.sendall(b"report" * 20000)
    with os.fdopen(output, "rb") as pipe:
        assert pipe.read(120000) == b"report" * 20000
        os.close(to)
        assert task.recv(99) == b""  # a stop
        task.sendall(b"last")
        task.close()
        assert pipe.read() == b"last"
    assert os.waitpid(pid, 0)[1] == 0
