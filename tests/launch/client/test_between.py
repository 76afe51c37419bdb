"""Processes that stand between impirun and a starter elsewhere."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from impi.base.errors import PeerError
from impi.launch.client import between
from impi.launch.start.program import TaskLink
from impi.protocol.proofs import PROOF_SIZE
from impi.protocol.startup.encrypted import Stream, session_proof

TOKEN = b"a token of impirun"
WAIT_S = 30.0


def accept(sock: socket.socket, token: bytes) -> TaskLink:
    """The end of a session that impirun's control socket has."""
    stream, heard = Stream(accepts=True), b""
    while len(heard) < PROOF_SIZE:
        found, answer = stream.receive(sock.recv(1 << 16))
        heard += found
        sock.sendall(answer)
    sock.sendall(stream.send(session_proof(token, stream.binding, accepts=True)))
    return TaskLink(sock, stream)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for sock in (ours, theirs):
        sock.settimeout(WAIT_S)
    with ours, theirs:
        yield ours, theirs


def test_both_processes_copy_both_ways_until_the_starter_ends(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    accepted: list[TaskLink] = []
    thread = threading.Thread(target=lambda: accepted.append(accept(ends[0], TOKEN)))
    thread.start()
    link = between.begin(ends[1], TOKEN)
    thread.join()
    (theirs_in, to), (output, theirs_out) = os.pipe(), os.pipe()
    pid = between.start(accepted[0], theirs_in, theirs_out)
    os.close(theirs_in)
    os.close(theirs_out)
    (starter_in, feeding), (said, starter_out) = os.pipe(), os.pipe()
    keeper = threading.Thread(target=between.keep, args=(link, feeding, said))
    keeper.start()
    os.write(to, b"spec")
    assert os.read(starter_in, 99) == b"spec"
    writer = threading.Thread(target=os.write, args=(starter_out, b"report" * 20000))
    writer.start()
    with os.fdopen(output, "rb") as pipe:
        assert pipe.read(120000) == b"report" * 20000
        writer.join()
        os.close(to)
        assert os.read(starter_in, 99) == b""  # a stop
        os.write(starter_out, b"last")
        os.close(starter_out)
        assert pipe.read() == b"last"
    keeper.join()
    os.close(starter_in)
    os.close(said)
    assert os.waitpid(pid, 0)[1] == 0


def test_another_session_is_somebody_between(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    thread = threading.Thread(target=accept, args=(ends[0], b"another token"))
    thread.start()
    with pytest.raises(PeerError, match="the connection was intercepted"):
        between.begin(ends[1], TOKEN)
    thread.join()
