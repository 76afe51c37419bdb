"""The connection by which impirun sees a proc begin and end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from control_proof import prove

from impi.base.errors import LaunchError
from impi.rank.vendors import presence
from impi.rank.vendors.invitation import Invitation

TOKEN = "00ff" * 8


@pytest.fixture(autouse=True)
def no_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[socket.socket] = []
    monkeypatch.setattr(presence, "_open", opened)
    monkeypatch.setattr(presence, "_spoke", [])
    monkeypatch.setattr(os, "_exit", os._exit)
    yield
    for sock in opened:
        sock.close()


def announced(**more: Any) -> tuple[dict[str, Any], socket.socket]:
    """The words that impirun hears, and its end of the connection."""

    def accept(listener: socket.socket) -> tuple[dict[str, Any], socket.socket]:
        sock = listener.accept()[0]
        sock.settimeout(30)
        prove(sock, TOKEN)
        line = b""
        while not line.endswith(b"\n"):
            line += sock.recv(1)
        return json.loads(line), sock

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(accept, listener)
        join: Invitation = {
            "control": f"127.0.0.1:{listener.getsockname()[1]}",
            "token": TOKEN,
            **more,  # type: ignore[typeddict-item]
        }
        presence.announce(join)
        return waiting.result(30)


def test_a_proc_of_a_library_says_where_it_is_and_its_last_word() -> None:
    hello, control = announced(library="MPICH")
    with control:
        assert hello == {
            "role": "joining",
            "pid": os.getpid(),
            "node": socket.gethostname(),
        }
        sock = presence.connection()
        assert sock is not None
        # The last that the kernel closes would be the lowest
        assert sock.fileno() > 100
        presence.last_word(presence.FINALIZED)
        assert control.recv(100) == b"finalized"


@pytest.mark.parametrize(
    ("before", "heard"), [(b"", b"exit 3"), (presence.FINALIZED, b"finalized")]
)
def test_a_proc_that_leaves_at_once_tells_its_code(
    before: bytes, heard: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    _, control = announced(library="MPICH")
    with control:
        if before:
            presence.last_word(before)
        os._exit(259)
        assert left == [259]
        for sock in presence._open:
            sock.shutdown(socket.SHUT_WR)
        assert control.recv(100) == heard
        assert control.recv(100) == b""


def test_one_without_a_library_leaves_as_ever() -> None:
    leave = os._exit
    announced(rank=3)[1].close()
    assert os._exit is leave


def test_one_without_a_library_says_its_rank() -> None:
    hello, control = announced(rank=3)
    with control:
        assert hello == {"role": "present", "rank": 3}


def test_a_child_leaves_the_connection_to_its_parent() -> None:
    _, control = announced(rank=0)
    with control:
        presence._leave_to_parent()
        assert presence.connection() is None
        presence.last_word(b"of a child")  # nobody hears it
        assert control.recv(100) == b""


def test_an_impirun_that_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        where = f"127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(LaunchError, match=f"impirun does not answer at {where}"):
        presence.announce({"control": where, "token": TOKEN, "rank": 0})


def test_a_peer_that_has_closed_ends_no_c_program():
    """Python ignores SIGPIPE, but a program in C has its default, which ends the process."""
    program = """
import signal, socket
from impi.rank.engine.channels import channels
from impi.rank.engine.job import bootstrap
from impi.rank.vendors import presence
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for home in (presence._open, bootstrap._control):
    mine, other = socket.socketpair()
    other.close()
    home.append(mine)
presence.last_word(b"bye")
bootstrap.alarm()
try:
    mine.send(b"x", channels._NOW)
except BrokenPipeError:
    print("lives")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "lives\n"), done
