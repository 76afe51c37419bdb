"""A look at processes that hang: what a node tells by itself, and what py-spy sees from outside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from forge import FakeBackend, FakeCommand

from impi.base.errors import LabError
from impi.base.remote.supervised import Completed
from impi.lab.backends.stack_output import read_stacks
from impi.lab.evidence.process_snapshot import take_look
from impi.lab.nodes.interface import Stacks
from impi.lab.nodes.topology import parse_topology

PROGRAMS = Path(__file__).parents[3] / "impi/lab/programs"
SLEEPER = """
import socket, sys
ours = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("there", flush=True)
def deep():
    sys.stdin.read()
deep()
"""


def run(
    program: str, *argv: str, path: str = os.environ["PATH"]
) -> subprocess.CompletedProcess[bytes]:
    argv = (sys.executable, str(PROGRAMS / program), *argv)
    return subprocess.run(
        argv, capture_output=True, timeout=60, check=False, env={"PATH": path}
    )


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a connection on which three octets wait to be read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = [sys.executable, "-c", SLEEPER, str(listener.getsockname()[1])]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        connection, _ = listener.accept()
        assert process.stdout is not None
        process.stdout.readline()
        connection.sendall(b"abc")
        yield process
        process.kill()
        process.communicate()
        connection.close()


def wrapped(folder: Path, pid: int, status: int | None) -> None:
    (folder / f"wrap-{pid + 1000000}.json").write_text(
        json.dumps({"pid": pid, "status": status})
    )


def test_a_node_tells_states_and_sockets(tmp_path, sleeper):
    wrapped(tmp_path, sleeper.pid, None)
    wrapped(tmp_path, 1, 0)  # it has ended
    (tmp_path / "wrap-3.json").write_text("{")
    said = json.loads(run("look.py", str(tmp_path)).stdout)
    assert list(said["ranks"]) == [str(sleeper.pid)]
    state = said["ranks"][str(sleeper.pid)]
    assert state["state"][0] in "SR"
    assert not state["initialised"]
    (waiting,) = said["sockets"]
    assert waiting["state"] == "ESTABLISHED"
    assert waiting["unread"] == 3
    assert waiting["local"].startswith("127.0.0.1:")


def test_a_process_that_is_gone(tmp_path, sleeper):
    sleeper.kill()
    sleeper.wait()
    wrapped(tmp_path, sleeper.pid, None)
    (tmp_path / f"init-{sleeper.pid}.json").write_text("{}")
    said = json.loads(run("look.py", str(tmp_path)).stdout)
    assert said["ranks"][str(sleeper.pid)] == {"initialised": True, "state": "gone"}


def test_where_a_process_stands(sleeper):
    said = json.loads(run("stacks.py", str(sleeper.pid)).stdout)[str(sleeper.pid)]
    if isinstance(said, str) and "ermission" in said:
        pytest.skip(f"this user may not trace processes: {said}")
    assert said[0].endswith(" in deep")
    assert said[0].startswith('File "')


def test_why_there_is_no_stack(sleeper):
    sleeper.kill()
    sleeper.wait()
    (said,) = json.loads(run("stacks.py", str(sleeper.pid)).stdout).values()
    assert said.startswith("py-spy: ")


def test_without_py_spy(sleeper, tmp_path):
    # A link elsewhere to the interpreter: there is no py-spy beside it.
    (tmp_path / "python").symlink_to(sys.executable)
    argv = [str(tmp_path / "python"), str(PROGRAMS / "stacks.py"), str(sleeper.pid)]
    done = subprocess.run(
        argv, capture_output=True, timeout=60, check=False, env={"PATH": str(tmp_path)}
    )
    assert json.loads(done.stdout) == {str(sleeper.pid): "py-spy is not installed"}


def test_stacks_are_read_with_their_notes():
    said = {"7": ['File "a", line 1 in f'], "8": "py-spy: no", "9": "py-spy: no"}
    stacks = read_stacks("c0n0", json.dumps(said).encode(), b"")
    assert stacks.frames == {"c0n0": {7: ('File "a", line 1 in f',)}}
    assert stacks.notes == ("c0n0: no stacks from outside: py-spy: no",)
    assert read_stacks("c0n0", b"", b"Traceback\nboom\n").notes == (
        "c0n0: no stacks from outside: boom",
    )


# -- all nodes


def opened(monkeypatch=None, **said: bytes | LabError):
    """A made-up lab whose nodes answer so."""
    lab = FakeBackend().open(("pure", "pure"), parse_topology("1x1+1x1"), run="r")

    def start(node, argv):
        value = said[node.name]
        if isinstance(value, LabError):
            raise value
        return FakeCommand(
            Completed(argv=(), code=0, stdout=value, stderr=b"no such file\n")
        )

    lab.start = start  # type: ignore[method-assign]
    return lab


FOLDERS = {"c0n0": "/x/cell-1", "c1n0": "/x/cell-1"}


def answer(pid: int) -> bytes:
    state = {"state": "S (sleeping)", "cpu_s": 1.25, "threads": 3, "initialised": False}
    connection = {
        "pid": pid,
        "local": "a:1",
        "remote": "b:2",
        "state": "ESTABLISHED",
        "unsent": 0,
        "unread": 640,
    }
    listens = {
        "pid": pid,
        "local": "a:1",
        "remote": "b:0",
        "state": "LISTEN",
        "unsent": 0,
        "unread": 0,
    }
    return json.dumps(
        {"at": 5.0 + pid, "ranks": {pid: state}, "sockets": [connection, listens]}
    ).encode()


def test_all_nodes_are_asked():
    lab = opened(c0n0=answer(7), c1n0=answer(8))
    asked = []
    lab.stacks = lambda pids: (
        asked.append(pids) or Stacks(frames={"c0n0": {7: ("File",)}})
    )
    look = take_look(lab, FOLDERS, "the time limit")
    assert asked == [{"c0n0": [7], "c1n0": [8]}]
    assert look.at == 13.0
    assert look.processes["c1n0"] == {
        8: "S (sleeping), 1.2 s of a processor, 3 threads; MPI not initialised"
    }
    assert look.sockets["c0n0"] == (
        "pid 7: a:1 -> b:2 ESTABLISHED, 640 octets unread",
        "pid 7: listens on a:1",
    )
    assert look.stacks == {"c0n0": {7: ("File",)}}
    assert look.notes == ()


def test_what_cannot_be_seen_is_noted():
    lab = opened(c0n0=b"", c1n0=LabError("c1n0: the connection was lost"))

    def stacks(_pids):
        raise LabError("the engine is gone")

    lab.stacks = stacks
    look = take_look(lab, FOLDERS, "the time limit")
    assert look.notes == (
        "c1n0: the connection was lost",
        "c0n0: no look at its processes and sockets: no such file",
        "no stacks from outside: the engine is gone",
    )
    assert look.at > 1e9
